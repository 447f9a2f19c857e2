"""Signatures of the archived log after a power cut: what is archived is signed, or the server archives it again."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
from pathlib import Path

import asyncpg
import pytest
from fix_command import erase
from fix_drill import open_folder

from skein_cluster import embedded
from skein_cluster.backup import wal_archive, wal_signatures
from skein_cluster.backup.repository import BackupRepository
from skein_cluster.backup.signatures import BackupKey, TrustedKeys

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]


def unsigned(repository: BackupRepository, key: str) -> list[str]:
    trusted = TrustedKeys.of([key])
    return [path.name for path in repository.wal.glob("*.gz") if not wal_signatures.is_signed(path, trusted)]


async def test_what_was_archived_before_a_power_cut_and_not_signed_is_signed_at_the_next_start() -> None:
    with open_folder() as path:
        repository, data_dir = BackupRepository(path / "backups"), path / "first"
        key = BackupKey.of(data_dir).public
        wal_archive.prepare_archive(repository)
        async with wal_archive.run_server(data_dir, repository, durable=False):
            pass
        # The server alone, as if the process that signs had ended.
        settings = wal_archive.archive_settings(repository)
        async with embedded.running_server(data_dir / "postgres", durable=False, settings=settings) as server:
            connection = await asyncpg.connect(**server.dsn(database="postgres"))
            await connection.execute("CREATE TABLE of_the_log AS SELECT 1 AS one")
            name = await connection.fetchval("SELECT pg_walfile_name(pg_switch_wal())")
            await connection.close()
            async with asyncio.timeout(60):
                while not (server.data_dir / wal_signatures.CHECKSUMS / name).exists():
                    await asyncio.sleep(0.02)
        before = unsigned(repository, key)

        async with wal_archive.run_server(data_dir, repository, durable=False):
            after = unsigned(repository, key)
            async with asyncio.timeout(60):
                while after := unsigned(repository, key):
                    await asyncio.sleep(0.05)

        erase(data_dir)
    assert f"{name}.gz" in before
    assert after == []


def test_the_note_of_a_checksum_is_on_disk_before_its_segment_counts_as_archived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = BackupRepository(tmp_path / "backups")
    repository.wal.mkdir(parents=True)
    (tmp_path / "segment").write_bytes(bytes(1024))
    program = tmp_path / "bin" / "sync"
    program.parent.mkdir()
    # Says what is synced, and whether the note has its name yet.
    noted = tmp_path / wal_signatures.CHECKSUMS / "segment"
    program.write_text(f'#!/bin/sh\necho "$1 $(test -f {noted} && echo named)" >> {tmp_path}/synced\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    command = (
        wal_archive.archive_settings(repository)["archive_command"].replace("%f", "segment").replace("%p", "segment")
    )

    subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, check=True)

    *_, part, folder = (tmp_path / "synced").read_text().splitlines()
    assert (part, folder) == (f"{wal_signatures.CHECKSUMS}/.segment.part ", f"{wal_signatures.CHECKSUMS} named")
