"""Creates a backup: a copy of the server's files by pg_basebackup, and its description."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from skein_cluster.backup import cold_storage, postgres_programs
from skein_cluster.backup.postgres_manifest import PostgresManifest
from skein_cluster.backup.repository import BASE, POSTGRES_MANIFEST, WAL_OF_BASE, Backup, BackupRepository, sha256
from skein_cluster.backup.signatures import BackupKey
from skein_cluster.backup.source import ServerInfo, Source
from skein_cluster.cli.exit_codes import CommandError, ExitCode

_PROGRESS = re.compile(r"(\d+)/(\d+) kB")


async def create_backup(
    folder: BackupRepository,
    source: Source,
    environment: Mapping[str, str],
    *,
    key: BackupKey,
    on_progress: Callable[[int, int], None],
) -> Backup:
    """Create a backup, signed with `key`; `on_progress` gets the copied and the total bytes. Raises CommandError.

    The caller holds the write lock.
    """
    facts = await source.facts()
    _must_be_of(folder, facts.system_identifier)
    started = datetime.now(UTC)
    files_before = cold_storage.copy_files(folder, environment)
    backup_id = folder.new_id(started)
    with folder.part(backup_id) as part:
        await _copied(source, facts, part, backup_id, on_progress)
        manifest = PostgresManifest.read(part / POSTGRES_MANIFEST)
        async with source.connection() as connection:
            finished: datetime = await connection.fetchval("SELECT clock_timestamp()")
        # Files may change during the copy, so keep those referenced before and after.
        files = files_before | cold_storage.copy_files(folder, environment)
        backup = Backup(
            backup_id=backup_id,
            start_time=started,
            finish_time=finished.astimezone(UTC),
            timeline=manifest.timeline,
            start_lsn=manifest.start_lsn,
            stop_lsn=manifest.stop_lsn,
            system_identifier=facts.system_identifier,
            postgres_version=facts.version,
            wal_segment_bytes=facts.wal_segment_bytes,
            schema_version=facts.schema_version,
            skein_version=version("skein-protos"),
            database=facts.database,
            superuser=facts.superuser,
            data_dir="" if source.data_dir is None else str(source.data_dir.absolute()),
            has_log=facts.archives and folder.wal.is_dir(),
            database_bytes=facts.database_bytes,
            files={
                name: {"bytes": (part / name).stat().st_size, "sha256": sha256(part / name)}
                for name in (BASE, WAL_OF_BASE, POSTGRES_MANIFEST)
            },
            cold=sorted(files),
        ).signed_by(key)
        folder.complete(part, backup)
    return backup


def _must_be_of(folder: BackupRepository, system_identifier: str) -> None:
    system_identifiers = {folder.owner()[0], *(backup.system_identifier for backup in folder.backups())}
    other_identifiers = system_identifiers - {"", system_identifier}
    if other_identifiers:
        raise CommandError(f"{folder.path} has backups of another database; use another folder.", ExitCode.REFUSED)


async def _copied(
    source: Source, facts: ServerInfo, part: Path, label: str, on_progress: Callable[[int, int], None]
) -> None:
    program = await postgres_programs.find_program("pg_basebackup", facts.major)

    def line(text: str) -> None:
        if match := _PROGRESS.search(text):
            on_progress(int(match.group(1)) << 10, int(match.group(2)) << 10)

    command = [
        *(str(program), *source.arguments, f"--pgdata={part}", "--format=tar", "--compress=client-gzip:1"),
        *("--wal-method=stream", "--checkpoint=fast", "--manifest-checksums=SHA256", f"--label=skein {label}"),
        *("--progress", "--no-password"),
    ]
    code, _, error_output = await postgres_programs.run_program(
        command, environment=source.environment, on_progress=line
    )
    if code:
        error_lines = [text for text in re.split(r"[\r\n]+", error_output) if "error:" in text]
        reason = error_lines[0].partition("error: ")[2] if error_lines else f"it ended with {code}"
        raise CommandError(f"pg_basebackup could not copy the server: {reason.rstrip('.')}.", ExitCode.REFUSED)
