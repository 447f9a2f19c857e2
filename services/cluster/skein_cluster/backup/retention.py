"""Retention: removes old backups, and the log and files that only they needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein_cluster.backup import cold_storage
from skein_cluster.backup.wal_archive import WalArchive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skein_cluster.backup.repository import BackupRepository


@dataclass(frozen=True, kw_only=True, slots=True)
class PruneResult:
    """What was removed."""

    backup_ids: Sequence[str]
    segments: int
    cold_files: int


def prune_backups(folder: BackupRepository, keep: int) -> PruneResult:
    """Keep the newest backups, and the log and files that they need. The caller holds the write lock."""
    backups = folder.backups()
    kept = backups[-keep:]
    gone = backups[:-keep]
    for backup in gone:
        folder.remove(backup)
    segments = []
    if kept:
        segments = WalArchive(folder, kept[0].wal_segment_bytes).before(kept)
        for path in segments:
            path.unlink(missing_ok=True)
    return PruneResult(
        backup_ids=[backup.backup_id for backup in gone],
        segments=len(segments),
        cold_files=cold_storage.prune_files(folder, kept),
    )
