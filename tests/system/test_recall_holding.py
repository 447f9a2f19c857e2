"""What a process holds in memory, and what it lets go of, seen on a database without services."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import numpy as np
import pytest
from fix_database import TestDatabase
from pgvector import HalfVector

from skein_kit.database.transactions import Database
from skein_kit.search_text.vector_columns import prepare_connection
from skein_recall.models.model import EmbeddingModel
from skein_recall.vector_cache import cache, store
from skein_recall.vector_cache.cache import VectorCache
from skein_recall.vector_cache.codes import BitCodes, ExactCodes
from skein_recall.vector_cache.item_ids import pack_ids
from skein_recall.vector_cache.matrix import MAX_NEW, Shortlist, byte_size
from skein_recall.vector_cache.store import VectorCacheStore

MODEL = EmbeddingModel(
    model="all-minilm-l6-v2",
    provider="embedded",
    dimensions=384,
    table_name="embeddings_all_minilm_l6_v2",
    active=True,
    create_time=datetime.now(UTC),
)
MESSAGES_TOO = ("memory", "message")
AXIS = np.eye(1, 384, dtype=np.float32)[0]


def size(chunks: int) -> int:
    """What so many chunks take, with the room for those that come."""
    return byte_size(chunks + chunks // 8 + 512, 384)


FORTY = size(40)


class Clock:
    """Stands still until it is moved."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class CacheProcess:
    """A process that holds vectors, and a database with some."""

    def __init__(self, database: TestDatabase, pool: Database, clock: Clock, **settings: Any) -> None:
        self.database = database
        self.clock = clock
        self.cache = VectorCache(VectorCacheStore(pool), clock=clock, **settings)

    async def tenant(self, chunks: int) -> UUID:
        """Make a tenant with so many chunks, of an item each."""
        tenant_id = uuid4()
        await self.add(tenant_id, chunks)
        return tenant_id

    async def add(self, tenant_id: UUID, chunks: int) -> list[UUID]:
        item_ids = [uuid4() for _ in range(chunks)]
        drawn = np.random.default_rng(chunks).standard_normal((chunks, 384))
        rows = [
            (tenant_id, item_id, 0, "memory", HalfVector(vector / np.linalg.norm(vector)))
            for item_id, vector in zip(item_ids, drawn, strict=True)
        ]
        async with self.writing() as connection:
            await connection.executemany(
                "INSERT INTO recall.embeddings_all_minilm_l6_v2 (tenant_id, item_id, chunk, kind, embedding) "
                "VALUES ($1, $2, $3, $4, $5)",
                rows,
            )
        return item_ids

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        """Write vectors without the documents that they belong to."""
        async with self.database.superuser() as connection:
            await prepare_connection(connection)
            await connection.execute("SET session_replication_role = replica")
            yield connection

    async def ask(self, tenant_id: UUID) -> Shortlist | None:
        return await self.cache.shortlist(tenant_id, MODEL, AXIS, MESSAGES_TOO, 10)

    async def ask_twice(self, tenant_id: UUID) -> None:
        for _ in range(2):
            await self.ask(tenant_id)

    async def ask_until(self, tenant_id: UUID, items: int) -> Shortlist:
        """Ask until so many items are held."""
        async with asyncio.timeout(30):
            while True:
                result = await self.cache.shortlist(tenant_id, MODEL, AXIS, MESSAGES_TOO, 1000)
                if result is not None and len(result.item_ids) == items:
                    return result
                await asyncio.sleep(0.01)

    async def settle(self, sentinel: UUID) -> None:
        """Wait until all that was wanted was read: a tenant that asks last is held last."""
        async with asyncio.timeout(100):
            while await self.ask(sentinel) is None:
                await asyncio.sleep(0.01)


def came(shortlist: Shortlist, count: int) -> list[Any]:
    """Return what the database answers when so many chunks are new."""
    return [{"server": shortlist.horizon.server_start, "is_new": True} for _ in range(count)]


@asynccontextmanager
async def run_cache_process(database: TestDatabase, **settings: Any) -> AsyncIterator[CacheProcess]:
    """Hold what is read while the block runs."""
    async with Database.open(database.url, service="recall", size=2, timeout=30.0, init=prepare_connection) as pool:
        made = CacheProcess(database, pool, Clock(), **{"max_bytes": 10**9, "min_chunks": 20, **settings})
        running = asyncio.create_task(made.cache.run())
        try:
            yield made
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_a_tenant_is_held_that_searched_twice_within_a_minute_and_has_enough(database: TestDatabase) -> None:
    async with run_cache_process(database) as process:
        often, once, seldom, small = [await process.tenant(count) for count in (20, 20, 20, 19)]

        await process.ask(once)
        await process.ask(seldom)
        process.clock.now += 61
        await process.ask(seldom)
        await process.ask_twice(small)
        await process.ask_twice(often)
        await process.settle(often)

        assert await process.ask(often) is not None
        assert [await process.ask(tenant_id) for tenant_id in (once, small)] == [None, None]
        assert process.cache.byte_size == size(20)


