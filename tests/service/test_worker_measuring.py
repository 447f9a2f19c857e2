"""What the worker measures of the server and its queue, as its own role, where the server archives and replicates."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import asyncpg
import pytest
from fix_metrics import sample
from prometheus_client import REGISTRY

from skein_cluster import embedded, registry
from skein_cluster.embedded.account import Account
from skein_cluster.embedded.binaries import programs
from skein_kit.database.connection_settings import connect_arguments, database_role
from skein_kit.database.schema_migrations import OWNER, migrate
from skein_kit.database.transactions import Database
from skein_worker.measure.measurements import MeasurementStore, ServerMeasurements

PATIENCE_SECONDS = 60.0
ARCHIVED = {
    "wal_level": "replica",
    "max_wal_senders": "4",
    "archive_mode": "on",
    # Fails until a test makes the folder.
    "archive_command": 'test -d "archive" && cp "%p" "archive/%f"',
}


@dataclass(frozen=True)
class MeasuredDatabase:
    """A migrated database, the superuser's connection to it, and the worker's look."""

    server: embedded.Server
    url: str
    superuser: asyncpg.Connection[asyncpg.Record]
    measuring: ServerMeasurements

    async def value(self, name: str, **labels: str) -> float | None:
        """Measure, and return what is shown."""
        await self.measuring.measure()
        return shown(name, **labels)

    async def until(self, good: Callable[[], Awaitable[bool]]) -> None:
        """Wait for something that the server does in its own time."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await good():
                await asyncio.sleep(0.05)


def shown(name: str, **labels: str) -> float | None:
    return sample(name, **labels)


@pytest.fixture(scope="module")
async def measured_database() -> AsyncIterator[MeasuredDatabase]:
    folder = Path(tempfile.mkdtemp(prefix="skein-test-"))
    folder.chmod(0o711)
    try:
        async with embedded.running_server(folder / "pg", durable=False, settings=ARCHIVED) as server:
            await embedded.create_database(server, "skein")
            url = server.url(user="postgres", database="skein")
            await migrate(url, registry.migrations(), registry.WITH_DATABASE)
            superuser = await asyncpg.connect(url)
            async with Database.open(url, service="worker", size=2, timeout=30.0) as database:
                yield MeasuredDatabase(
                    server, url, superuser, ServerMeasurements(MeasurementStore(database), seconds=15.0)
                )
            await superuser.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def test_sizes_are_those_of_the_database_and_of_each_table_with_its_partitions(
    measured_database: MeasuredDatabase,
) -> None:
    await measured_database.superuser.execute("CREATE TABLE memory.apart (n integer); DROP TABLE memory.apart")

    await measured_database.measuring.measure()

    entries = await measured_database.superuser.fetchval(
        "SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('memory.memories')"
    )
    assert shown("skein_database_table_bytes", schema="memory", table="memories") == float(entries) > 0
    whole = shown("skein_database_bytes")
    assert whole is not None
    assert whole > 5_000_000
    tables = {
        (sample.labels["schema"], sample.labels["table"])
        for family in REGISTRY.collect()
        if family.name == "skein_database_table_bytes"
        for sample in family.samples
    }
    assert {schema for schema, _ in tables} == {*registry.WITH_DATABASE, "skein"}
    partitions = await measured_database.superuser.fetch("SELECT relname FROM pg_class WHERE relispartition")
    assert partitions
    assert not {row["relname"] for row in partitions} & {table for _, table in tables}


async def test_used_up_transaction_ids_are_a_share_of_all(measured_database: MeasuredDatabase) -> None:
    ratio = await measured_database.value("skein_database_wraparound_ratio")

    age = await measured_database.superuser.fetchval("SELECT max(age(datfrozenxid)) FROM pg_database")
    assert ratio is not None
    assert 0 < ratio <= (age + 1) / 2**31


