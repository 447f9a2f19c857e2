"""`python tests/bench/restore.py`: how long a backup takes, how large it is, and how long until it serves again.

A cluster of its own with the settings that it always has, in a new folder. Nothing is asserted.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

# The folder of the tests, so that what lies in this one has a name: `python tests/bench/restore.py` is how it is run.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import asyncpg
import click
import uvloop
from bench.sentences import Sentences
from fix_cluster import Cluster, Tenant, test_environment
from fix_command import erase, up
from grpc import aio

from skein.memory.v1 import memory_pb2
from skein_cluster.backup import base_backup, restore, retention, verification
from skein_cluster.backup.repository import BackupRepository
from skein_cluster.backup.signatures import BackupKey
from skein_cluster.backup.source import open_source
from skein_cluster.embedded.recovery import find_server
from skein_cluster.processes.single_process import single_process_cluster
from skein_kit.telemetry import logs

_AT_ONCE = 100


@click.command()
@click.option("--memories", type=click.IntRange(1), default=2000, show_default=True, help="How many are stored.")
@click.option("--after", type=click.IntRange(1), default=1000, show_default=True, help="How many after the backup.")
def main(memories: int, after: int) -> None:
    """Print how long it takes to back a cluster up and to bring it back."""
    logs.configure("error")
    uvloop.run(_run(memories, after))


async def _run(memories: int, after: int) -> None:
    place = Path(tempfile.mkdtemp(prefix="skein-restore-"))
    place.chmod(0o711)
    try:
        await _measured(place, memories, after)
    finally:
        for name in ("first", "second"):
            erase(place / name)
        shutil.rmtree(place, ignore_errors=True)


async def _measured(place: Path, memories: int, after: int) -> None:
    folder, first, second = BackupRepository(place / "backups"), place / "first", place / "second"
    environment = {**test_environment(), "SKEIN_BACKUP_DIR": str(folder.path)}
    first_environment = {**environment, "SKEIN_DATA_DIR": str(first)}
    async with (
        single_process_cluster(first, environment=first_environment) as embedded,
        aio.insecure_channel(embedded.addresses["gateway"]) as channel,
    ):
        cluster = Cluster(
            channel=channel,
            endpoint=embedded.addresses["gateway"],
            admin=embedded.admins["gateway"],
            admins=dict(embedded.admins),
            addresses=dict(embedded.addresses),
            operator_key=embedded.credentials.operator_key,
            postgres=embedded.postgres,
            environment=environment,
        )
        tenant = await cluster.new_tenant()
        await _store(tenant, memories, 1)
        with folder.write_lock():
            started = time.monotonic()
            async with open_source(first, first_environment) as running:
                backup = await base_backup.create_backup(
                    folder, running, first_environment, key=BackupKey.of(first), on_progress=lambda _done, _whole: None
                )
            took = time.monotonic() - started
        _say("backup", took, f"{backup.database_bytes / 1e6:.0f} MB in {backup.byte_count / 1e6:.0f} MB")
        await _store(tenant, after, 2)
        connection = await asyncpg.connect(embedded.postgres.url(user="postgres", database="skein"))
        moment = await connection.fetchval("SELECT clock_timestamp()")
        purged = memory_pb2.MemorySelection(filter=memory_pb2.MemoryFilter(tags_any=["even"]))
        await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=purged, page_size=100))
        await connection.close()
    started = time.monotonic()
    problems = await verification.backup_problems(folder, backup)
    _say("verify", time.monotonic() - started, f"{len(problems)} things are wrong")
    (known,) = [each for each in await retention.recovery_windows(folder) if each.timeline == 1]
    log = sum(path.stat().st_size for path in folder.wal.iterdir())
    _say("log", 0.0, f"{log / 1e6:.0f} MB, until {restore.format_moment(known.until)}")
    second_environment = {**environment, "SKEIN_DATA_DIR": str(second)}
    started = time.monotonic()
    restored = await restore.restore(
        folder, backup, second, second_environment, to=moment, timeline=None, on_progress=lambda _said: None
    )
    _say("restore", time.monotonic() - started, ", ".join(f"{kind} {count}" for kind, count in restored.purged.items()))
    for name, seconds in restored.seconds.items():
        _say(f"  {name}", seconds, "")
    started = time.monotonic()
    async with up(second, SKEIN_BACKUP_DIR=str(folder.path)) as cluster_again:
        _say("up again", time.monotonic() - started, "")
        server = find_server(second / "postgres")
        if server is not None:
            connection = await asyncpg.connect(server.url(user="postgres", database="skein"))
            count = await connection.fetchval("SELECT count(*) FROM memory.memories")
            await connection.close()
            _say("memories", 0.0, f"{count} of {memories + after}")
        await cluster_again.stop()


async def _store(tenant: Tenant, count: int, seed: int) -> None:
    sentences = Sentences(seed)
    for start in range(0, count, _AT_ONCE):
        some = [
            memory_pb2.Memory(content=sentences.statement(), tags=["even" if number % 2 else "odd"])
            for number in range(min(_AT_ONCE, count - start))
        ]
        await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=some))


def _say(what: str, seconds: float, more: str) -> None:
    click.echo(f"{what:14} {f'{seconds:.2f} s' if seconds else '':>9}  {more}")


if __name__ == "__main__":
    main()
