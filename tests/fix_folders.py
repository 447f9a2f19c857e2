"""The temp directory of a test run: in memory where there is room, because disks are slow, and gone with the run.

TMPDIR, where it is set, is kept to: `TMPDIR=/tmp make test` leaves what the tests wrote to be looked at.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

# On Linux; elsewhere the temp directory is what it is.
MEMORY = Path("/dev/shm")  # noqa: S108 - what is made there has a name of its own.
# What five workers and their servers write at the most, and as much again for the programs themselves.
ROOM = 6 << 30
_PREFIX = "skein-tests-"


def use() -> None:
    """Have everything temporary of this process, and of those that it starts, written into memory."""
    if "TMPDIR" in os.environ or not _has_room():
        return
    _sweep()
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=MEMORY))
    # The server's user has to get through.
    folder.chmod(0o711)
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None
    atexit.register(_leave, folder, os.getpid())


def _has_room() -> bool:
    """Whether programs may be run there (the database's are, where they have to be copied), and much fits."""
    try:
        result = os.statvfs(MEMORY)
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    available = {name: value for name, _, value in (line.partition(":") for line in lines)}["MemAvailable"]
    free = min(result.f_bavail * result.f_frsize, int(available.split()[0]) << 10)
    return free >= ROOM and not result.f_flag & (os.ST_NOEXEC | os.ST_RDONLY) and os.access(MEMORY, os.W_OK)


def _sweep() -> None:
    """Remove folders of killed runs: nothing else would before the machine restarts."""
    for folder in MEMORY.glob(f"{_PREFIX}*"):
        if not Path("/proc", folder.name.removeprefix(_PREFIX).partition("-")[0]).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _leave(folder: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
