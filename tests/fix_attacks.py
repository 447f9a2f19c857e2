"""What attacks share: how large they are, and what they make a process spend.

`make test` runs a sample of each attack, `make soak` all of it (SKEIN_ATTACKS=full).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


def attack_size(sample: int, full: int) -> int:
    """Return how often an attack is repeated: `sample` in `make test`, `full` in `make soak`."""
    return full if os.environ.get("SKEIN_ATTACKS") == "full" else sample


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """What a process has spent since its start, or between two readings."""

    cpu_seconds: float
    # Memory in use now; negative between two readings when the process has given some back.
    resident_bytes: int
    open_files: int

    @classmethod
    def of(cls, *pids: int) -> Self:
        """Read the sums over live processes. Raises FileNotFoundError when one of them has ended."""
        times = [Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split() for pid in pids]
        return cls(
            sum(int(one[11]) + int(one[12]) for one in times) / _TICKS,
            sum(int(one[21]) * _PAGE_BYTES for one in times),
            sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids),
        )

    def __sub__(self, before: ResourceUsage) -> ResourceUsage:
        return ResourceUsage(
            self.cpu_seconds - before.cpu_seconds,
            self.resident_bytes - before.resident_bytes,
            self.open_files - before.open_files,
        )
