"""Restores a backup to a point in time, in an empty data folder, and repeats later purges.

All work happens beside the final path, to which the data is moved last, so no cluster can serve it before the purges
are repeated. The purges come from the log: the newest state of every timeline is restored first, its purges are read,
and it is discarded.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg

from skein_cluster import registry
from skein_cluster.backup import (
    cold_storage,
    extraction,
    lsn,
    previous_cluster,
    purge_replay,
    retention,
    wal_archive,
    wal_signatures,
)
from skein_cluster.backup import deletions as erasures
from skein_cluster.backup.deletions import Deletions
from skein_cluster.backup.lsn import Segment
from skein_cluster.backup.repository import BackupDamaged
from skein_cluster.backup.signatures import BackupKey
from skein_cluster.backup.wal_archive import WalArchive, WalRange
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.embedded.account import Account
from skein_cluster.embedded.binaries import MAJOR
from skein_cluster.embedded.databases import DATABASE, quote_identifier
from skein_cluster.embedded.errors import PostgresDidNotStart
from skein_cluster.embedded.private_dir import digest, private_folder
from skein_cluster.embedded.recovery import delete_data, prepare_restore
from skein_cluster.embedded.server import SUPERUSER
from skein_kit.database.schema_migrations import migrate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skein_cluster.backup.repository import Backup, BackupRepository
    from skein_cluster.embedded.recovery import RestoreTarget
    from skein_cluster.embedded.server import Server

    Connection = asyncpg.Connection[asyncpg.Record]

# Recovery of a large log takes hours.
_RECOVERY_SECONDS = 7 * 24 * 3600.0
_FATAL = "FATAL:  "
_TIMELINE = "SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int"
_REPLAYED = "SELECT pg_last_wal_replay_lsn()::text"


@dataclass(frozen=True, kw_only=True, slots=True)
class RestoreResult:
    """The result of a restore."""

    backup_id: str
    # Time of the last transaction; None for none since the backup.
    last_time: datetime | None
    timeline: int
    # Numbers of repeated purges by kind.
    purged: Mapping[str, int]
    # Time up to which purges are known; None without a log.
    purges_known_until: datetime | None
    # Missing files of cold storage.
    missing: list[str]
    # The last readable segment when later ones exist; empty for none.
    last_readable_segment: str
    # Duration of each step in seconds.
    seconds: Mapping[str, float]


@dataclass(kw_only=True, slots=True)
class _StepTimer:
    """Measures the steps, and reports the start of each."""

    on_progress: Callable[[str], None]
    seconds: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def step(self, name: str, message: str) -> Iterator[None]:
        """Measure a step; times of one name are added."""
        self.on_progress(message)
        started = time.monotonic()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - started


async def restore(
    folder: BackupRepository,
    backup: Backup,
    data_dir: Path,
    environment: Mapping[str, str],
    *,
    to: datetime | None,
    timeline: int | None,
    on_progress: Callable[[str], None],
) -> RestoreResult:
    """Restore a backup to a point in time, or to the end of the log, in a data folder without a database.

    The restore follows `timeline`, or the newest timeline without one.

    Raises CommandError, BackupDamaged, and the embedded server's errors; then the data folder stays empty.
    """
    _check_versions(backup)
    watch = _StepTimer(on_progress=on_progress)
    with (
        folder.read_lock(),
        prepare_restore(data_dir / "postgres", seconds=_RECOVERY_SECONDS) as target,
        contextlib.ExitStack() as stack,
    ):
        with watch.step("read log", "Reading the log …"):
            previous = await previous_cluster.inspect_previous(backup, folder, data_dir)
            log = await asyncio.to_thread(WalArchive, folder, backup.wal_segment_bytes)
            if log.unsigned:
                on_progress(
                    f"{len(log.unsigned)} files of the log are left out, such as {log.unsigned[0]}: no trusted key has"
                    " signed them as they are. --allow-unsigned reads them."
                )
            timeline = await retention.choose_timeline(log, [backup], timeline)
            to = await _within(folder, log.wal_range(backup, timeline), backup, to, previous)
        wal = stack.enter_context(_signed_log(log, data_dir))
        recovering = _Recovery(
            folder=folder,
            log=log,
            wal=wal,
            target=target,
            watch=watch,
            log_folders=previous.logs,
            data_dir=data_dir,
        )
        deletions = await recovering.erasures(backup, previous, skipped_timeline=timeline if to is None else None)
        data = target.folder()
        try:
            with watch.step("unpack", f"Unpacking {backup.backup_id} …"):
                await recovering.unpack(backup, data)
            result = await recovering.complete(backup, data, timeline, deletions, data_dir, environment, to=to)
            target.complete(data)
        except BaseException:
            delete_data(data)
            raise
    return result


@dataclass(frozen=True, kw_only=True, slots=True)
class _Recovery:
    """The steps of one restore."""

    folder: BackupRepository
    log: WalArchive
    # The folder of the log's trusted files.
    wal: Path
    target: RestoreTarget
    # The data folder that the restore makes, whose key signs the log from then on.
    data_dir: Path
    watch: _StepTimer
    # Folders of the previous cluster with segments that the archive lacks.
    log_folders: Sequence[Path]

    async def erasures(
        self, backup: Backup, previous: previous_cluster.PreviousCluster, *, skipped_timeline: int | None
    ) -> Deletions:
        """Return the deletions of the previous cluster, and of the newest state of every timeline.

        `skipped_timeline` is left out, because the restore leads to its newest state itself.
        """
        deletions = Deletions()
        if previous.erasures is not None:
            deletions.add(previous.erasures)
        backups = [
            candidate for candidate in self.folder.backups() if candidate.system_identifier == backup.system_identifier
        ]
        timelines = sorted({candidate.timeline for candidate in backups} | {*self.log.timelines})
        for timeline in timelines:
            leading = [candidate for candidate in backups if self.log.leads_to(candidate, timeline)]
            if not leading or (timeline == skipped_timeline and leading[-1] == backup):
                continue
            data = self.target.folder()
            try:
                with self.watch.step("read purges", "Reading later purges …"):
                    newest = await self._unpack_newest(leading, data)
                    async with self._server(newest, data, timeline, to=None, archives=False) as server:
                        deletions.add(await self._erasures_of(server, newest, timeline))
            finally:
                delete_data(data)
        return deletions

    async def _erasures_of(self, server: Server, backup: Backup, timeline: int) -> Deletions:
        connection = await _connect(server, backup.superuser, backup.database)
        try:
            deletions = await erasures.read_deletions(connection)
            last = await connection.fetchval("SELECT pg_last_xact_replay_timestamp()")
            deletions.until = max(filter(None, (last, backup.finish_time)))
            if last_segment := await self._unread(connection, backup, timeline):
                self.watch.on_progress(f"The log cannot be read beyond {last_segment}: later purges are unknown.")
        finally:
            await connection.close()
        return deletions

    async def _unread(self, connection: Connection, backup: Backup, timeline: int) -> str:
        """Return the segment where recovery ended before the archive's end; empty for none."""
        size = backup.wal_segment_bytes
        replayed_segment = (lsn.parse_lsn(await connection.fetchval(_REPLAYED) or backup.stop_lsn) - 1) // size
        if self.log.wal_range(backup, timeline).end <= replayed_segment:
            return ""
        return Segment(timeline, replayed_segment).name(size)

    async def _unpack_newest(self, backups: Sequence[Backup], data: Path) -> Backup:
        """Extract the newest complete backup; the log leads from an older one to the same end."""
        for backup in backups[:0:-1]:
            try:
                await self.unpack(backup, data)
            except BackupDamaged as damaged:
                self.watch.on_progress(f"{damaged} Using an older backup.")
                await asyncio.to_thread(_emptied, data)
            else:
                return backup
        await self.unpack(backups[0], data)
        return backups[0]

    async def unpack(self, backup: Backup, data: Path) -> None:
        """Extract a backup's data, and request recovery from the server."""
        set_owner = self.target.account.chown
        await asyncio.to_thread(
            extraction.extract, self.folder.of(backup), backup.files, data, set_owner, _ignore_progress
        )
        signal = data / "recovery.signal"
        signal.touch(mode=0o600)
        set_owner(signal)

    async def complete(
        self,
        backup: Backup,
        data: Path,
        timeline: int,
        deletions: Deletions,
        data_dir: Path,
        environment: Mapping[str, str],
        *,
        to: datetime | None,
    ) -> RestoreResult:
        """Recover the data, migrate its schema, and repeat purges."""
        with contextlib.ExitStack() as timed_steps:
            timed_steps.enter_context(self.watch.step("recover", "Recovering …"))
            async with self._server(backup, data, timeline, to=to, archives=not self.log.is_empty) as server:
                timed_steps.close()
                await _named_as_here(server, backup)
                url = server.url(user=backup.superuser, database=DATABASE)
                with self.watch.step("migrate", "Migrating the schema …"):
                    await migrate(url, registry.migrations(), registry.WITH_DATABASE)
                connection = await _connect(server, backup.superuser, DATABASE)
                try:
                    last = await connection.fetchval("SELECT pg_last_xact_replay_timestamp()")
                    new_timeline = await connection.fetchval(_TIMELINE)
                    unread = await self._unread(connection, backup, timeline) if to is None else ""
                    target_environment = {"SKEIN_DATA_DIR": str(data_dir), **environment}
                    with self.watch.step("purge", "Repeating later purges …"):
                        new_tombstones = deletions.since(await erasures.read_deletions(connection))
                        missing = cold_storage.restore_files(
                            await cold_storage.referenced_files(connection),
                            self.folder,
                            cold_storage.archive_folders(target_environment),
                            _cold_of(backup),
                        )
                        purged = await purge_replay.replay_purges(
                            connection, url, target_environment, deletions=deletions, new_tombstones=new_tombstones
                        )
                finally:
                    await connection.close()
        return RestoreResult(
            backup_id=backup.backup_id,
            last_time=last,
            timeline=new_timeline,
            purged=purged,
            # A restore to the end of the log has the purges already.
            purges_known_until=max(
                filter(None, (deletions.until, None if to else last or backup.finish_time)), default=None
            ),
            missing=missing,
            last_readable_segment=unread,
            seconds=self.watch.seconds,
        )

    @contextlib.asynccontextmanager
    async def _server(
        self, backup: Backup, data: Path, timeline: int, *, to: datetime | None, archives: bool
    ) -> AsyncIterator[Server]:
        settings = {
            "restore_command": wal_archive.restore_command(self.wal, self.log_folders),
            "recovery_target_timeline": str(timeline),
            "recovery_target_action": "promote",
            "max_connections": "100",
        }
        if to is not None:
            settings["recovery_target_time"] = to.isoformat(sep=" ")
        try:
            async with contextlib.AsyncExitStack() as stack:
                if archives:
                    # A restored database starts its own timeline in the same archive.
                    settings |= wal_archive.archive_settings(self.folder)
                    signing = wal_signatures.signed_archive(data, self.folder.wal, BackupKey.of(self.data_dir))
                    await stack.enter_async_context(signing)
                yield await stack.enter_async_context(self.target.running(data, settings))
        except PostgresDidNotStart as error:
            fatal_lines = [line.partition(_FATAL)[2] for line in str(error).splitlines() if _FATAL in line]
            reason = fatal_lines[-1] if fatal_lines else str(error).splitlines()[0]
            raise CommandError(
                f"The backup {backup.backup_id} could not be recovered: {reason}.", ExitCode.FAULT
            ) from error


