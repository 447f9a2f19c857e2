"""Verifies that a backup can be restored: its files, its own log, and the log after it."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from skein_cluster.backup import cold_storage, extraction, postgres_programs, wal_archive
from skein_cluster.backup.repository import (
    BASE,
    POSTGRES_MANIFEST,
    WAL_OF_BASE,
    Backup,
    BackupDamaged,
    BackupRepository,
    sha256,
)
from skein_cluster.backup.wal_archive import WalArchive
from skein_kit.backup_folder import MANIFEST


async def backup_problems(folder: BackupRepository, backup: Backup) -> list[str]:
    """Return a sentence for each problem; empty for an intact backup."""
    result = await asyncio.to_thread(_files, folder, backup)
    if folder.trusted is not None and not folder.trusted.have_signed(backup.signed_bytes(), backup.signature):
        result.append(f"{MANIFEST}: no trusted key has signed it.")
    if not result:
        result += await asyncio.to_thread(extraction.file_problems, folder.of(backup))
        result += await _own_log(folder, backup)
    result += cold_storage.cold_storage_problems(folder, backup)
    if backup.has_log:
        try:
            log = WalArchive(folder, backup.wal_segment_bytes)
        except BackupDamaged as damaged:
            return [*result, f"wal: {damaged}"]
        result += [f"wal: no trusted key has signed {name} as it is." for name in log.unsigned]
        for timeline in log.timelines_of(backup):
            wal_range = log.wal_range(backup, timeline)
            if not wal_range.files and not wal_range.missing:
                result.append(f"wal: nothing of the log after it is there, on timeline {timeline}.")
            result += [
                problem for problem in await wal_archive.wal_problems(wal_range, backup) if problem not in result
            ]
    return result


def _files(folder: BackupRepository, backup: Backup) -> list[str]:
    result = []
    for name in (BASE, WAL_OF_BASE, POSTGRES_MANIFEST):
        path, expected = folder.of(backup) / name, backup.files.get(name)
        if not path.exists():
            result.append(f"{name} is missing.")
        elif expected is None:
            result.append(f"{name} is not on the list of files.")
        elif path.stat().st_size != expected["bytes"]:
            result.append(f"{name} has {path.stat().st_size} bytes, and had {expected['bytes']}.")
        elif sha256(path) != expected["sha256"]:
            result.append(f"{name} was changed after it was written.")
    return result


async def _own_log(folder: BackupRepository, backup: Backup) -> list[str]:
    """Check every record that a server needs to start from the copy."""
    dump = await postgres_programs.find_program("pg_waldump", backup.major, exactly=True)
    with tempfile.TemporaryDirectory(prefix="skein-wal-") as temporary_folder:
        try:
            await asyncio.to_thread(extraction.extract_wal, folder.of(backup), Path(temporary_folder))
        except BackupDamaged as damaged:
            return [str(damaged)]
        command = [
            *(str(dump), "--quiet", f"--path={temporary_folder}", f"--timeline={backup.timeline}"),
            *(f"--start={backup.start_lsn}", f"--end={backup.stop_lsn}"),
        ]
        code, _, error_output = await postgres_programs.run_program(command, environment={})
    return (
        [f"{WAL_OF_BASE}: {error_output.strip().splitlines()[-1].removeprefix('pg_waldump: error: ')}"] if code else []
    )
