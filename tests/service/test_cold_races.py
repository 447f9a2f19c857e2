"""A purge that meets memories on their way to cold storage takes them there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from fix_cluster import Cluster, Tenant

from skein.memory.v1 import archives_pb2, memory_pb2
from skein_kit.database.connection_settings import connect_arguments

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%memory.memories%'"


@asynccontextmanager
async def superuser(cluster: Cluster) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    url = cluster.postgres.url(user="postgres", database="skein")
    connection = await asyncpg.connect(**connect_arguments(url, "postgres"))
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def lock_memory(cluster: Cluster, memory_id: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """Block changes of a memory until the block ends; waiting transactions then go on in the order in which they came.

    What is yielded can see who waits.
    """
    async with superuser(cluster) as watcher, superuser(cluster) as connection, connection.transaction():
        await connection.execute("SELECT FROM memory.memories WHERE memory_id = $1 FOR UPDATE", UUID(memory_id))
        yield watcher


async def waiting(connection: asyncpg.Connection[asyncpg.Record], count: int) -> None:
    async with asyncio.timeout(60):
        while await connection.fetchval(_WAITING) < count:
            await asyncio.sleep(0.01)


SELECTIONS: dict[str, dict[str, Any]] = {
    "external id": {"memory_ids": ["e1"]},
    "person": {"filter": memory_pb2.MemoryFilter(subject_id="ann")},
    "filter": {"filter": memory_pb2.MemoryFilter(tags_any=["go"])},
}


@pytest.mark.parametrize("selected", SELECTIONS.values(), ids=SELECTIONS.keys())
async def test_memories_archived_during_a_purge_are_purged(
    cluster: Cluster, tenant: Tenant, selected: dict[str, Any]
) -> None:
    memory = memory_pb2.Memory(content="it must go", tags=["go"], subject_id="ann", external_id="e1")
    memory.create_time.FromDatetime(LONG_AGO)
    made = (await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))).memory
    request = memory_pb2.PurgeMemoriesRequest(selection=memory_pb2.MemorySelection(**selected))

    async with lock_memory(cluster, made.memory_id) as watcher:
        archiving = asyncio.ensure_future(
            tenant.history.ArchiveMemories(archives_pb2.ArchiveMemoriesRequest(idle_since_time=datetime.now(UTC)))
        )
        await waiting(watcher, 1)
        purging = asyncio.ensure_future(tenant.memory.PurgeMemories(request))
        await waiting(watcher, 2)
    archived, purged = await archiving, await purging
    while purged.next_page_token:
        purged = await tenant.memory.PurgeMemories(
            memory_pb2.PurgeMemoriesRequest(selection=request.selection, page_token=purged.next_page_token)
        )

    assert archived.archive.memory_count == 1
    assert not (await tenant.history.ListArchives(archives_pb2.ListArchivesRequest())).archives
