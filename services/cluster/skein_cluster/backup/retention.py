"""Which backups are kept, removed and restored: retention, recovery windows, and the choice of backup and timeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from skein_cluster.backup import cold_storage, wal_archive, wal_signatures
from skein_cluster.backup.repository import Backup, BackupRepository
from skein_cluster.backup.wal_archive import WalArchive
from skein_cluster.cli.exit_codes import CommandError, ExitCode


@dataclass(frozen=True, kw_only=True, slots=True)
class PruneResult:
    """The removed backups, segments and files."""

    backup_ids: Sequence[str]
    segments: int
    cold_files: int


def prune_backups(folder: BackupRepository, keep: int) -> PruneResult:
    """Keep the newest backups, and the log and files that they need. The caller has the write lock."""
    backups = folder.backups()
    newest = backups[-keep:]
    removed = backups[:-keep]
    for backup in removed:
        folder.remove(backup)
    segments = []
    if newest:
        segments = WalArchive(folder, newest[0].wal_segment_bytes).unneeded_files(newest)
        for path in segments:
            path.unlink(missing_ok=True)
            wal_signatures.remove_signature(path)
    return PruneResult(
        backup_ids=[backup.backup_id for backup in removed],
        segments=len(segments),
        cold_files=cold_storage.prune_files(folder, newest),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class RecoveryWindow:
    """From the end of a backup to the last transaction of the log without a gap."""

    backup: Backup
    # Each restore starts a timeline.
    timeline: int
    until: datetime
    # The first missing segment before existing ones; empty for none.
    gap: str


async def recovery_windows(folder: BackupRepository) -> list[RecoveryWindow]:
    """Return every backup with a window for each timeline, oldest first."""
    result: list[RecoveryWindow] = []
    for backup in folder.backups():
        log = WalArchive(folder, backup.wal_segment_bytes)
        for timeline in log.timelines_of(backup):
            wal_range = log.wal_range(backup, timeline)
            last = await wal_archive.last_moment(wal_range, backup) if wal_range.files else None
            result.append(
                RecoveryWindow(
                    backup=backup,
                    timeline=timeline,
                    until=max(filter(None, (last, backup.finish_time))),
                    gap=wal_range.missing[0] if wal_range.missing else "",
                )
            )
    return result


async def choose_timeline(log: WalArchive, backups: Sequence[Backup], requested: int | None) -> int:
    """Return the requested timeline, else the one with the latest transaction. Raises CommandError.

    Each restore starts a timeline, also a trial beside a running cluster, so the newest number may be wrong.
    """
    timelines = sorted({number for backup in backups for number in log.timelines_of(backup)})
    if requested is not None and requested not in timelines:
        raise CommandError(
            f"No backup leads to timeline {requested}; known timelines: {', '.join(map(str, timelines))}.",
            ExitCode.REFUSED,
        )
    if requested is not None or len(timelines) == 1:
        return requested or timelines[0]
    last_times = {number: await _last(log, backups, number) for number in timelines}
    return max(timelines, key=lambda number: (last_times[number], number))


def newest_backup(log: WalArchive, backups: Sequence[Backup], timeline: int, before: datetime | None) -> Backup:
    """Return the newest backup that leads to a timeline, finished by `before` if set.

    Without one, the error names the earliest possible time, from the oldest backup.
    """
    candidates = [backup for backup in backups if log.leads_to(backup, timeline)]
    earlier = [backup for backup in candidates if before is None or backup.finish_time <= before]
    return (earlier or candidates[:1])[-1]


async def _last(log: WalArchive, backups: Sequence[Backup], timeline: int) -> datetime:
    backup = newest_backup(log, backups, timeline, None)
    last = await wal_archive.last_moment(log.wal_range(backup, timeline), backup)
    return max(filter(None, (last, backup.finish_time)))