async def test_an_old_transaction_is_measured_and_so_is_whether_it_delays_the_event_log(
    measured_database: MeasuredDatabase,
) -> None:
    other = await asyncpg.connect(**connect_arguments(measured_database.url, database_role("memory")))
    try:
        await other.execute("BEGIN; SELECT 1")
        reading = await measured_database.value("skein_database_oldest_transaction_seconds")

        async def has_no_writers() -> bool:
            return await measured_database.value("skein_change_log_lag_seconds") == 0

        # The server's own upkeep may be writing, which is soon over.
        await measured_database.until(has_no_writers)
        await other.execute("SELECT pg_current_xact_id()")
        await measured_database.measuring.measure()
        held_by_writing = shown("skein_change_log_lag_seconds")
    finally:
        await other.close()

    assert reading is not None
    assert reading > 0
    assert held_by_writing is not None
    assert held_by_writing > 0


async def test_the_worker_itself_cannot_read_the_statements_of_others(measured_database: MeasuredDatabase) -> None:
    worker = await asyncpg.connect(measured_database.server.url(user=database_role("worker"), database="skein"))
    try:
        rows = await worker.fetch("SELECT query FROM pg_stat_activity WHERE usename = 'postgres'")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await worker.execute("SET ROLE pg_read_all_stats")
    finally:
        await worker.close()

    assert {row["query"] for row in rows} == {"<insufficient privilege>"}


async def test_a_hidden_measurement_is_shown_as_unknown_and_logged_once(
    measured_database: MeasuredDatabase, log: StringIO
) -> None:
    await measured_database.measuring.measure()
    last = shown("skein_measurement_last_success_timestamp_seconds", measurement="transactions")
    await measured_database.superuser.execute(f"REVOKE pg_read_all_stats FROM {OWNER}")
    try:
        await measured_database.measuring.measure()
        await measured_database.measuring.measure()
    finally:
        await measured_database.superuser.execute(f"GRANT pg_read_all_stats TO {OWNER} WITH INHERIT TRUE")

    assert shown("skein_measurement_last_success_timestamp_seconds", measurement="transactions") == last
    others = shown("skein_measurement_last_success_timestamp_seconds", measurement="queue")
    assert last is not None
    assert others is not None
    assert others > last
    assert log.getvalue().count('"measurement": "transactions"') == 1


async def test_jobs_are_counted_by_kind_and_status_and_the_oldest_due_one_is_measured(
    measured_database: MeasuredDatabase,
) -> None:
    await measured_database.superuser.execute(
        """
        INSERT INTO worker.pgqueuer (priority, status, entrypoint, execute_after) VALUES
            (0, 'queued', 'late', now() - interval '1 hour'), (0, 'queued', 'late', now() - interval '2 hours'),
            (0, 'picked', 'late', now() - interval '9 hours'), (0, 'queued', 'early', now() + interval '1 hour')
        """
    )
    try:
        await measured_database.measuring.measure()
    finally:
        await measured_database.superuser.execute("DELETE FROM worker.pgqueuer")

    assert shown("skein_worker_queue_jobs", job_name="late", status="queued") == 2
    assert shown("skein_worker_queue_jobs", job_name="late", status="picked") == 1
    late = shown("skein_worker_queue_oldest_seconds", job_name="late")
    assert late is not None
    assert 7200 <= late < 7200 + PATIENCE_SECONDS
    assert shown("skein_worker_queue_oldest_seconds", job_name="early") == 0


