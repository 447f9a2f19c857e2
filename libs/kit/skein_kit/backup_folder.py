"""The folder of backups, and the newest backup in it. Does not know how backups are made."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from skein_kit.settings import Settings

# A backup is a folder below this one. It is complete when it contains the manifest, which is written last.
BACKUPS = "backups"
MANIFEST = "backup.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class BackupSettings(Settings):
    """Settings of `skein backup`, the embedded cluster and the worker."""

    # Folder of backups and of the archived write-ahead log, which an embedded cluster adds to at least once a minute.
    # Unset: the log is not archived, and `skein backup` uses "backups" below SKEIN_DATA_DIR.
    backup_dir: Path | None = None
    # Public keys, separated by commas, that verify backups besides that of the data folder; `skein backup key` prints
    # a cluster's.
    backup_keys: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewestBackup:
    """The finish time of the newest backup, and its size in bytes."""

    finish_time: datetime
    byte_count: int


def find_newest_backup(folder: Path) -> NewestBackup | None:
    """Return the newest backup below a folder; None without a readable one."""
    newest: NewestBackup | None = None
    for path in folder.glob(f"{BACKUPS}/*/{MANIFEST}"):
        if path.parent.name.startswith("."):
            continue
        try:
            manifest = json.loads(path.read_text("utf-8"))
            backup = NewestBackup(
                finish_time=datetime.fromisoformat(manifest["finish_time"]).astimezone(UTC),
                byte_count=sum(file["bytes"] for file in manifest["files"].values()),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
        if newest is None or backup.finish_time > newest.finish_time:
            newest = backup
    return newest
