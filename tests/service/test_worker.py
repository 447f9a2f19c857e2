"""What the worker makes true later: vectors, partitions, and that it does each thing once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime

import asyncpg
import pytest
from fix_cluster import Cluster, Tenant, running_cluster, test_environment

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein_cluster import registry
from skein_kit.host.process import run_services
from skein_kit.ids import add_months, month_start, now
from skein_kit.settings import ProcessSettings
from skein_kit.telemetry.metrics import READY
from skein_worker.job_queue.job_queue import Job, JobQueue
from skein_worker.rounds.maintenance import MAINTENANCE, RUN_ONCE
from skein_worker.service import SERVICE

# More than a service embeds before it answers.
LARGE_BATCH = 60
DEADLINE_SECONDS = 90
PARTITIONED = ("memory.memories", "session.messages")


@pytest.fixture(scope="module")
async def busy_worker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """A cluster whose worker looks for work every two seconds, over few tenants."""
    environment = test_environment()
    del environment["SKEIN_ADVANCED_WORKER_PAUSE_FACTOR"]
    async with running_cluster(tmp_path_factory.mktemp("busy_worker"), environment) as cluster:
        yield cluster
    # The cluster of all tests is still ready; in one process they share the gauge.
    for name in registry.NAMES:
        READY.labels(name).set(1)


@pytest.fixture
async def connection(cluster: Cluster) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """Look into the database as its superuser, who sees all tenants."""
    connection = await asyncpg.connect(database_url(cluster))
    try:
        yield connection
    finally:
        await connection.close()


@pytest.mark.system
@pytest.mark.parametrize("spaces", [1, 70_000], ids=["short texts", "a text that is embedded alone"])
async def test_a_large_batch_of_memories_is_found_by_meaning_soon(busy_worker: Cluster, spaces: int) -> None:
    tenant = await busy_worker.new_tenant()
    memories = [memory_pb2.Memory(content=f"Note number {number} about gardening") for number in range(LARGE_BATCH - 1)]
    content = f"The cat sleeps on the warm{' ' * spaces}windowsill"
    memories.insert(LARGE_BATCH // 2, memory_pb2.Memory(content=content))
    request = memory_pb2.BatchCreateMemoriesRequest(memories=memories)

    created = await tenant.memory.BatchCreateMemories(request)

    assert created.pending_embedding_count > 0
    hit = await found_by_meaning(tenant, "a pet naps in the sun", recall_pb2.ITEM_KIND_MEMORY)
    assert hit.memory.content == content


@pytest.mark.system
async def test_a_large_batch_of_messages_is_found_by_meaning_soon(busy_worker: Cluster) -> None:
    tenant = await busy_worker.new_tenant()
    texts = [f"Let us talk about invoice {number}" for number in range(LARGE_BATCH)]
    texts[-1] = "Grandmother's birthday is on the third of June"
    messages = [session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=text) for text in texts]
    request = session_pb2.AppendMessagesRequest(session_id="long", messages=messages, create_session=True)

    appended = await tenant.sessions.AppendMessages(request)

    assert appended.pending_embedding_count > 0
    hit = await found_by_meaning(tenant, "when was granny born", recall_pb2.ITEM_KIND_MESSAGE)
    assert hit.message.content == "Grandmother's birthday is on the third of June"


@pytest.mark.system
async def test_upkeep_makes_a_missing_month_and_running_it_again_changes_nothing(
    cluster: Cluster, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    month = add_months(month_start(now()), 3)
    # What the worker does at its start may be still to come.
    await do_upkeep(cluster, connection)
    for table in PARTITIONED:
        await connection.execute(f"ALTER TABLE {table} DETACH PARTITION {partition(table, month)}")
        await connection.execute(f"DROP TABLE {partition(table, month)}")

    await do_upkeep(cluster, connection)
    made = await partitions(connection)
    await do_upkeep(cluster, connection)

    assert {partition(table, month) for table in PARTITIONED} <= set(made)
    assert await partitions(connection) == made


async def test_a_second_worker_joins_without_doubling_what_stands(
    cluster: Cluster, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    values = {**cluster.environment, "SKEIN_DATABASE_URL": database_url(cluster)}
    host = registry.host_of(ProcessSettings.read(values), values)
    host.addresses.update({**cluster.addresses, "worker": "127.0.0.1:0"})
    async with run_services([SERVICE], host) as second:
        await second.wait_ready(DEADLINE_SECONDS)

    rows = await connection.fetch(
        "SELECT dedupe_key, count(*) AS jobs FROM worker.pgqueuer"
        " WHERE dedupe_key IN ('embedding_backlog_scan', 'maintenance', 'expiry') GROUP BY 1 ORDER BY 1"
    )

    assert [(row["dedupe_key"], row["jobs"]) for row in rows] == [
        ("embedding_backlog_scan", 1),
        ("expiry", 1),
        ("maintenance", 1),
    ]


async def test_a_job_whose_key_waits_already_is_not_added_again(cluster: Cluster) -> None:
    done: list[bytes] = []
    last = asyncio.Event()

    async def work(payload: bytes, _leave_off: asyncio.Event) -> None:
        done.append(payload)
        if payload == b"last":
            last.set()

    queue = queue_of(cluster)
    async with queue.run({"test_keys": work}, periodic_jobs=()):
        await connected(queue)
        await queue.add(
            Job(name="test_keys", dedupe_key="test a", payload=b"first"),
            Job(name="test_keys", dedupe_key="test a", payload=b"second"),
            Job(name="test_keys", dedupe_key="test b", payload=b"last", priority=-1),
        )
        async with asyncio.timeout(DEADLINE_SECONDS):
            await last.wait()

    assert done == [b"first", b"last"]


@pytest.mark.system
async def test_two_workers_do_a_standing_job_one_at_a_time(cluster: Cluster) -> None:
    at_work = 0
    together = 0
    runs = 0
    enough = asyncio.Event()

    async def work(_payload: bytes, _leave_off: asyncio.Event) -> float | None:
        nonlocal at_work, together, runs
        at_work += 1
        runs += 1
        together = max(together, at_work)
        await asyncio.wait({asyncio.ensure_future(enough.wait())}, timeout=0.05)
        at_work -= 1
        if runs >= 5:
            enough.set()
            return None
        return 0.01

    standing = [Job(name="test_standing", dedupe_key="test standing")]
    first, second = queue_of(cluster), queue_of(cluster)
    async with (
        first.run({"test_standing": work}, periodic_jobs=standing),
        second.run({"test_standing": work}, periodic_jobs=standing),
    ):
        async with asyncio.timeout(DEADLINE_SECONDS):
            await enough.wait()

    assert together == 1


async def test_a_job_that_fails_is_tried_again(
    cluster: Cluster, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    async def work(_payload: bytes, _leave_off: asyncio.Event) -> None:
        raise ArithmeticError

    queue = queue_of(cluster)
    async with queue.run({"test_failing": work}, periodic_jobs=()):
        await connected(queue)
        await queue.add(Job(name="test_failing", dedupe_key="test failing"))
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not await connection.fetchval(
                "SELECT count(*) FROM worker.pgqueuer"
                " WHERE entrypoint = 'test_failing' AND status = 'queued' AND attempts = 1 AND execute_after > now()"
            ):
                await asyncio.sleep(0.05)


async def test_a_lost_connection_comes_back_and_jobs_go_on(
    cluster: Cluster, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    done = asyncio.Event()

    async def work(_payload: bytes, _leave_off: asyncio.Event) -> None:
        done.set()

    queue = queue_of(cluster)
    async with queue.run({"test_lost": work}, periodic_jobs=()):
        await connected(queue)
        # The cluster's own worker loses its connection as well, which does it no harm either.
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'skein_worker'"
        )
        async with asyncio.timeout(DEADLINE_SECONDS):
            while await queue.is_connected():
                await connection.fetchval("SELECT 1")
        await connected(queue)
        await queue.add(Job(name="test_lost", dedupe_key="test lost"))
        async with asyncio.timeout(DEADLINE_SECONDS):
            await done.wait()


async def test_a_worker_that_stops_lets_its_jobs_leave_off_and_leaves_no_task(cluster: Cluster) -> None:
    before = asyncio.all_tasks()
    started = asyncio.Event()
    left_off = False

    async def work(_payload: bytes, leave_off: asyncio.Event) -> None:
        nonlocal left_off
        started.set()
        await leave_off.wait()
        left_off = True

    queue = queue_of(cluster)
    async with queue.run({"test_stop": work}, periodic_jobs=()):
        await connected(queue)
        await queue.add(Job(name="test_stop", dedupe_key="test stop"))
        async with asyncio.timeout(DEADLINE_SECONDS):
            await started.wait()

    assert left_off
    assert not await queue.is_connected()
    assert {task for task in asyncio.all_tasks() - before if "queue" in repr(task.get_coro())} == set()


async def test_a_database_that_is_not_there_is_waited_for(cluster: Cluster) -> None:
    queue = queue_of(cluster, database="nowhere")

    async with queue.run({}, periodic_jobs=()):
        await queue.add(Job(name="test_nowhere", dedupe_key="test nowhere"))

        assert not await queue.is_connected()


def database_url(cluster: Cluster, database: str = "skein") -> str:
    return cluster.postgres.url(user="postgres", database=database)


def queue_of(cluster: Cluster, database: str = "skein") -> JobQueue:
    """Open another queue on the cluster's tables; it takes only jobs of names that it knows."""
    return JobQueue(database_url(cluster, database), poll_seconds=0.2, silence_seconds=60, stop_seconds=30)


