"""What a process keeps of the names of entities in memory, and what it removes, on a database without services."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import pytest
from fix_database import TestDatabase

from skein_kit.database.transactions import Database
from skein_kit.ids import new_id, now
from skein_recall.search.name_cache import IDLE_SECONDS, NameCache

QUERY = "How slow is GHA?"


class Clock:
    """Stands still until it is moved."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def pool(database: TestDatabase) -> AsyncIterator[Database]:
    async with Database.open(database.url, service="recall", size=2, timeout=30.0) as pool:
        yield pool


async def add_names(database: TestDatabase) -> UUID:
    """Make a tenant in which GHA is an alias of GitHub Actions; return its id."""
    tenant_id, at = uuid4(), now()
    memory_ids = [new_id(at), new_id(at)]
    async with database.superuser() as connection:
        await connection.execute("SELECT memory.ensure_month($1)", at)
        # Without the row of the tenant.
        await connection.execute("SET session_replication_role = replica")
        for memory_id, title in zip(memory_ids, ["GitHub Actions", "GHA"], strict=True):
            await connection.execute(
                "INSERT INTO memory.memories (tenant_id, memory_id, type, title, content, content_hash, scope, level, "
                "confidence, importance, create_time, update_time, created_by, updated_by) "
                "VALUES ($1, $2, 'entity', $3, 'an entity', '', 'global', 'operational', 1, 0.5, $4, $4, 't', 't')",
                tenant_id,
                memory_id,
                title,
                at,
            )
        await connection.execute(
            "INSERT INTO memory.aliases (tenant_id, alias_memory_id, canonical_memory_id, confidence, revision, "
            "create_time, update_time, created_by, updated_by) VALUES ($1, $3, $2, 1, 1, $4, $4, 't', 't')",
            tenant_id,
            *memory_ids,
            at,
        )
    return tenant_id


async def names(cache: NameCache, tenant_id: UUID) -> list[str]:
    mentions = await cache.read_mentions(tenant_id, QUERY, None, now())
    return [name.text for mention in mentions for name in mention.others]


@pytest.mark.system
async def test_names_that_are_being_read_during_an_erasure_are_not_kept(database: TestDatabase, pool: Database) -> None:
    cache, tenant_id = NameCache(pool, Clock()), await add_names(database)
    async with database.superuser() as connection:
        async with connection.transaction():
            await connection.execute("LOCK TABLE memory.memories IN ACCESS EXCLUSIVE MODE")
            reading = asyncio.create_task(names(cache, tenant_id))
            is_waiting = (
                "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid)))"
            )
            while not await connection.fetchval(is_waiting):
                await connection.execute("SELECT pg_stat_clear_snapshot()")
                await asyncio.sleep(0.01)

            cache.drop(tenant_id)

        await reading
        assert len(cache) == 0


@pytest.mark.system
async def test_names_of_a_tenant_that_no_longer_searches_are_removed(database: TestDatabase, pool: Database) -> None:
    clock = Clock()
    cache = NameCache(pool, clock)
    former, other = await add_names(database), await add_names(database)
    assert await names(cache, former) == ["GitHub Actions"]

    clock.now += IDLE_SECONDS + 1
    await names(cache, other)

    assert len(cache) == 2


async def test_names_are_dropped_for_one_tenant_or_for_all(database: TestDatabase, pool: Database) -> None:
    cache = NameCache(pool, Clock())
    first, second = await add_names(database), await add_names(database)
    for tenant_id in (first, second):
        await names(cache, tenant_id)

    cache.drop(first)
    assert len(cache) == 2

    cache.drop(None)
    assert len(cache) == 0
