"""What a service's pool does when things go wrong, seen on a database without services."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from fix_database import TestDatabase

from skein_kit.calls.call import Call, as_current_call
from skein_kit.database.named_queries import Query
from skein_kit.database.probe import DatabaseProbe
from skein_kit.database.transactions import Database, ReadLimits
from skein_kit.database.tx_options import READ_ONLY, TxOptions
from skein_kit.errors import DatabaseBusy, DatabaseUnavailable, DeadlineExceeded, ReadTooCostly, TransactionConflict

SLOW = Query.parse("slow", "SELECT pg_sleep(30)")
BACKEND = Query.parse("backend", "SELECT pg_backend_pid()")


@pytest.fixture
async def pool(database: TestDatabase) -> AsyncIterator[Database]:
    """A pool of one connection, so that the next transaction meets what the last one left."""
    async with Database.open(database.url, service="memory", size=1, timeout=30.0) as opened:
        yield opened


async def backend(pool: Database) -> int:
    async with pool.global_transaction() as tx:
        pid: int = await tx.value(BACKEND)
    return pid


async def slow(pool: Database, started: asyncio.Event) -> Any:
    async with pool.global_transaction() as tx:
        started.set()
        return await tx.value(SLOW)


async def test_a_call_cancelled_twice_stays_cancelled_and_leaves_its_connection_usable(pool: Database) -> None:
    """A deadline cancels twice: our own timer, and gRPC when it sees the same moment pass."""
    before = await backend(pool)
    started = asyncio.Event()
    task = asyncio.create_task(slow(pool, started))
    await started.wait()
    await asyncio.sleep(0)

    task.cancel()
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert await backend(pool) == before


@pytest.mark.system
async def test_the_server_itself_ends_a_statement_whose_call_is_over(pool: Database) -> None:
    """A cancellation can be lost: it is ignored when it reaches the server before the statement does."""
    deadline = asyncio.get_running_loop().time() + 0.2
    call = Call(path="/test", metadata={}, deadline=deadline, peer="test")

    with as_current_call(call), pytest.raises(DeadlineExceeded):
        await slow(pool, asyncio.Event())

    # Long before the statement is over by itself.
    assert asyncio.get_running_loop().time() - deadline < 20


@pytest.mark.system
async def test_a_transaction_cancelled_at_any_moment_leaves_nothing_open(pool: Database) -> None:
    for steps in range(12):
        task = asyncio.create_task(slow(pool, asyncio.Event()))
        for _ in range(steps):
            await asyncio.sleep(0.0005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert await backend(pool)


async def test_a_database_that_takes_no_connection_is_unavailable_and_not_busy() -> None:
    async def silence(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    over = asyncio.Event()
    async with await asyncio.start_server(silence, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        url = f"postgresql://nobody@127.0.0.1:{port}/none?sslmode=disable"
        async with Database.open(url, service="memory", size=1, timeout=0.2) as silent:
            with pytest.raises(DatabaseUnavailable):
                await backend(silent)
            over.set()


async def test_a_pool_whose_connections_all_work_is_busy(pool: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    async with pool.global_transaction():
        # Opening its one connection took as long as it took; no caller waits so long for the next one.
        monkeypatch.setattr(pool.connections, "_timeout", 0.1)
        with pytest.raises(DatabaseBusy):
            await backend(pool)


async def test_a_busy_pool_does_not_silence_the_pulse(database: TestDatabase) -> None:
    async with (
        Database.open(database.url, service="memory", size=1, timeout=30.0) as pool,
        DatabaseProbe.open(database.url, service="memory") as pulse,
        pool.global_transaction(),
    ):
        answers = await asyncio.gather(*(pulse.fetch_value(BACKEND) for _ in range(5)))

    assert len(set(answers)) == 1


async def test_the_pulse_comes_back_after_its_connection_was_lost(database: TestDatabase) -> None:
    async with DatabaseProbe.open(database.url, service="memory") as pulse:
        before = await pulse.fetch_value(BACKEND)
        async with database.superuser() as connection:
            await connection.fetchval("SELECT pg_terminate_backend($1, 5000)", before)
        # Whether it has heard of the loss already is a matter of luck.
        with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            await pulse.fetch_value(BACKEND)

        assert await pulse.fetch_value(BACKEND) != before


async def test_a_statement_that_takes_longer_than_the_database_allows_is_out_of_time(pool: Database) -> None:
    async with pool.global_transaction() as tx:
        await tx.execute(Query.parse("limit", "SET statement_timeout = '20ms'"))

    with pytest.raises(DeadlineExceeded):
        await slow(pool, asyncio.Event())


async def test_an_abandoned_transaction_outside_a_call_ends_too(pool: Database) -> None:
    """Cut off between the parts of a statement it is not idle, so that limit alone would never end it."""
    limit = Query.parse(
        "limit", "SELECT setting::integer FROM pg_catalog.pg_settings WHERE name = 'transaction_timeout'"
    )

    async with pool.transaction(UUID(int=7)) as tx:
        assert 0 < await tx.value(limit) <= 30_000


async def test_a_database_that_takes_no_writes_is_unavailable(pool: Database) -> None:
    async with pool.global_transaction() as tx:
        await tx.execute(Query.parse("standby", "SET default_transaction_read_only = on"))

    with pytest.raises(DatabaseUnavailable):
        async with pool.global_transaction() as tx:
            await tx.execute(Query.parse("write", "DELETE FROM memory.memories"))


async def test_a_read_goes_on_while_its_transaction_ends_and_writes_nothing(pool: Database) -> None:
    tenant_id = UUID(int=7)
    read = Query.parse("read", "SELECT current_setting('skein.tenant_id')")

    for _ in range(5):
        async with pool.transaction(tenant_id, READ_ONLY) as tx:
            assert await tx.value(read) == str(tenant_id)
        # The one connection is ready for the next transaction, and shows no tenant's rows.
        async with pool.global_transaction() as tx:
            assert await tx.value(read) == ""
    with pytest.raises(DatabaseUnavailable):
        async with pool.transaction(tenant_id, READ_ONLY) as tx:
            await tx.execute(Query.parse("write", "DELETE FROM memory.memories"))

    assert await backend(pool)


async def test_a_statement_prepared_before_a_migration_fails_once_as_unavailable(
    database: TestDatabase, pool: Database
) -> None:
    read = Query.parse("read", "SELECT * FROM public.migrated")
    async with database.superuser() as connection:
        await connection.execute("CREATE TABLE public.migrated (a int); GRANT SELECT ON public.migrated TO PUBLIC")
        async with pool.global_transaction() as tx:
            await tx.rows(read)
        await connection.execute("ALTER TABLE public.migrated ADD COLUMN b int")

    with pytest.raises(DatabaseUnavailable):
        async with pool.global_transaction() as tx:
            await tx.rows(read)

    async with pool.global_transaction() as tx:
        assert await tx.rows(read) == []


async def test_a_refusal_for_what_the_driver_raised_keeps_nothing_of_the_call(pool: Database) -> None:
    """While the database is away every call ends so, large requests and all."""

    class Held:
        pass

    async def call() -> weakref.ref[Held]:
        held = Held()
        result = weakref.ref(held)
        try:
            await failing(held)
        except TransactionConflict:
            return result
        raise AssertionError

    async def failing(_held: Held) -> None:
        async with pool.global_transaction():
            raise asyncpg.SerializationError

    gc.disable()
    try:
        assert (await call())() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(("method", "reads"), [("ListMemories", False), ("CreateMemory", True)])
async def test_a_statement_of_a_read_ends_in_its_own_time_whatever_the_deadline(
    database: TestDatabase, method: str, *, reads: bool
) -> None:
    limits = ReadLimits(seconds=0.1)
    call = Call(
        path=f"/skein.memory.v1.MemoryService/{method}",
        metadata={},
        deadline=asyncio.get_running_loop().time() + 300,
        peer="",
    )

    async with Database.open(database.url, service="memory", size=1, timeout=30.0, limits=limits) as pool:
        with as_current_call(call), pytest.raises(ReadTooCostly):
            async with pool.transaction(UUID(int=1), TxOptions(read_only=reads)) as tx:
                await tx.value(SLOW)
