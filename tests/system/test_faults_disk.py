"""What callers of a `skein up` see when the disk under its Postgres is full, and when it has room again.

The disk is a tmpfs, mounted for the test: it holds the log of writes, and for a while one table's rows.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import secrets
import shutil
import subprocess
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import asyncpg
import grpc
import pytest
from fix_cluster import AuthorizedChannel, Tenant, refused
from fix_command import RunningCluster, alive, erase, up
from fix_drill import backed_up
from fix_faults import database_url, server_pid
from fix_writers import Writers
from grpc import aio

from skein.memory.v1 import memory_pb2 as pb
from skein_cluster import embedded
from skein_cluster.cli.exit_codes import CommandError

pytestmark = pytest.mark.timeout(400)
MEGABYTE = 2**20
# A segment of the log, of which there are always two at least.
SEGMENT = 16 * MEGABYTE


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """Mount a disk of so many bytes that Postgres may write to."""
    folder.mkdir(parents=True)
    done = subprocess.run(
        ["/bin/mount", "-t", "tmpfs", "-o", f"size={size}", "skein-test", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.fail(f"A full disk needs one to fill: run this as root, who may mount a tmpfs. {done.stderr.strip()}")
    try:
        if os.geteuid() == 0:
            os.chown(folder, pwd.getpwnam("nobody").pw_uid, -1)
        folder.chmod(0o700)
        yield folder
    finally:
        subprocess.run(["/bin/umount", "--lazy", str(folder)], check=True)


def _move(folder: Path, there: Path) -> None:
    """Move a folder with its owners, and leave a link."""
    owner = folder.stat().st_uid
    shutil.copytree(folder, there)
    shutil.rmtree(folder)
    for path in (there, *there.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
        os.chown(path, owner, -1)
    folder.symlink_to(there)


def fill(disk: Path, *, but: int = 0) -> Path:
    """Take all room of a disk but so many bytes."""
    ballast = disk / "ballast"
    result = os.statvfs(disk)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, result.f_bavail * result.f_frsize - but))
    return ballast


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A disk for the log of writes."""
    folder = tmp_path_factory.mktemp("disks")
    for path in (folder, *folder.parents):
        if path.stat().st_uid == os.geteuid() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o011)
    with small_disk(folder / "small", 8 * SEGMENT) as mounted:
        yield mounted


@pytest.fixture(scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory, disk: Path) -> AsyncIterator[RunningCluster]:
    """A `skein up` whose log of writes lies on the small disk."""
    folder = tmp_path_factory.mktemp("full")
    async with embedded.running_server(folder / "postgres"):
        pass
    log = (folder / "postgres" / "pg_wal").resolve()
    _move(log, disk / "pg_wal")
    async with up(folder) as result:
        yield result
    erase(folder)


@pytest.fixture(scope="module")
async def home(running: RunningCluster) -> AsyncIterator[Tenant]:
    credentials = running.credentials
    async with aio.insecure_channel(credentials["endpoint"]) as channel:
        authorized = cast("aio.Channel", AuthorizedChannel(channel, credentials["api_key"]))
        yield Tenant(channel=authorized, tenant_id=uuid.UUID(credentials["tenant_id"]), api_key=credentials["api_key"])


async def test_without_room_for_rows_writes_are_refused_and_reads_go_on(
    running: RunningCluster, home: Tenant, disk: Path
) -> None:
    everything = pb.ListMemoriesRequest(page_size=1000)
    before = (await home.memory.ListMemories(everything)).memories
    kept = await home.memory.CreateMemory(pb.CreateMemoryRequest(memory=pb.Memory(content="kept")))
    superuser = await asyncpg.connect(database_url(running.data_dir))
    place = disk / "rows"
    place.mkdir(mode=0o700)
    os.chown(place, disk.stat().st_uid, -1)
    await superuser.execute(f"CREATE TABLESPACE small LOCATION '{place}'")
    table = await superuser.fetchval("SELECT tableoid::regclass::text FROM memory.memories LIMIT 1")
    await superuser.execute(f"ALTER TABLE {table} SET TABLESPACE small")
    # What follows goes into a segment of the log that there is already: the rows alone have no room.
    await superuser.execute("SELECT pg_switch_wal()")
    await superuser.execute("SELECT pg_logical_emit_message(true, 'skein', 'a new segment')")
    ballast = fill(disk, but=MEGABYTE // 4)
    request = pb.BatchCreateMemoriesRequest(
        memories=[pb.Memory(content=secrets.token_hex(4000)) for _ in range(100)], request_id="many"
    )

    with refused(grpc.StatusCode.UNAVAILABLE, "DATABASE_FULL"):
        await home.memory.BatchCreateMemories(request)
    read = await home.memory.GetMemory(pb.GetMemoryRequest(memory_id=kept.memory.memory_id))
    listed = await home.memory.ListMemories(everything)
    ballast.unlink()
    created = await home.memory.BatchCreateMemories(request)

    assert read.memory.content == "kept"
    assert len(listed.memories) == len(before) + 1
    assert len(created.memories) == 100
    await superuser.execute(f"ALTER TABLE {table} SET TABLESPACE pg_default")
    await superuser.execute("DROP TABLESPACE small")
    await superuser.close()


async def test_a_backup_without_room_says_so_and_leaves_nothing(running: RunningCluster, tmp_path: Path) -> None:
    with small_disk(tmp_path / "backups", MEGABYTE) as place:
        with pytest.raises(CommandError, match="No space left on device"):
            await backed_up(running.data_dir, {**running.environment, "SKEIN_BACKUP_DIR": str(place)})
        remaining = list((place / "backups").iterdir())

    assert remaining == []


@pytest.mark.essential
async def test_without_room_for_the_log_the_server_is_back_by_itself_once_there_is_some(
    running: RunningCluster, home: Tenant, disk: Path
) -> None:
    """Postgres stops when it cannot write its log, and again when it cannot recover: it is started until it can."""
    for memory in (await home.memory.ListMemories(pb.ListMemoriesRequest(page_size=1000))).memories:
        await home.memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id=memory.memory_id))
    writers = await Writers.of(home)
    before = server_pid(running.data_dir)

    async with writers.writing():
        await writers.more(2)
        ballast = fill(disk)
        superuser = await asyncpg.connect(database_url(running.data_dir))
        with contextlib.suppress(asyncpg.PostgresError, OSError):
            while True:
                await superuser.execute("SELECT pg_logical_emit_message(false, 'skein', repeat('x', 1000000))")
        superuser.terminate()
        await writers.refused(20)
        async with asyncio.timeout(60):
            while alive(before):
                await asyncio.sleep(0.05)
        ballast.unlink()
        await writers.more(2)

    assert {code for code, _ in writers.refusals} == {grpc.StatusCode.UNAVAILABLE}, writers.refusals
    await writers.replay()
    await writers.must_be_whole()
