"""Fixtures for every test; they live in the `fix_*` modules beside this file."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from pathlib import Path

import fix_folders
import pytest
from hypothesis import HealthCheck, settings

import skein_kit  # Before anything imports grpc: it keeps grpc quiet when tests start programs.

__all__ = ["skein_kit"]
# Before anything asks where temporary files go.
fix_folders.use()
# No example fails for being late: a machine that runs tests may stand still during any of them.
# `make test-all` tries more examples of each property than `make test` does.
settings.register_profile(
    "patient",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=int(os.environ.get("SKEIN_TEST_EXAMPLES", "40")),
)
settings.load_profile("patient")
# The tests' own channels lead to this machine, whatever proxy the network has.
os.environ["no_grpc_proxy"] = "127.0.0.1,localhost"  # noqa: SIM112 - gRPC knows this name.
_TESTS = Path(__file__).parent
# Objects allocated between two collections. Python's 700 cost a fourteenth of a service test's processor time.
_OBJECTS_PER_COLLECTION = 50_000
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
    # It imports some of the others, which pytest has to import first.
    "fix_console",
]


def pytest_configure(config: pytest.Config) -> None:
    """Let each worker of pytest-xdist begin to collect at another file: one compiles a file, the others read it.

    In a fresh clone the compiling of all tests would take half a minute of each worker.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None:
        return
    ignored = [Path(path).resolve() for path in config.getoption("ignore") or ()]
    folders = [Path(argument) for argument in config.args if Path(argument).is_dir()]
    files = [
        str(path)
        for folder in folders
        for path in sorted(folder.rglob("test_*.py"))
        if not any(path.resolve().is_relative_to(each) for each in ignored)
    ]
    start = len(files) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    config.args[:] = [
        *files[start:],
        *files[:start],
        *(argument for argument in config.args if not Path(argument).is_dir()),
    ]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage meanwhile: nearly all that is collected stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files into one order for all workers; mark tests of tests/system and tests/edge, before -m chooses."""
    items.sort(key=lambda item: item.path)
    for item in items:
        folder = item.path.relative_to(_TESTS).parts[0]
        if folder in ("edge", "system"):
            item.add_marker(folder)


def pytest_collection_finish() -> None:
    """Let the collector skip what stays for the whole run, thousands of tests and all modules, and run it seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS_PER_COLLECTION, *gc.get_threshold()[1:])
