"""The settings that an embedded server starts with; what the caller gives wins over them."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_ALWAYS = {
    # The services of one process have a pool each, and the worker listens on connections of its own.
    "max_connections": "200",
    "io_method": "sync",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # The messages, details and statements of errors carry what users wrote; whoever made the call gets them anyway.
    # In this order of levels LOG and FATAL stay, ERROR and WARNING go.
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
}

_MEGABYTE = 1024 * 1024
# The most that a group of processes may take, as Linux tells its containers.
_LIMIT = Path("/sys/fs/cgroup/memory.max")


def _cache() -> str:
    """An eighth of the memory that there is, a gigabyte at most: rows that come from files cost far more."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # There may be no limit, which is called "max", or no such file.
    with suppress(OSError, ValueError):
        memory = min(memory, int(_LIMIT.read_text("ascii")))
    return f"{min(1024, max(64, memory // 8 // _MEGABYTE))}MB"


DURABLE_SETTINGS: Mapping[str, str] = MappingProxyType(
    _ALWAYS
    | {
        "shared_buffers": _cache(),
        "random_page_cost": "1.1",
        # After a kill each file is synchronized by itself unless the system can do it at once, which saves seconds.
        **({"recovery_init_sync_method": "syncfs"} if sys.platform == "linux" else {}),
        # Few partitions and many tenants of very different size: a generic plan is wrong for most of them.
        "plan_cache_mode": "force_custom_plan",
        # The covering indexes are read without the heap only where the visibility map is fresh.
        "autovacuum_naptime": "10s",
        "autovacuum_vacuum_insert_threshold": "200",
        "autovacuum_vacuum_insert_scale_factor": "0.02",
        "autovacuum_analyze_scale_factor": "0.05",
    },
)

# For tests: a power cut loses everything, a killed process nothing.
EPHEMERAL_SETTINGS: Mapping[str, str] = MappingProxyType(
    _ALWAYS
    | {
        "shared_buffers": "256MB",
        # The tests keep their data in memory, where a gigabyte of log would be for nothing.
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
