"""Fixtures for every test; they live in the `fix_*` modules beside this file."""

from __future__ import annotations

pytest_plugins = ["fix_cluster", "fix_database"]
