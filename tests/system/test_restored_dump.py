"""Readers keep their positions when a dump is restored into another server, whose transactions count from the start."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import pytest
from fix_cluster import Tenant
from fix_own_postgres import migrated, open_folder, run_program, served_on, url_of

from skein.memory.v1 import history_pb2 as pb
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein_cluster import embedded, registry
from skein_cluster.embedded.databases import DATABASE
from skein_kit.database.schema_migrations import migrate

# So many transactions more than the other server has when it starts.
SPEND = "DO $$ BEGIN FOR _ IN 1 .. 5000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"


async def remember(tenant: Tenant, text: str) -> None:
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content=text)))


async def listed(tenant: Tenant, position: str = "") -> pb.ListChangesResponse:
    response: pb.ListChangesResponse = await tenant.history.ListChanges(pb.ListChangesRequest(position=position))
    return response


async def listed_until(tenant: Tenant, count: int, position: str = "") -> pb.ListChangesResponse:
    """List until the changes are there: a transaction of another service may hold them back."""
    async with asyncio.timeout(60):
        while len((response := await listed(tenant, position)).changes) < count:
            await asyncio.sleep(0.01)
    return response


async def texts(tenant: Tenant, query: str) -> list[str]:
    response: Any = await tenant.recall.Recall(recall_pb2.RecallRequest(query=query))
    return [hit.memory.content for hit in response.hits]


@pytest.mark.essential
async def test_readers_go_on_after_a_dump_is_restored_into_another_server() -> None:
    async with AsyncExitStack() as stack:
        folder, other_folder = stack.enter_context(open_folder()), stack.enter_context(open_folder())
        base = await migrated(folder)
        await migrated(other_folder)
        dump = other_folder / "dump"
        async with embedded.running_server(folder / "postgres", durable=False) as former:
            connection = await asyncpg.connect(url_of(former))
            await connection.execute(SPEND)
            await connection.close()
            async with served_on(base, former) as (_, tenant):
                await remember(tenant, "The kettle is green.")
                await remember(tenant, "The harbour is old.")
                before = await listed_until(tenant, 2)
            await run_program(former, "pg_dump", "--format", "custom", "--file", dump, DATABASE)
        other = await stack.enter_async_context(embedded.running_server(other_folder / "postgres", durable=False))
        await embedded.drop_database(other, DATABASE)
        await embedded.create_database(other, DATABASE)
        await run_program(other, "pg_restore", "--dbname", DATABASE, dump)
        await migrate(url_of(other), registry.migrations(), registry.WITH_DATABASE)

        async with served_on(base, other) as (_, tenant):
            restored = await listed_until(tenant, 2)
            await remember(tenant, "The violin has four strings.")
            after = await listed_until(tenant, 1, before.position)
            middle = await listed_until(tenant, 2, before.changes[0].position)
            found = await texts(tenant, "violin strings")

    assert list(restored.changes) == list(before.changes)
    assert len(after.changes) == 1
    assert [change.change_id for change in middle.changes] == [
        before.changes[1].change_id,
        after.changes[0].change_id,
    ]
    assert found[0] == "The violin has four strings."