@asynccontextmanager
async def receiving(measured_database: MeasuredDatabase, slot: str, folder: Path) -> AsyncIterator[None]:
    """Follow the server's log with pg_receivewal, which is a replica as far as the server knows."""
    process = await asyncio.create_subprocess_exec(
        programs(Account.for_server()) / "pg_receivewal",
        *(
            "-h",
            measured_database.server.host,
            "-p",
            str(measured_database.server.port),
            "-U",
            "postgres",
            "-D",
            str(folder),
        ),
        *("-S", slot, "--no-loop", "--status-interval", "1"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        await process.wait()


@pytest.mark.system
async def test_a_replica_is_known_by_its_slot_and_an_absent_one_falls_behind(
    measured_database: MeasuredDatabase, tmp_path: Path
) -> None:
    slot = {"replica": "elsewhere"}
    await measured_database.superuser.execute("SELECT pg_create_physical_replication_slot('elsewhere', true)")
    try:
        async with receiving(measured_database, "elsewhere", tmp_path):

            async def follows() -> bool:
                return await measured_database.value("skein_replication_lag_seconds", **slot) is not None

            await measured_database.until(follows)
        await measured_database.superuser.execute(
            "CREATE TABLE public.much AS SELECT repeat('x', 9) FROM generate_series(1, 9999)"
        )

        async def is_away() -> bool:
            return await measured_database.value("skein_replication_lag_seconds", **slot) is None

        await measured_database.until(is_away)
        behind = shown("skein_replication_lag_bytes", **slot)
    finally:
        await measured_database.superuser.execute("DROP TABLE IF EXISTS public.much")
        await measured_database.until(lambda: gone(measured_database))

    assert behind is not None
    assert behind > 100_000
    assert await measured_database.value("skein_replication_lag_bytes", **slot) is None


async def gone(measured_database: MeasuredDatabase) -> bool:
    """Drop the slot once it is no longer in use."""
    try:
        await measured_database.superuser.execute("SELECT pg_drop_replication_slot('elsewhere')")
    except asyncpg.ObjectInUseError:
        return False
    return True


@pytest.mark.system
async def test_an_archive_that_fails_is_counted_and_what_is_in_none_grows_old(
    measured_database: MeasuredDatabase,
) -> None:
    async def fails() -> bool:
        await measured_database.superuser.execute("CREATE TABLE public.part (n integer); DROP TABLE public.part")
        await measured_database.superuser.execute("SELECT pg_switch_wal()")
        return bool(await measured_database.value("skein_wal_archive_failures_total"))

    await measured_database.until(fails)
    failing = shown("skein_wal_archive_delay_seconds")

    archive = measured_database.server.data_dir / "archive"
    archive.mkdir()
    archive.chmod(0o777)

    async def is_complete() -> bool:
        await measured_database.superuser.execute("SELECT pg_switch_wal()")
        return await measured_database.value("skein_wal_archive_delay_seconds") == 0

    await measured_database.until(is_complete)
    await measured_database.superuser.execute("CREATE TABLE public.part AS SELECT n FROM generate_series(1, 9999) AS n")
    written = await measured_database.value("skein_wal_archive_delay_seconds")

    assert failing is not None
    assert failing > 0
    assert written is not None
    assert written > 0


# What measuring needs of Citus. A machine answers what this server says of itself; one is gone.
CITUS = """
SET allow_system_table_mods = on;
CREATE TABLE pg_catalog.pg_dist_node (nodeid integer PRIMARY KEY, nodename text, nodeport integer);
INSERT INTO pg_catalog.pg_dist_node VALUES (1, 'coordinator', 5432), (2, 'worker-1', 5433);
GRANT SELECT ON pg_catalog.pg_dist_node TO PUBLIC;
CREATE FUNCTION pg_catalog.run_command_on_all_nodes(
    command text, parallel boolean DEFAULT true, give_warning_for_connection_errors boolean DEFAULT false
) RETURNS TABLE (nodeid integer, success boolean, result text) LANGUAGE plpgsql AS $$ BEGIN
    EXECUTE command INTO result;
    RETURN QUERY VALUES (1, true, result), (2, false, 'connection refused');
END $$;
"""


@pytest.mark.system
async def test_on_citus_each_machine_is_measured_and_one_that_does_not_answer_is_told(
    measured_database: MeasuredDatabase,
) -> None:
    superuser = measured_database.superuser
    await embedded.create_database(measured_database.server, "citus")
    url = measured_database.server.url(user="postgres", database="citus")
    await migrate(url, registry.migrations(), registry.WITH_DATABASE)
    await superuser.execute("ALTER DATABASE citus SET citus.version = 'stand-in'")
    connection = await asyncpg.connect(url)
    await connection.execute(CITUS)
    await connection.close()

    async with Database.open(url, service="worker", size=2, timeout=30.0, citus=True) as database:
        await ServerMeasurements(MeasurementStore(database), seconds=15.0).measure()

    here, gone = "coordinator:5432", "worker-1:5433"
    assert (shown("skein_citus_machine_up", machine=here), shown("skein_citus_machine_up", machine=gone)) == (1.0, 0.0)
    assert (shown("skein_citus_machine_database_bytes", machine=here) or 0) > 5_000_000
    assert 0 < (shown("skein_citus_machine_wraparound_ratio", machine=here) or 0) < 1
    assert shown("skein_citus_machine_oldest_prepared_seconds", machine=here) == 0
    assert shown("skein_citus_machine_database_bytes", machine=gone) is None
