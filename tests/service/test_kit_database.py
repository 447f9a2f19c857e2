"""What a service's pool does when things go wrong, seen on a database without services."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fix_database import TestDatabase

from skein_kit.database import Database
from skein_kit.sql import Query

SLOW = Query.of("slow", "SELECT pg_sleep(30)")
BACKEND = Query.of("backend", "SELECT pg_backend_pid()")


@pytest.fixture
async def pool(database: TestDatabase) -> AsyncIterator[Database]:
    """A pool of one connection, so that the next transaction meets what the last one left."""
    async with Database.open(database.url, service="memory", size=1, timeout=5.0) as opened:
        yield opened


async def backend(pool: Database) -> int:
    async with pool.shared() as tx:
        pid: int = await tx.value(BACKEND)
    return pid


async def slow(pool: Database, started: asyncio.Event) -> Any:
    async with pool.shared() as tx:
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


async def test_a_transaction_cancelled_at_any_moment_leaves_nothing_open(pool: Database) -> None:
    for steps in range(12):
        task = asyncio.create_task(slow(pool, asyncio.Event()))
        for _ in range(steps):
            await asyncio.sleep(0.0005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert await backend(pool)
