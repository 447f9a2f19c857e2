"""Retention: removes old backups, and the log and files that only they needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skein_cluster.backup import cold_storage, wal_signatures
from skein_cluster.backup.repository import BackupRepository
from skein_cluster.backup.wal_archive import WalArchive


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
