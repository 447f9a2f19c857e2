"""What callers see when something behind the gateway breaks. Each test breaks a cluster of its own."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import grpc
import pytest
from fix_cluster import Stubs, Tenant, refused
from fix_own_postgres import migrated, open_folder, served_on, url_of
from grpc import aio

from skein.memory.v1 import memory_pb2 as pb
from skein_cluster import embedded
from skein_cluster.embedded.server import Server


@dataclass
class StoppableCluster:
    """A cluster whose database can be stopped and started under it."""

    folder: Path
    tenant: Tenant
    server: Server
    stack: AsyncExitStack

    async def stop_postgres(self) -> None:
        await self.stack.aclose()

    async def start_postgres(self) -> None:
        self.server = await self.stack.enter_async_context(embedded.running_server(self.folder / "postgres"))

    @asynccontextmanager
    async def superuser(self) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        connection = await asyncpg.connect(url_of(self.server))
        try:
            yield connection
        finally:
            await connection.close()


@pytest.fixture
async def stoppable() -> AsyncIterator[StoppableCluster]:
    with open_folder() as folder:
        base = await migrated(folder)
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(embedded.running_server(folder / "postgres"))
            async with served_on(base, server) as (_, tenant):
                yield StoppableCluster(folder, tenant, server, stack)


async def _until_it_works(stubs: Stubs) -> None:
    while True:
        await asyncio.sleep(0.05)
        with contextlib.suppress(aio.AioRpcError):
            await stubs.memory.ListMemories(pb.ListMemoriesRequest())
            return


@pytest.mark.essential
async def test_a_database_restart_under_load_fails_fast_and_heals_by_itself(stoppable: StoppableCluster) -> None:
    stubs, loop = stoppable.tenant, asyncio.get_running_loop()
    acknowledged: list[str] = []
    failures: list[tuple[grpc.StatusCode, float]] = []
    stop = asyncio.Event()

    async def write(writer: int) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            external_id = f"w{writer}-{number}"
            memory = pb.Memory(external_id=external_id, content=f"value {number}")
            started = loop.time()
            try:
                await stubs.memory.CreateMemory(pb.CreateMemoryRequest(memory=memory))
                acknowledged.append(external_id)
            except aio.AioRpcError as error:
                failures.append((error.code(), loop.time() - started))
                await asyncio.sleep(0.01)  # A refused client waits a little, like any.

    async with asyncio.TaskGroup() as group:
        for writer in range(4):
            group.create_task(write(writer))
        while len(acknowledged) < 20:
            await asyncio.sleep(0.01)
        await stoppable.stop_postgres()
        while len(failures) < 20:
            await asyncio.sleep(0.01)
        await stoppable.start_postgres()
        async with asyncio.timeout(60):
            await _until_it_works(stubs)
        healed = len(acknowledged)
        async with asyncio.timeout(30):
            while len(acknowledged) < healed + 20:
                await asyncio.sleep(0.01)
        stop.set()

    assert {code for code, _ in failures} == {grpc.StatusCode.UNAVAILABLE}
    # No call waits for the end of its own thirty seconds.
    assert max(seconds for _, seconds in failures) < 20
    response = await stubs.memory.BatchGetMemories(pb.BatchGetMemoriesRequest(memory_ids=acknowledged[:1000]))
    assert list(response.not_found_ids) == []


async def test_a_deadline_that_passes_cancels_the_statement(stoppable: StoppableCluster) -> None:
    stubs = stoppable.tenant
    created = await stubs.memory.CreateMemory(pb.CreateMemoryRequest(memory=pb.Memory(content="before")))
    memory_id = created.memory.memory_id
    update = pb.UpdateMemoryRequest(memory=pb.Memory(memory_id=memory_id, content="after"))
    update.update_mask.paths.append("content")

    async with stoppable.superuser() as connection, connection.transaction():
        await connection.execute("SELECT FROM memory.memories WHERE memory_id = $1 FOR UPDATE", uuid.UUID(memory_id))
        with pytest.raises(aio.AioRpcError) as caught:
            await stubs.memory.UpdateMemory(update, timeout=0.5)
        async with asyncio.timeout(30):
            while await connection.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'skein_memory' AND state = 'active'"
            ):
                await asyncio.sleep(0.01)
                # A transaction goes on seeing who was active when it first looked.
                await connection.execute("SELECT pg_stat_clear_snapshot()")
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    read = await stubs.memory.GetMemory(pb.GetMemoryRequest(memory_id=memory_id))
    assert (read.memory.content, read.memory.revision) == ("before", 1)


async def test_the_text_of_a_fault_stays_inside(stoppable: StoppableCluster) -> None:
    stubs = stoppable.tenant
    created = await stubs.memory.CreateMemory(pb.CreateMemoryRequest(memory=pb.Memory(content="x")))
    async with stoppable.superuser() as connection:
        await connection.execute("ALTER TABLE memory.links RENAME TO links_moved_away")

    with refused(grpc.StatusCode.INTERNAL, "INTERNAL") as caught:
        await stubs.links.ListLinks(pb.ListLinksRequest(memory_id=created.memory.memory_id))

    error_text = f"{caught.value.details()} {caught.value.trailing_metadata()}"
    assert "links" not in error_text
    assert "relation" not in error_text
