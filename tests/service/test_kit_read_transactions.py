"""Read-only transactions one after another: what each sees, and what it leaves on its connection."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
import pytest
from fix_database import TestDatabase
from fix_metrics import sample

from skein_kit.calls.call import Call, as_current_call
from skein_kit.database import connection_pool
from skein_kit.database.named_queries import Query
from skein_kit.database.transactions import Database
from skein_kit.database.tx_options import READ_ONLY, TxOptions
from skein_kit.errors import DatabaseUnavailable

BACKEND = Query.parse("backend", "SELECT pg_backend_pid()")
SETTINGS = Query.parse(
    "settings",
    "SELECT current_setting('skein.tenant_id', true) AS tenant, current_setting('transaction_read_only') AS reads, "
    "current_setting('plan_cache_mode') AS plans, now() AS begun, pg_backend_pid() AS backend",
)
ONE, OTHER = UUID(int=1), UUID(int=2)


@pytest.fixture
async def pool(database: TestDatabase) -> AsyncIterator[Database]:
    """A pool of one connection, so that the next transaction meets what the last one left."""
    async with Database.open(database.url, service="memory", size=1, timeout=30.0) as opened:
        yield opened


async def read(pool: Database, tenant_id: UUID = ONE) -> asyncpg.Record:
    async with pool.transaction(tenant_id, TxOptions(plan_once=True, read_only=True)) as tx:
        row = await tx.row(SETTINGS)
    assert row is not None
    return row


def idle() -> float | None:
    return sample("skein_database_pool_connections", service="memory", state="idle")


async def states(database: TestDatabase) -> list[str]:
    async with database.superuser() as connection:
        rows = await connection.fetch(
            "SELECT state FROM pg_stat_activity "
            "WHERE application_name = 'skein_memory' AND datname = current_database()"
        )
    return [row["state"] for row in rows]


async def test_each_read_has_a_transaction_of_its_own_for_its_own_tenant(pool: Database) -> None:
    first = await read(pool, ONE)
    second = await read(pool, OTHER)

    assert (first["tenant"], second["tenant"]) == (str(ONE), str(OTHER))
    assert (first["reads"], second["reads"]) == ("on", "on")
    assert first["backend"] == second["backend"]
    assert first["begun"] < second["begun"]


async def test_a_read_leaves_no_setting_for_the_next_transaction(pool: Database) -> None:
    await read(pool)

    async with pool.global_transaction() as tx:
        row = await tx.row(SETTINGS)

    assert row is not None
    assert (row["tenant"], row["reads"], row["plans"]) == ("", "off", "force_custom_plan")


async def test_a_read_has_ended_when_its_block_ends(pool: Database, database: TestDatabase) -> None:
    await read(pool)

    assert await states(database) == ["idle"]


async def test_a_waiting_transaction_gets_the_connection_of_the_one_before(pool: Database) -> None:
    async with pool.transaction(ONE, READ_ONLY) as tx:
        before = await tx.value(BACKEND)
        waiting = asyncio.create_task(read(pool, OTHER))
        await asyncio.sleep(0)

    assert (await waiting)["backend"] == before


async def test_a_read_whose_statement_failed_leaves_a_clean_connection(pool: Database) -> None:
    async with pool.transaction(ONE, READ_ONLY) as tx:
        with pytest.raises(asyncpg.DivisionByZeroError):
            await tx.value(Query.parse("fails", "SELECT 1 / 0"))

    assert (await read(pool, OTHER))["tenant"] == str(OTHER)


async def test_a_transaction_that_is_over_refuses_statements(pool: Database) -> None:
    async with pool.transaction(ONE, READ_ONLY) as tx:
        pass

    # Another's transaction may be on the same connection by now.
    async with pool.transaction(OTHER, READ_ONLY):
        with pytest.raises(asyncpg.InterfaceError, match="over"):
            await tx.value(BACKEND)


async def test_an_idle_connection_that_the_server_ends_is_replaced(pool: Database, database: TestDatabase) -> None:
    before = (await read(pool))["backend"]

    async with database.superuser() as connection:
        await connection.execute(f"SELECT pg_terminate_backend({before}, 10000)")
    async with asyncio.timeout(30):
        # Here it is known when the loop has looked at the socket.
        while idle():
            await asyncio.sleep(0)

    assert (await read(pool))["backend"] != before


@pytest.mark.system
async def test_every_connection_is_replaced_after_the_server_did_not_answer(
    database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_pool, "ANSWER_SECONDS", 0.5)
    async with Database.open(database.url, service="memory", size=2, timeout=30.0) as pool:
        async with pool.transaction(ONE, READ_ONLY) as tx:
            old = await tx.value(BACKEND)
            silent = (await read(pool, OTHER))["backend"]
            os.kill(silent, signal.SIGSTOP)
            try:
                with pytest.raises(DatabaseUnavailable):
                    await read(pool, OTHER)
            finally:
                os.kill(silent, signal.SIGCONT)

        after = (await read(pool))["backend"]

    assert after not in {old, silent}


async def test_the_pool_closes_at_once_after_reads(database: TestDatabase) -> None:
    async with asyncio.timeout(10):
        async with Database.open(database.url, service="memory", size=3, timeout=30.0) as pool:
            await asyncio.gather(*(read(pool) for _ in range(3)))

    async with asyncio.timeout(30):
        while await states(database):
            await asyncio.sleep(0.02)


async def test_a_cancelled_read_leaves_nothing_open(pool: Database) -> None:
    await read(pool)
    for steps in range(12):
        task = asyncio.create_task(read(pool))
        for _ in range(steps):
            await asyncio.sleep(0.0002)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

        assert (await read(pool, OTHER))["tenant"] == str(OTHER)


async def test_the_deadline_of_a_read_does_not_reach_the_next_transaction(pool: Database) -> None:
    deadline = asyncio.get_running_loop().time() + 0.05
    with as_current_call(Call(path="/test", metadata={}, deadline=deadline, peer="test")):
        await read(pool)

    async with pool.transaction(OTHER, READ_ONLY) as tx:
        timeout = await tx.value(Query.parse("timeout", "SELECT current_setting('statement_timeout')"))

    assert timeout == "0"
