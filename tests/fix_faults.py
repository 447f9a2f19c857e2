"""The Postgres of a cluster in another process, found by its data folder."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from skein_cluster.embedded.databases import DATABASE

# Lines of postmaster.pid, from 0.
_PID, _PORT, _SOCKETS = 0, 3, 4


def server_pid(data_dir: Path) -> int:
    """Return the process of the server that runs on a cluster's data folder."""
    return int(_lines(data_dir)[_PID])


def database_url(data_dir: Path) -> str:
    """Connect as superuser."""
    lines = _lines(data_dir)
    return f"postgresql://postgres@/{DATABASE}?host={quote(lines[_SOCKETS], safe='')}&port={lines[_PORT]}"


def _lines(data_dir: Path) -> list[str]:
    return [line.strip() for line in (data_dir / "postgres" / "postmaster.pid").read_text("utf-8").splitlines()]
