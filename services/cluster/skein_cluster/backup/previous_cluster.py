"""The cluster that a backup came from, if it still exists: its state that the backups lack."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import asyncpg

from skein_cluster.backup import deletions as erasures
from skein_cluster.backup import postgres_programs
from skein_cluster.backup.deletions import Deletions
from skein_cluster.backup.lsn import SEGMENT
from skein_cluster.backup.repository import Backup, BackupRepository
from skein_cluster.backup.source import open_embedded_server
from skein_cluster.embedded.errors import EmbeddedPostgresError
from skein_cluster.embedded.recovery import find_server
from skein_cluster.embedded.server import Server

# Segments searched for the last transaction.
_SEGMENTS_BACK = 20
_ARCHIVED_SECONDS = 30.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class PreviousCluster:
    """The log and deletions of the previous cluster that a restore uses."""

    # Folders of its log; a restored cluster has earlier ones too.
    logs: Sequence[Path] = ()
    # Time of the last transaction in these folders.
    last_time: datetime | None = None
    # Its deletions, if it had no archive.
    erasures: Deletions | None = None


async def inspect_previous(backup: Backup, folder: BackupRepository, data_dir: Path) -> PreviousCluster:
    """Inspect the previous data folders; missing or damaged ones are ignored.

    Nothing in them changes, but a stopped cluster without an archive is started to read its deletions.
    """
    logs, times = list[Path](), list[datetime]()
    for old in dict.fromkeys((folder.owner()[1], backup.data_dir)):
        data_folder = _data_folder(old, data_dir)
        if (
            data_folder is None
            or await postgres_programs.system_identifier(data_folder, backup.major) != backup.system_identifier
        ):
            continue
        if not folder.wal.is_dir():
            return PreviousCluster(erasures=await _read_deletions(Path(old), backup))
        server = find_server(data_folder)
        if server is not None:
            await _flush(server, backup)
        logs.append(data_folder / "pg_wal")
        if (last := await _last_moment(logs[-1], backup)) is not None:
            times.append(last)
    return PreviousCluster(logs=logs, last_time=max(times, default=None))


def _data_folder(old: str, data_dir: Path) -> Path | None:
    """Return the folder of an old database; None without one, or when it is the restore's target."""
    if not old or Path(old).resolve() == data_dir.resolve():
        return None
    data_folder = Path(old, "postgres").resolve()
    return data_folder if (data_folder / "global" / "pg_control").exists() else None


async def _read_deletions(data_dir: Path, backup: Backup) -> Deletions | None:
    try:
        async with open_embedded_server(data_dir, {}) as server:
            connection = await asyncpg.connect(**server.dsn(user=backup.superuser, database=backup.database))
            try:
                deletions = await erasures.read_deletions(connection)
                deletions.until = datetime.now(UTC)
                return deletions
            finally:
                await connection.close()
    except (EmbeddedPostgresError, OSError, asyncpg.PostgresError):
        return None


async def _flush(server: Server, backup: Backup) -> None:
    """Wait until a running server has archived its log, at most half a minute."""
    try:
        connection = await asyncpg.connect(**server.dsn(user=backup.superuser, database=backup.database))
    except (OSError, asyncpg.PostgresError):
        return
    try:
        async with asyncio.timeout(_ARCHIVED_SECONDS):
            # Without writes since the last switch, the position is the start of an open segment.
            last = await connection.fetchval("SELECT pg_walfile_name(pg_switch_wal() - 1)")
            statement = "SELECT coalesce(last_archived_wal >= $1, false) FROM pg_stat_archiver"
            while not await connection.fetchval(statement, last):  # noqa: ASYNC110 - the server sends no notice.
                await asyncio.sleep(_POLL_SECONDS)
    except (TimeoutError, asyncpg.PostgresError):
        return
    finally:
        await connection.close()


def _newest(log: Path) -> list[Path]:
    return sorted((path for path in log.iterdir() if SEGMENT.fullmatch(path.name)), reverse=True)


async def _last_moment(log: Path, backup: Backup) -> datetime | None:
    for path in _newest(log)[:_SEGMENTS_BACK]:
        # Segments still in the queue hold nothing readable.
        if (last := await postgres_programs.last_transaction(path, backup.major)) is not None:
            return last
    return None
