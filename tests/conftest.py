"""Fixtures for every test; they live in the `fix_*` modules beside this file."""

from __future__ import annotations

import gc
import os

import fix_folders
from hypothesis import HealthCheck, settings

import skein_kit  # Before anything imports grpc: it keeps grpc quiet when tests start programs.

__all__ = ["skein_kit"]
# Before anything asks where temporary files go.
fix_folders.use()
# No example fails for being late: a machine that runs tests may stand still during any of them.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
# The tests' own channels lead to this machine, whatever proxy the network has.
os.environ["no_grpc_proxy"] = "127.0.0.1,localhost"  # noqa: SIM112 - gRPC knows this name.
# First of all, because it may change what services read when they are imported.
pytest_plugins = [
    "fix_layers",
    "fix_cluster",
    "fix_connections",
    "fix_oauth",
    "fix_database",
    "fix_recall",
    "fix_endpoint",
    "fix_models",
    "fix_tenancy",
    "fix_logs",
    "fix_memory",
    "fix_pc2",
    "fix_order",
]


def pytest_collection_finish() -> None:
    """Let the collector skip what stays for the whole run: thousands of tests, and all modules."""
    gc.collect()
    gc.freeze()
