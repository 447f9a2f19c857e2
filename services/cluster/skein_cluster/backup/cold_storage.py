"""Files of cold storage, copied once beside the backups and restored from there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import asyncpg

from skein_cluster.backup.repository import COLD_PART, Backup, BackupRepository, sha256, synchronize
from skein_memory.settings import MemorySettings
from skein_session.settings import SessionSettings

_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
# Digits of the checksum at the end of a file's name.
_DIGITS = 16
_REFERENCED_FILES = """
    SELECT 'memory/' || tenant_id || '/' || archive_id || '-' || left(encode(checksum, 'hex'), 16) || '.jsonl.gz'
        AS name
    FROM memory.archives
    UNION ALL
    SELECT 'session/' || tenant_id || '/' || file_id || '-' || left(encode(checksum, 'hex'), 16) || '.jsonl.gz'
    FROM session.archived_sessions
"""


def archive_folders(environment: Mapping[str, str]) -> dict[str, Path]:
    """Return the folder of each service's files."""
    return {
        "memory": MemorySettings.read(environment).archives(environment),
        "session": SessionSettings.read(environment).archives(environment),
    }


def copy_files(folder: BackupRepository, environment: Mapping[str, str]) -> set[str]:
    """Copy every file to the repository, and return their names."""
    result: set[str] = set()
    for kind, archive_folder in archive_folders(environment).items():
        for path in archive_folder.glob("*/*.jsonl.gz"):
            name = f"{kind}/{path.parent.name}/{path.name}"
            # A file that disappears during the copy has no row that refers to it.
            if (folder.cold / name).exists() or _copy(path, folder.cold / name):
                result.add(name)
    return result


def restore_files(
    names: Iterable[str], folder: BackupRepository, target: Mapping[str, Path], previous_folders: Mapping[str, Path]
) -> list[str]:
    """Restore the files that a database refers to; return the missing ones.

    Files newer than the last backup come from the previous cluster's folder.
    """
    missing_names = []
    for name in names:
        kind, _, relative_name = name.partition("/")
        sources = [folder.cold / name, *([previous_folders[kind] / relative_name] if kind in previous_folders else [])]
        if not any(_copy(path, target[kind] / relative_name) for path in sources if _is_undamaged(path)):
            missing_names.append(name)
    return missing_names


def prune_files(folder: BackupRepository, backups: Iterable[Backup]) -> int:
    """Delete the files that no remaining backup refers to; return their number."""
    referenced = {name for backup in backups for name in backup.cold}
    unused_files = [
        path for path in folder.cold.glob("*/*/*.jsonl.gz") if str(path.relative_to(folder.cold)) not in referenced
    ]
    for path in unused_files:
        path.unlink(missing_ok=True)
    return len(unused_files)


def cold_storage_problems(folder: BackupRepository, backup: Backup) -> list[str]:
    """Return the problems of the files that a backup refers to."""
    result = []
    for name in backup.cold:
        path = folder.cold / name
        if not path.exists():
            result.append(f"cold/{name} is missing.")
        elif not _is_undamaged(path):
            result.append(f"cold/{name} was changed after it was written.")
    return result


async def referenced_files(connection: asyncpg.Connection[Any]) -> list[str]:
    """Return the files that a database refers to."""
    return [row["name"] for row in await connection.fetch(_REFERENCED_FILES)]


def _is_undamaged(path: Path) -> bool:
    try:
        return sha256(path)[:_DIGITS] == path.name.removesuffix(".jsonl.gz").rpartition("-")[2]
    except OSError:
        return False


def _copy(path: Path, to: Path) -> bool:
    new_folders = [folder for folder in (to.parent, *to.parent.parents) if not folder.exists()]
    for folder in reversed(new_folders):
        folder.mkdir(exist_ok=True, mode=_PRIVATE_FOLDER)
    temporary = to.with_suffix(COLD_PART)
    try:
        with path.open("rb") as source, os.fdopen(os.open(temporary, _NEW, _PRIVATE_FILE), "wb") as copy:
            shutil.copyfileobj(source, copy)
        synchronize(temporary)
        temporary.replace(to)
    except FileNotFoundError:
        return False
    finally:
        # Remove partial files after any error: their content may be purged before the next backup.
        temporary.unlink(missing_ok=True)
    for folder in {to.parent, *(new_folder.parent for new_folder in new_folders)}:
        synchronize(folder)
    return True