async def connected(queue: JobQueue) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not await queue.is_connected():
            await asyncio.sleep(0)


async def found_by_meaning(tenant: Tenant, query: str, kind: recall_pb2.ItemKind) -> recall_pb2.Hit:
    """Ask until the best hit has a likeness that words alone cannot give."""
    request = recall_pb2.RecallRequest(query=query, kinds=[kind], limit=1, min_similarity=0.3)
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            await asyncio.sleep(0.05)
            response = await tenant.recall.Recall(request)
            if response.hits:
                return response.hits[0]


async def do_upkeep(cluster: Cluster, connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Let the cluster's worker run one maintenance job, as it does whenever it starts."""
    queue = queue_of(cluster)
    async with queue.run({}, periodic_jobs=()):
        await connected(queue)
        newest = await connection.fetchval("SELECT coalesce(max(id), 0) FROM worker.pgqueuer_log")
        await queue.add(Job(name=MAINTENANCE, dedupe_key="test maintenance", payload=RUN_ONCE))
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not await connection.fetchval(
                "SELECT count(*) FROM worker.pgqueuer_log"
                " WHERE id > $1 AND entrypoint = 'maintenance' AND status = 'successful'",
                newest,
            ):
                await asyncio.sleep(0.05)


def partition(table: str, month: datetime) -> str:
    return f"{table}_y{month:%Y}m{month:%m}"


async def partitions(connection: asyncpg.Connection[asyncpg.Record]) -> list[str]:
    rows = await connection.fetch(
        "SELECT inhrelid::regclass::text AS name FROM pg_inherits"
        " WHERE inhparent IN ('memory.memories'::regclass, 'session.messages'::regclass) ORDER BY 1"
    )
    return [row["name"] for row in rows]
