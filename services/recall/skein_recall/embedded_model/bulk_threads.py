"""Threads that embed bulk requests on idle cores: how many there are, and their priority."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# The nice value of the lowest priority.
LOWEST_PRIORITY: Final = 19
# Quota and period of a container, in microseconds; "max" instead of a quota where there is none.
_CPU_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")


@dataclass(frozen=True, kw_only=True, slots=True)
class BulkThreads:
    """How many threads there are, and how far they yield to threads that serve calls."""

    count: int = 1
    # Added to the nice value of the process. With 10 a thread that serves calls gets ten times the share of a core, and
    # what is left on a busy machine still ends a batch within a second.
    nice_step: int = 10

    @classmethod
    def for_this_process(cls, *, most: int, nice_step: int) -> BulkThreads:
        """Return one thread for each core that the process may use, at most `most`.

        One where threads have no priorities of their own: more would take the cores from calls.
        """
        if sys.platform != "linux":
            return cls(nice_step=nice_step)
        return cls(count=max(1, min(most, available_cores(len(os.sched_getaffinity(0))))), nice_step=nice_step)

    def lower_priority(self) -> None:
        """Have the calling thread yield to threads that serve calls."""
        if sys.platform == "linux":
            # A sandbox may forbid it.
            with suppress(OSError):
                nice = os.getpriority(os.PRIO_PROCESS, 0) + self.nice_step
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), min(nice, LOWEST_PRIORITY))


DEFAULT_BULK_THREADS: Final = BulkThreads()


def available_cores(cores: int, quota_file: Path = _CPU_QUOTA) -> int:
    """Return how many of the cores the quota of the container allows, at least one."""
    with suppress(OSError, ValueError):
        quota, period = map(int, quota_file.read_text("ascii").split())
        return max(1, min(cores, quota // period))
    return cores
