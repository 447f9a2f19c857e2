"""Fixtures for every test; they live in the `fix_*` modules beside this file."""

from __future__ import annotations

import skein_kit  # Before anything imports grpc: it keeps grpc quiet when tests start programs.

__all__ = ["skein_kit"]
pytest_plugins = ["fix_cluster", "fix_database", "fix_recall"]
