"""What the kernel knows of a process and all that it started: processor time, memory, files, threads. Linux alone."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
# Fields of /proc/PID/stat after the name, from 0.
_PARENT, _USER, _CHILDREN_END, _THREADS, _RESIDENT = 1, 11, 15, 17, 21


@dataclass(frozen=True, kw_only=True, slots=True)
class Process:
    """One process at one moment."""

    pid: int
    name: str
    parent: int
    # Its own and that of its children that have ended.
    cpu_seconds: float
    threads: int
    resident_bytes: int

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """Look at a process; None when there is none (any more)."""
        try:
            text = Path(f"/proc/{pid}/stat").read_text("utf-8")
        except (FileNotFoundError, ProcessLookupError):
            return None
        before, _, after = text.rpartition(")")
        fields = after.split()
        return cls(
            pid=pid,
            name=before.partition("(")[2],
            parent=int(fields[_PARENT]),
            cpu_seconds=sum(map(int, fields[_USER:_CHILDREN_END])) / _TICKS,
            threads=int(fields[_THREADS]),
            resident_bytes=int(fields[_RESIDENT]) * _PAGE,
        )

    @property
    def private_bytes(self) -> int:
        """Return the resident memory that it shares with no other process; 0 when it has ended."""
        try:
            resident, shared = Path(f"/proc/{self.pid}/statm").read_text("utf-8").split()[1:3]
        except (FileNotFoundError, ProcessLookupError):
            return 0
        return (int(resident) - int(shared)) * _PAGE

    @property
    def open_files(self) -> int:
        """Return how many file descriptors are open; 0 when it has ended."""
        try:
            return len(os.listdir(f"/proc/{self.pid}/fd"))  # noqa: PTH208 - only the number is wanted.
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return 0


def family(pid: int) -> list[Process]:
    """Return a process and everything that it started, directly or not."""
    processes = [
        process
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and (process := Process.of(int(entry.name))) is not None
    ]
    results = {pid}
    while grown := {process.pid for process in processes if process.parent in results} - results:
        results |= grown
    return [process for process in processes if process.pid in results]


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process and everything that it started have used."""
    return sum(process.cpu_seconds for process in family(pid))
