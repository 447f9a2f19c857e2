"""What callers of a `skein up` see when its Postgres is killed, or will not let a change through."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import uuid
from collections.abc import AsyncIterator
from typing import Any, cast

import asyncpg
import grpc
import pytest
from fix_cluster import Tenant, new_tenant, refused
from fix_command import RunningCluster, erase, up
from fix_faults import database_url, server_pid
from fix_writers import Writers
from google.rpc import error_details_pb2
from grpc import aio
from grpc_status import rpc_status

from skein.memory.v1 import memory_pb2 as pb
from skein_client.client import Client

_RETRY = error_details_pb2.RetryInfo.DESCRIPTOR
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningCluster]:
    """A `skein up` whose writes reach the disk."""
    folder = tmp_path_factory.mktemp("faults")
    async with up(folder) as result:
        await _look_for_deadlocks_late(result)
        yield result
    erase(folder)


async def _look_for_deadlocks_late(running: RunningCluster) -> None:
    """Give a test five seconds to let two wait for one another: who waits looks for that once alone."""
    connection = await asyncpg.connect(database_url(running.data_dir))
    await connection.execute("ALTER SYSTEM SET deadlock_timeout = '5s'")
    await connection.execute("SELECT pg_reload_conf()")
    async with asyncio.timeout(30):
        while await connection.fetchval("SHOW deadlock_timeout") != "5s":
            await asyncio.sleep(0.01)
    await connection.close()


@pytest.fixture
async def home(running: RunningCluster) -> AsyncIterator[Tenant]:
    """A fresh tenant."""
    async with aio.insecure_channel(running.credentials["endpoint"]) as channel:
        yield await _made(channel, running.credentials["operator_key"])


async def _made(channel: aio.Channel, operator_key: str) -> Tenant:
    """Make a tenant as soon as all services have heard that Postgres is back."""
    async with asyncio.timeout(120):
        while True:
            await asyncio.sleep(0.05)
            with contextlib.suppress(aio.AioRpcError):
                return await new_tenant(channel, operator_key)


async def test_a_killed_postgres_loses_nothing_acknowledged_and_is_back_by_itself(
    running: RunningCluster, home: Tenant
) -> None:
    writers = await Writers.of(home, seconds=30.0)
    async with writers.writing():
        await writers.more(5)
        killed = server_pid(running.data_dir)
        os.kill(killed, signal.SIGKILL)
        await writers.refused(1)
        await writers.more(5)
        again = server_pid(running.data_dir)
        # The backend of a writer in the middle of its work: the server ends all others, and recovers.
        connection = await asyncpg.connect(database_url(running.data_dir))
        backends = await connection.fetch(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'skein_memory' AND pid <> pg_backend_pid()"
        )
        os.kill(backends[0]["pid"], signal.SIGKILL)
        await writers.refused(1)
        await writers.more(5)

    connection.terminate()
    assert again != killed
    assert server_pid(running.data_dir) == again
    assert {code for code, _ in writers.refusals} == {grpc.StatusCode.UNAVAILABLE}, writers.refusals
    # No call waits for the end of its own thirty seconds.
    assert writers.longest_seconds < 20
    await writers.replay()
    await writers.must_be_whole()


# Takes the request_id of a change that is at work.
_TAKE = """
    INSERT INTO memory.requests (tenant_id, principal, method, request_id, fingerprint, response, create_time)
    SELECT tenant_id, principal, method, 'second', fingerprint, response, create_time
    FROM memory.requests WHERE tenant_id = $1 AND request_id = 'first'
"""


@pytest.mark.essential
async def test_one_of_two_deadlocked_changes_is_to_be_tried_again(running: RunningCluster, home: Tenant) -> None:
    """The change has taken its request_id and waits for the memory, whose holder then waits for that id."""
    memory = (await home.memory.CreateMemory(pb.CreateMemoryRequest(memory=pb.Memory(content="torn")))).memory
    await home.memory.UpdateMemory(_importance(memory.memory_id, 0.1, "first"))
    rival = await asyncpg.connect(database_url(running.data_dir))
    # The server ends the one whose patience is over first.
    await rival.execute("SET deadlock_timeout = '60s'")
    transaction = rival.transaction()
    await transaction.start()
    await rival.execute("SELECT FROM memory.memories WHERE memory_id = $1 FOR UPDATE", uuid.UUID(memory.memory_id))

    change = asyncio.create_task(_sent(home, _importance(memory.memory_id, 0.9, "second")))
    await _waits(rival)
    taking = asyncio.create_task(rival.execute(_TAKE, home.tenant_id))
    with refused(grpc.StatusCode.ABORTED, "TRANSACTION_CONFLICT") as caught:
        await change
    await taking
    await transaction.rollback()
    await rival.close()

    delays = [detail for detail in rpc_status.from_call(cast("Any", caught.value)).details if detail.Is(_RETRY)]
    assert len(delays) == 1
    read = (await home.memory.GetMemory(pb.GetMemoryRequest(memory_id=memory.memory_id))).memory
    assert (read.importance, read.revision) == (0.1, 2)
    again = await home.memory.UpdateMemory(_importance(memory.memory_id, 0.9, "second"))
    assert (again.memory.importance, again.memory.revision) == (0.9, 3)


async def test_the_client_tries_a_change_again_that_lost(running: RunningCluster, home: Tenant) -> None:
    memory = (await home.memory.CreateMemory(pb.CreateMemoryRequest(memory=pb.Memory(content="torn again")))).memory
    await home.memory.UpdateMemory(_importance(memory.memory_id, 0.1, "third"))
    rival = await asyncpg.connect(database_url(running.data_dir))
    await rival.execute("SET deadlock_timeout = '60s'")
    transaction = rival.transaction()
    await transaction.start()
    await rival.execute("SELECT FROM memory.memories WHERE memory_id = $1 FOR UPDATE", uuid.UUID(memory.memory_id))

    async with Client(endpoint=running.credentials["endpoint"], api_key=home.api_key, timeout=60) as skein:
        change = asyncio.create_task(_sent(skein, _importance(memory.memory_id, 0.9, "fourth")))
        await _waits(rival)
        await rival.execute(_TAKE.replace("first", "third").replace("second", "fourth"), home.tenant_id)
        await transaction.rollback()
        changed = await change
    await rival.close()

    assert (changed.memory.importance, changed.memory.revision) == (0.9, 3)


def _importance(memory_id: str, value: float, request_id: str) -> pb.UpdateMemoryRequest:
    request = pb.UpdateMemoryRequest(memory=pb.Memory(memory_id=memory_id, importance=value), request_id=request_id)
    request.update_mask.paths.append("importance")
    return request


async def _sent(by: Tenant | Client, request: pb.UpdateMemoryRequest) -> pb.UpdateMemoryResponse:
    stub = by.memories if isinstance(by, Client) else by.memory
    return await stub.UpdateMemory(request)


async def _waits(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Wait until a statement of the service waits for a lock."""
    async with asyncio.timeout(30):
        while not await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'skein_memory' AND wait_event_type = 'Lock'"
        ):
            await asyncio.sleep(0.01)
            await connection.execute("SELECT pg_stat_clear_snapshot()")
