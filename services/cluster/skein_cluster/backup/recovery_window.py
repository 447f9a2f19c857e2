"""Points in time that backups can be restored to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from skein_cluster.backup import wal_archive
from skein_cluster.backup.repository import Backup, BackupRepository
from skein_cluster.backup.wal_archive import WalArchive


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
