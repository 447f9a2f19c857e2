"""Settings of an embedded server; the caller's settings override them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

MAX_CONNECTIONS = 200
_ALWAYS = {
    # Each service has a pool, and the worker has connections of its own.
    "max_connections": str(MAX_CONNECTIONS),
    "io_method": "sync",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # Errors and their statements contain user texts, and callers get the errors anyway.
    # This level keeps LOG and FATAL, and drops ERROR and WARNING.
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
}

_MEGABYTE = 1024 * 1024
# Memory limits of a container in Linux.
_LIMIT = Path("/sys/fs/cgroup/memory.max")


def _cache() -> str:
    """Return shared_buffers: an eighth of the memory, at most a gigabyte. Rows read from files cost far more."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # Without a limit the file contains "max" or is missing.
    with suppress(OSError, ValueError):
        memory = min(memory, int(_LIMIT.read_text("ascii")))
    return f"{min(1024, max(64, memory // 8 // _MEGABYTE))}MB"


DURABLE_SETTINGS: Mapping[str, str] = MappingProxyType(
    _ALWAYS
    | {
        "shared_buffers": _cache(),
        "random_page_cost": "1.1",
        # One sync of the file system saves seconds after a kill.
        **({"recovery_init_sync_method": "syncfs"} if sys.platform == "linux" else {}),
        # Tenants differ in size, so a generic plan is wrong for most of them.
        "plan_cache_mode": "force_custom_plan",
        # Index-only scans need a fresh visibility map.
        "autovacuum_naptime": "10s",
        "autovacuum_vacuum_insert_threshold": "200",
        "autovacuum_vacuum_insert_scale_factor": "0.02",
        "autovacuum_analyze_scale_factor": "0.05",
    },
)

# For tests: a power cut loses all data, a killed process none.
EPHEMERAL_SETTINGS: Mapping[str, str] = MappingProxyType(
    _ALWAYS
    | {
        "shared_buffers": "256MB",
        # Tests keep data in memory, where a gigabyte of log would be wasted.
        "max_wal_size": "256MB",
        "min_wal_size": "32MB",
        "plan_cache_mode": "force_custom_plan",
        "random_page_cost": "1.1",
        "fsync": "off",
        "full_page_writes": "off",
        "synchronous_commit": "off",
        "wal_level": "minimal",
        "max_wal_senders": "0",
        "autovacuum": "off",
    },
)