@contextlib.contextmanager
def _signed_log(log: WalArchive, data_dir: Path) -> Iterator[Path]:
    """Make a folder of links to the log's trusted files: recovery reads no other ones. It is removed at the end."""
    folder = private_folder(Account.for_server()) / f"log-{digest(data_dir.absolute())}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    # The server's user has to enter it.
    folder.chmod(0o755)
    for path in log.signed_files:
        (folder / path.name).symlink_to(path)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _emptied(data: Path) -> None:
    for path in data.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _check_versions(backup: Backup) -> None:
    problem = ""
    newest = registry.migrations()[-1].number
    if backup.major != MAJOR:
        problem = (
            f"The backup is of Postgres {backup.major}, and this machine's is {MAJOR}; unpack it by hand for a server"
            f" of {backup.major}."
        )
    elif backup.schema_version > newest:
        problem = (
            f"The backup's schema is at version {backup.schema_version}, and this version of Skein knows {newest};"
            f" restore with Skein {backup.skein_version}."
        )
    if problem:
        raise CommandError(problem, ExitCode.CANNOT_START)


async def _within(
    folder: BackupRepository,
    wal_range: WalRange,
    backup: Backup,
    to: datetime | None,
    previous: previous_cluster.PreviousCluster,
) -> datetime | None:
    """Return the target time; None for the end of the log. Raises CommandError for a time outside the window."""
    if to is None:
        return None
    last = await wal_archive.last_moment(wal_range, backup)
    if not wal_range.missing and previous.last_time is not None:
        # Segments missing in the archive come from the previous cluster.
        last = max(filter(None, (last, previous.last_time)))
    until = max(filter(None, (last, backup.finish_time)))
    if to < backup.finish_time or to > until:
        message = (
            f"{format_moment(to)} is outside the recovery window of {backup.backup_id} in {folder.path}:"
            f" from {format_moment(backup.finish_time)} to {format_moment(until)}."
        )
        raise CommandError(message, ExitCode.REFUSED)
    return None if to == until else to


def format_moment(moment: datetime) -> str:
    """Return a time as printed, and as --to accepts it."""
    return moment.isoformat(sep=" ", timespec="microseconds").replace("+00:00", "Z")


def _cold_of(backup: Backup) -> dict[str, Path]:
    return cold_storage.archive_folders({"SKEIN_DATA_DIR": backup.data_dir}) if backup.data_dir else {}


async def _named_as_here(server: Server, backup: Backup) -> None:
    """Rename the database and create the superuser of the embedded cluster; a backup by URL may have others."""
    connection = await _connect(server, backup.superuser, "template1")
    try:
        if backup.database != DATABASE:
            await connection.execute(
                f"ALTER DATABASE {quote_identifier(backup.database)} RENAME TO {quote_identifier(DATABASE)}"
            )
        if backup.superuser != SUPERUSER:
            await connection.execute(f"CREATE ROLE {quote_identifier(SUPERUSER)} SUPERUSER LOGIN")
    finally:
        await connection.close()


async def _connect(server: Server, user: str, database: str) -> Connection:
    return await asyncpg.connect(**server.dsn(user=user, database=database))


def _ignore_progress(_count: int) -> None:
    """Ignore progress."""
