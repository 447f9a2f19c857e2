"""Threads that embed bulk requests on idle cores: how many there are, and their priority."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

# Added to the nice value of the process. A thread that serves calls then gets ten times the share of a core, and what
# is left on a busy machine still ends a batch within a second.
_NICE_STEP: Final = 10
_LOWEST_PRIORITY: Final = 19
# Quota and period of a container, in microseconds; "max" instead of a quota where there is none.
_CPU_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")


def bulk_thread_count(most: int) -> int:
    """Return one thread for each core that the process may use, at most `most`.

    One where threads have no priorities of their own: more would take the cores from calls.
    """
    if sys.platform != "linux":
        return 1
    return max(1, min(most, available_cores(len(os.sched_getaffinity(0)))))


def available_cores(cores: int, quota_file: Path = _CPU_QUOTA) -> int:
    """Return how many of the cores the quota of the container allows, at least one."""
    with suppress(OSError, ValueError):
        quota, period = map(int, quota_file.read_text("ascii").split())
        return max(1, min(cores, quota // period))
    return cores


def lower_priority() -> None:
    """Have the calling thread yield to threads that serve calls."""
    if sys.platform == "linux":
        # A sandbox may forbid it.
        with suppress(OSError):
            nice = os.getpriority(os.PRIO_PROCESS, 0) + _NICE_STEP
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), min(nice, _LOWEST_PRIORITY))