async def test_nothing_is_held_where_there_is_no_memory_for_it(database: TestDatabase) -> None:
    async with (
        run_cache_process(database, max_bytes=0) as none,
        run_cache_process(database, max_bytes=int(1.5 * FORTY), min_recall=2.0) as some,
    ):
        first, second, large = [await some.tenant(count) for count in (40, 40, 400)]
        await none.ask_twice(first)

        await some.ask_twice(large)
        await some.ask_twice(first)
        await some.settle(first)
        await some.ask_twice(second)
        some.clock.now += 30
        # It is refused again before this one is read.
        await some.ask(first)

        assert await none.ask(first) is None
        assert await some.ask(large) is None
        assert some.cache.byte_size == FORTY


async def test_tenants_without_a_search_for_a_minute_make_room(database: TestDatabase) -> None:
    async with run_cache_process(database, max_bytes=int(1.5 * FORTY)) as process:
        first, second = await process.tenant(40), await process.tenant(40)
        await process.ask_twice(first)
        await process.settle(first)

        process.clock.now += 61
        await process.ask_twice(second)
        await process.settle(second)

        assert await process.ask(first) is None
        assert process.cache.byte_size == FORTY


async def test_vectors_that_are_not_searched_are_evicted(database: TestDatabase) -> None:
    async with run_cache_process(database) as process:
        first, second = await process.tenant(40), await process.tenant(20)
        await process.ask_twice(first)
        await process.settle(first)

        process.clock.now += 601
        await process.ask_twice(second)
        await process.settle(second)

        assert process.cache.byte_size == size(20)


async def test_it_is_read_anew_after_half_an_hour(database: TestDatabase) -> None:
    async with run_cache_process(database) as process:
        tenant_id = await process.tenant(40)
        await process.ask_twice(tenant_id)
        await process.settle(tenant_id)
        async with process.writing() as connection:
            await connection.execute(
                "DELETE FROM recall.embeddings_all_minilm_l6_v2 "
                "WHERE item_id IN (SELECT item_id FROM recall.embeddings_all_minilm_l6_v2 LIMIT 15)"
            )

        process.clock.now += 1801
        await process.ask(tenant_id)
        async with asyncio.timeout(30):
            while process.cache.byte_size != size(25):
                await asyncio.sleep(0.01)
                # What is old serves until it is replaced.
                assert await process.ask(tenant_id) is not None


async def test_vectors_of_deleted_items_are_erased_without_reading_the_others_again(database: TestDatabase) -> None:
    async with run_cache_process(database) as process:
        tenant_id = await process.tenant(40)
        await process.ask_twice(tenant_id)
        all_items = (await process.ask_until(tenant_id, 40)).item_ids
        async with process.writing() as connection:
            deleted = await connection.fetch(
                "DELETE FROM recall.embeddings_all_minilm_l6_v2 WHERE item_id = ANY ($1) RETURNING item_id",
                all_items[5:10],
            )

        process.clock.now += 1801
        later = await process.ask_until(tenant_id, 35)

        assert len(deleted) == 5
        assert list(later.item_ids) == [*all_items[:5], *all_items[10:]]
        # The room is as it was, and so are the rows.
        assert process.cache.byte_size == FORTY
        assert isinstance(later.matrix.codes, ExactCodes)
        assert np.count_nonzero(later.matrix.codes.codes[: later.matrix.count].any(axis=1)) == 35


