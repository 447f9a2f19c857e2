"""The commands with which docker-compose.yml keeps backups, and those of the page that says how to come back."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import yaml

from skein_cluster import embedded
from skein_cluster.embedded.account import Account
from skein_cluster.embedded.server import Server

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "deploy/postgres/restoring.md"
COMPOSE: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
PATIENCE_SECONDS = 60.0
# What Postgres does unless it is told otherwise, as the servers of tests are.
REPLICATES = {"wal_level": "replica", "max_wal_senders": "10"}


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server that lets in whom that of the compose file lets in, as a person in its container comes."""
    with open_folder() as folder:
        hba = shutil.copy(ROOT / "deploy/postgres/pg_hba.conf", folder)
        settings = {**REPLICATES, "hba_file": str(hba)}
        async with embedded.running_server(folder / "postgres", durable=False, settings=settings) as running:
            yield running


async def started(name: str, server: Server, backups: Path) -> asyncio.subprocess.Process:
    """Run what a container of the compose file runs, with its volume in a folder here."""
    (command,) = COMPOSE[name]["command"]
    script = command.replace("$$", "$").replace("/backups/", f"{backups}/")
    return await asyncio.create_subprocess_exec(
        *COMPOSE[name]["entrypoint"],
        script,
        env={
            "PATH": f"{server.binaries}:{os.environ['PATH']}",
            "PGHOST": server.host,
            "PGPORT": str(server.port),
            "PGUSER": "postgres",
        },
    )


async def test_a_base_backup_is_whole(server: Server, tmp_path: Path) -> None:
    taking = await started("base-backup", server, tmp_path)

    async with asyncio.timeout(PATIENCE_SECONDS):
        code = await taking.wait()

    (made,) = (tmp_path / "base").iterdir()
    assert code == 0
    assert {path.name for path in made.iterdir()} == {"base.tar.gz", "pg_wal.tar.gz", "backup_manifest"}


async def test_the_log_leads_from_a_base_backup_to_what_was_written_last(server: Server, backups: Path) -> None:
    keeping = await started("wal-archive", server, backups)
    connection = await asyncpg.connect(**server.dsn(database="postgres"))
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await connection.fetchval("SELECT active FROM pg_replication_slots WHERE slot_name = 'archive'"):
                assert keeping.returncode is None
                await asyncio.sleep(0.05)
            taking = await started("base-backup", server, backups)
            assert await taking.wait() == 0
            await connection.execute("CREATE TABLE notes (note text)")
            await connection.fetchval("SELECT pg_switch_wal()")
            await connection.execute("INSERT INTO notes VALUES ('written last')")
            written = await connection.fetchval("SELECT pg_current_wal_lsn()")
            while not await connection.fetchval(
                "SELECT flush_lsn >= $1 FROM pg_stat_replication WHERE application_name = 'pg_receivewal'", written
            ):
                await asyncio.sleep(0.05)
    finally:
        await connection.close()
        if keeping.returncode is None:
            keeping.terminate()
        await keeping.wait()

    async with restored(backups) as server_again:
        again = await asyncpg.connect(**server_again.dsn(database="postgres"))
        async with asyncio.timeout(PATIENCE_SECONDS):
            # It answers questions before it has read all of the log.
            while await again.fetchval("SELECT pg_is_in_recovery()"):
                await asyncio.sleep(0.05)
        note = await again.fetchval("SELECT note FROM notes")
        await again.close()

    assert keeping.returncode == 0
    assert note == "written last"


@asynccontextmanager
async def restored(backups: Path) -> AsyncIterator[Server]:
    """Run a server on what the page says to make of the volume, up to the end of the log."""
    with open_folder() as folder:
        data = folder / "postgres"
        (made,) = (backups / "base").iterdir()
        for archive, target in (("base.tar.gz", data), ("pg_wal.tar.gz", data / "pg_wal")):
            with tarfile.open(made / archive) as packed:
                # Before 3.11.4 there are no filters.
                packed.extraction_filter = getattr(tarfile, "data_filter", None)
                packed.extractall(target)  # noqa: S202 - our own backup, filtered above.
        (command,) = re.findall(r"^ *(restore_command = .*)$", PAGE.read_text("utf-8"), re.MULTILINE)
        with (data / "postgresql.auto.conf").open("a", encoding="utf-8") as settings:
            settings.write(command.replace("/backups/", f"{backups}/") + "\n")
        (data / "recovery.signal").touch()
        account = Account.for_server()
        for path in (data, *data.rglob("*"), *backups.rglob("*")):
            account.chown(path)
        data.chmod(0o700)
        async with embedded.running_server(data, durable=False, settings=REPLICATES) as running:
            yield running


@contextmanager
def open_folder() -> Iterator[Path]:
    """Lend a folder that the server's user can enter."""
    folder = Path(tempfile.mkdtemp(prefix="skein-compose-"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def backups() -> Iterator[Path]:
    """The volume of backups."""
    with open_folder() as folder:
        yield folder