async def test_a_page_of_vectors_ends_within_an_item(database: TestDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_BATCH_NUMBERS", 3 * 384)
    monkeypatch.setattr(store, "_BATCH_IDS", 2)
    async with run_cache_process(database) as process:
        tenant_id = await process.tenant(20)
        async with process.writing() as connection:
            await connection.execute(
                "INSERT INTO recall.embeddings_all_minilm_l6_v2 (tenant_id, item_id, chunk, kind, embedding) "
                "SELECT tenant_id, item_id, more, kind, embedding FROM recall.embeddings_all_minilm_l6_v2 "
                "CROSS JOIN generate_series(1, 4) AS more WHERE tenant_id = $1",
                tenant_id,
            )

        await process.ask_twice(tenant_id)
        before = await process.ask_until(tenant_id, 20)
        process.clock.now += 1801
        await process.ask(tenant_id)
        async with asyncio.timeout(30):
            while (after := await process.ask_until(tenant_id, 20)).matrix.read_time == before.matrix.read_time:
                await asyncio.sleep(0.01)

        assert before.matrix.count == 100
        assert after.matrix.hidden_count == 0


async def test_newer_vectors_are_read_when_there_are_many(database: TestDatabase) -> None:
    async with run_cache_process(database) as process:
        tenant_id = await process.tenant(40)
        await process.ask_twice(tenant_id)
        await process.settle(tenant_id)
        shortlist = await process.ask(tenant_id)
        assert shortlist is not None
        added = set(await process.add(tenant_id, 300))

        process.clock.now += 6
        is_enough = process.cache.accept_rows(shortlist, came(shortlist, 300))
        later = await process.ask_until(tenant_id, 340)

        assert is_enough
        assert later.has_every_item
        assert added < set(later.item_ids)
        assert process.cache.byte_size == FORTY


async def test_more_than_there_is_room_for_is_read_with_the_rest_and_not_again_soon(database: TestDatabase) -> None:
    async with run_cache_process(database) as process:
        tenant_id, other = await process.tenant(40), await process.tenant(20)
        await process.ask_twice(tenant_id)
        await process.settle(tenant_id)
        shortlist = await process.ask(tenant_id)
        assert shortlist is not None
        await process.add(tenant_id, 600)

        process.clock.now += 6
        process.cache.accept_rows(shortlist, came(shortlist, 600))
        await process.ask_twice(other)
        await process.settle(other)
        # All of it was read a moment ago.
        assert await process.ask(tenant_id) is None
        process.clock.now += 61
        await process.ask_twice(tenant_id)
        later = await process.ask_until(tenant_id, 640)

        assert later.has_every_item
        assert process.cache.byte_size == size(640) + size(20)


async def test_a_search_that_finds_too_much_that_is_new_takes_the_index(database: TestDatabase) -> None:
    async with run_cache_process(database) as process:
        tenant_id = await process.tenant(40)
        await process.ask_twice(tenant_id)
        await process.settle(tenant_id)
        shortlist = await process.ask(tenant_id)
        assert shortlist is not None

        assert process.cache.accept_rows(shortlist, came(shortlist, MAX_NEW - 1))
        assert not process.cache.accept_rows(shortlist, came(shortlist, MAX_NEW))


async def test_one_search_a_minute_keeps_nothing_for_ever(database: TestDatabase) -> None:
    async with run_cache_process(database) as process:
        tenant_id = await process.tenant(40)
        await process.ask_twice(tenant_id)
        await process.settle(tenant_id)
        async with process.writing() as connection:
            await connection.execute("DELETE FROM recall.embeddings_all_minilm_l6_v2")

        for _ in range(31):
            process.clock.now += 61
            await process.ask(tenant_id)
        async with asyncio.timeout(30):
            while process.cache.byte_size:
                await asyncio.sleep(0.01)


async def test_a_tenant_with_many_chunks_has_approximate_codes(database: TestDatabase) -> None:
    async with run_cache_process(database, max_exact_chunks=30) as process:
        large, small = await process.tenant(40), await process.tenant(30)
        await process.ask_twice(large)
        await process.ask_twice(small)
        all_items = (await process.ask_until(large, 40)).item_ids
        await process.ask_until(small, 30)

        few = await process.cache.shortlist(large, MODEL, AXIS, MESSAGES_TOO, 10, pack_ids(all_items[5:20]))

        assert few is not None
        assert not few.is_exact
        assert set(few.item_ids) == set(all_items[5:20])
        assert process.cache.byte_size == byte_size(40 + 5 + 512, 384, BitCodes) + size(30)
        assert [process.cache.count_tenants(form) for form in (ExactCodes, BitCodes)] == [1, 1]


async def test_a_tenant_has_approximate_codes_where_exact_ones_find_no_room(database: TestDatabase) -> None:
    async with run_cache_process(database, max_bytes=FORTY // 2) as process:
        tenant_id = await process.tenant(40)
        await process.ask_twice(tenant_id)

        shortlist = await process.ask_until(tenant_id, 40)

        assert not shortlist.is_exact


async def test_approximate_codes_that_find_too_little_are_not_used_until_later(
    database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of random vectors none is near another: the bits hardly tell which is the nearest."""
    monkeypatch.setattr(cache, "LISTED_ITEMS", (10, 11))
    async with run_cache_process(database, max_exact_chunks=30) as process:
        tenant_id = await process.tenant(400)
        await process.ask_twice(tenant_id)
        first = await process.ask_until(tenant_id, 400)

        monkeypatch.undo()
        process.clock.now += 3601
        async with asyncio.timeout(30):
            while process.cache.count_tenants(BitCodes) == 0:
                await process.ask(tenant_id)
                await asyncio.sleep(0.01)

        assert first.is_exact


async def test_a_tenant_that_outgrows_exact_codes_is_promoted(database: TestDatabase) -> None:
    async with run_cache_process(database, max_exact_chunks=100) as process:
        tenant_id = await process.tenant(40)
        await process.ask_twice(tenant_id)
        first = await process.ask_until(tenant_id, 40)
        await process.add(tenant_id, 300)

        process.clock.now += 61
        process.cache.accept_rows(first, came(first, 300))
        later = await process.ask_until(tenant_id, 340)

        assert first.is_exact
        assert not later.is_exact


async def test_a_model_of_the_same_name_that_was_made_later_is_another(database: TestDatabase) -> None:
    async with run_cache_process(database) as process:
        tenant_id = await process.tenant(40)
        await process.ask_twice(tenant_id)
        await process.settle(tenant_id)
        later = replace(MODEL, dimensions=16, create_time=MODEL.create_time + timedelta(seconds=1))

        result = await process.cache.shortlist(tenant_id, later, AXIS[:16], MESSAGES_TOO, 10)

        assert result is None
        assert await process.ask(tenant_id) is not None


async def test_unreadable_vectors_do_not_delay_other_tenants(database: TestDatabase) -> None:
    async with run_cache_process(database) as process:
        unreadable = replace(MODEL, table_name="embeddings_of_nothing")
        tenant_id, other = await process.tenant(40), await process.tenant(20)

        for _ in range(2):
            await process.cache.shortlist(tenant_id, unreadable, AXIS, MESSAGES_TOO, 10)
        await process.ask_twice(other)
        await process.settle(other)

        assert process.cache.byte_size == size(20)


async def test_a_model_of_many_dimensions_is_held_with_all_of_them(database: TestDatabase) -> None:
    drawn = np.random.default_rng(7).standard_normal((60, 1536)).astype(np.float32)
    # The first ones, which the index knows, say nothing.
    drawn[:, :1280] = 0.01
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    drawn = drawn.astype(np.float16).astype(np.float32)
    item_ids = [uuid4() for _ in drawn]
    async with run_cache_process(database) as process:
        async with process.writing() as connection:
            await connection.execute("SELECT recall.register_model('wide', 'caller', 1536, now())")
            tenant_id = uuid4()
            await connection.executemany(
                "INSERT INTO recall.embeddings_wide (tenant_id, item_id, chunk, kind, embedding, rest) "
                "VALUES ($1, $2, 0, 'memory', $3, $4)",
                [
                    (tenant_id, item_id, HalfVector(vector[:1280]), HalfVector(vector[1280:]))
                    for item_id, vector in zip(item_ids, drawn, strict=True)
                ],
            )
        wide = replace(MODEL, model="wide", dimensions=1536, table_name="embeddings_wide")

        async with asyncio.timeout(30):
            while (result := await process.cache.shortlist(tenant_id, wide, drawn[3], MESSAGES_TOO, 10)) is None:
                await asyncio.sleep(0.01)

    nearest = sorted(range(60), key=lambda process: -float(drawn[process] @ drawn[3]))
    assert result.item_ids == [item_ids[process] for process in nearest[:10]]
    assert 0 <= result.bound - float(drawn[nearest[10]] @ drawn[3]) < 1e-3


async def test_a_vector_is_never_changed(database: TestDatabase) -> None:
    async with database.role("recall") as connection:
        tables = await connection.fetch(
            "SELECT c.oid::regclass::text AS name FROM pg_class AS c "
            "WHERE c.relname LIKE 'embeddings%' AND c.relkind = 'p'"
        )
        may = [await connection.fetchval("SELECT has_table_privilege($1, 'UPDATE')", row["name"]) for row in tables]

    assert may == [False]


async def test_another_server_is_detected(database: TestDatabase) -> None:
    async with run_cache_process(database) as process:
        tenant_id = await process.tenant(40)
        await process.ask_twice(tenant_id)
        await process.settle(tenant_id)
        shortlist = await process.ask(tenant_id)
        assert shortlist is not None
        other: Any = {"server": datetime.now(UTC), "is_new": None}

        assert not process.cache.accept_rows(shortlist, [other])
        assert await process.ask(tenant_id) is None
        assert process.cache.byte_size == 0


@pytest.mark.parametrize("limit", ["_MAX_EXACT_ON_LOOP", "_MAX_QUANTIZED_ON_LOOP"])
async def test_a_large_comparison_runs_beside_the_event_loop(
    database: TestDatabase, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    async with run_cache_process(database) as process:
        tenant_id = await process.tenant(300)
        await process.ask_twice(tenant_id)
        all_items = (await process.ask_until(tenant_id, 300)).item_ids
        at_once = await process.ask(tenant_id)

        monkeypatch.setattr(cache, limit, 0)
        beside = await process.ask(tenant_id)

    assert at_once is not None
    assert beside is not None
    assert list(beside.item_ids) == list(at_once.item_ids) == list(all_items[:10])
    assert beside.bound == at_once.bound
