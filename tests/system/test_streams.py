"""What every stream of every service has in common, seen on watches of the event log."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import grpc
import pytest
from fix_cluster import Cluster, Stubs, Tenant, refused, running_cluster, test_environment
from fix_world import identity
from google.rpc import error_details_pb2
from grpc import aio
from grpc_status import rpc_status

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import history_pb2 as pb
from skein.memory.v1 import history_pb2_grpc, memory_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_kit.rpc.streaming import MAX_PER_TENANT
from skein_memory.events.stream import MAX_UNREAD_CHANGES

SECONDS = 60.0
# Of 8 kB each: more than gRPC and a subscriber buffer for a client that does not read.
MANY = 3000
IMPATIENT = {
    "SKEIN_ADVANCED_STREAM_HEARTBEAT_SECONDS": "0.2",
}
PATH = "/skein.memory.v1.HistoryService/StreamChanges"


@pytest.fixture(scope="module")
async def short_cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """A cluster that waits for nothing."""
    environment = {**test_environment(), **IMPATIENT}
    async with running_cluster(tmp_path_factory.mktemp("short_cluster"), environment) as cluster:
        yield cluster


@pytest.fixture
async def short_tenant(short_cluster: Cluster) -> Tenant:
    """A fresh tenant of that cluster."""
    return await short_cluster.new_tenant()


def watch(tenant: Any, **fields: Any) -> Any:
    return tenant.history.StreamChanges(pb.StreamChangesRequest(**fields))


async def begun(tenant: Any, **fields: Any) -> Any:
    """Return a watch that has begun."""
    call = watch(tenant, **fields)
    assert await read(call) is not aio.EOF
    return call


async def read(call: Any) -> Any:
    return await asyncio.wait_for(call.read(), SECONDS)


async def drained(call: Any) -> list[pb.StreamChangesResponse]:
    """Read until the stream ends."""
    results = []
    while (answer := await read(call)) is not aio.EOF:
        results.append(answer)
    return results


async def remember(tenant: Tenant, count: int = 1) -> list[str]:
    made: list[str] = []
    for start in range(0, count, 100):
        memories = [memory_pb2.Memory(content=f"tea {number}") for number in range(min(100, count - start))]
        request = memory_pb2.BatchCreateMemoriesRequest(memories=memories)
        made += [memory.memory_id for memory in (await tenant.memory.BatchCreateMemories(request)).memories]
    return made


async def in_flight(cluster: Cluster) -> float:
    """Return how many watches the memory service is working on."""
    address = cluster.admins["memory"]
    text = (await asyncio.to_thread(urllib.request.urlopen, f"http://{address}/metrics")).read().decode()
    line = next(line for line in text.splitlines() if "skein_rpc_in_flight" in line and "StreamChanges" in line)
    return float(line.rpartition(" ")[2])


async def test_while_nothing_happens_a_stream_says_so_and_where_it_is(short_tenant: Tenant) -> None:
    call = await begun(short_tenant)

    answers = [await read(call) for _ in range(3)]

    assert not any(answer.HasField("change") for answer in answers)
    made = await remember(short_tenant)
    resumed = await begun(short_tenant, position=answers[-1].position)
    assert (await read(resumed)).change.entity_id == made[0]
    call.cancel()
    resumed.cancel()


async def test_a_stream_lasts_until_its_caller_s_deadline(short_tenant: Tenant) -> None:
    call: Any = short_tenant.history.StreamChanges(pb.StreamChangesRequest(), timeout=1.0)

    with pytest.raises(aio.AioRpcError) as caught:
        await drained(call)

    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


@pytest.mark.essential
async def test_a_revoked_key_ends_its_streams(short_tenant: Tenant, short_cluster: Cluster) -> None:
    key = await short_tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="short"))
    call = await begun(short_cluster.with_key(key.secret))
    await short_tenant.auth.RevokeApiKey(auth_pb2.RevokeApiKeyRequest(api_key_id=key.api_key.api_key_id))

    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await asyncio.wait_for(drained(call), 60)


async def test_a_tenant_that_is_deleted_ends_its_streams(short_tenant: Tenant, short_cluster: Cluster) -> None:
    call = await begun(short_tenant)
    request = tenancy_pb2.DeleteTenantRequest(tenant_id=str(short_tenant.tenant_id))
    await short_cluster.operator.tenancy.DeleteTenant(request)

    with pytest.raises(aio.AioRpcError) as caught:
        await asyncio.wait_for(drained(call), 60)

    assert caught.value.code() in {grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNAUTHENTICATED}


async def test_a_tenant_has_a_number_of_streams_and_others_have_theirs(
    short_tenant: Tenant, short_cluster: Cluster
) -> None:
    calls = [await begun(short_tenant) for _ in range(MAX_PER_TENANT)]

    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_STREAMS"):
        await read(watch(short_tenant))
    (await begun(await short_cluster.new_tenant())).cancel()

    calls.pop().cancel()
    async with asyncio.timeout(SECONDS):
        while (call := await begun_or_refused(short_tenant)) is None:
            pass
    for each in (*calls, call):
        each.cancel()


async def begun_or_refused(tenant: Tenant) -> Any:
    try:
        return await begun(tenant)
    except aio.AioRpcError:
        return None


async def test_a_cancelled_stream_ends_in_the_service_as_well(short_tenant: Tenant, short_cluster: Cluster) -> None:
    calls = [await begun(short_tenant), await begun(short_tenant)]
    at_work = await in_flight(short_cluster)
    assert at_work >= len(calls)

    for call in calls:
        call.cancel()

    # The port of the voice assistants watches its own tenant, and may begin with that meanwhile.
    async with asyncio.timeout(SECONDS):
        while await in_flight(short_cluster) > at_work - len(calls) + 1:
            pass


async def happen(cluster: Cluster, tenant: Tenant, count: int, heard_by: Any) -> list[str]:
    """Let so many large things happen in a tenant, some at a time: the next ones once a listener has heard of these."""
    received: list[str] = []
    connection = await asyncpg.connect(cluster.postgres.url(user="postgres", database="skein"))
    for start in range(0, count, MAX_UNREAD_CHANGES // 2):
        await connection.execute(
            """
            INSERT INTO memory.changes
                (tenant_id, change_id, event_type, entity_type, entity_id, summary, principal, create_time)
            SELECT $1, uuidv7(), 'memory_created', 'memory', 'e' || n, repeat('x', 8000), 'test', now()
            FROM generate_series($2::int, $3) AS n
            """,
            tenant.tenant_id,
            start,
            start + MAX_UNREAD_CHANGES // 2 - 1,
        )
        received += await entities(heard_by, MAX_UNREAD_CHANGES // 2)
    await connection.close()
    return received


async def test_a_subscriber_that_does_not_read_is_disconnected_and_resumes(
    short_tenant: Tenant, short_cluster: Cluster
) -> None:
    slow, quick = await begun(short_tenant), await begun(short_tenant)
    made = await happen(short_cluster, short_tenant, MANY, heard_by=quick)
    assert made == [f"e{number}" for number in range(MANY)]

    seen: list[str] = []
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "STREAM_TOO_SLOW") as caught:
        await entities(slow, len(made) + 1, seen)

    assert 0 < len(seen) < len(made)
    resumed = watch(short_tenant, position=_fact(caught.value, "position"))
    assert seen + await entities(resumed, len(made) - len(seen)) == made
    quick.cancel()
    resumed.cancel()


async def entities(call: Any, count: int, seen_ids: list[str] | None = None) -> list[str]:
    """Return what the next changes are about, passing over heartbeats."""
    seen_ids = [] if seen_ids is None else seen_ids
    while len(seen_ids) < count:
        answer = await read(call)
        seen_ids += [answer.change.entity_id] if answer.HasField("change") else []
    return seen_ids


def _fact(error: aio.AioRpcError, name: str) -> str:
    status = rpc_status.from_call(error)  # type: ignore[arg-type]  # It reads three methods that both have.
    info = error_details_pb2.ErrorInfo()
    assert status is not None
    assert any(detail.Unpack(info) for detail in status.details)
    return str(info.metadata[name])


async def test_a_service_s_own_port_carries_streams_too(short_tenant: Tenant, short_cluster: Cluster) -> None:
    token = await identity(short_cluster, short_tenant.api_key)
    async with short_cluster.direct("memory") as channel:
        stub = history_pb2_grpc.HistoryServiceStub(channel)
        call: Any = stub.StreamChanges(pb.StreamChangesRequest(), metadata=(("authorization", f"Bearer {token}"),))
        await read(call)
        made = await remember(short_tenant)

        answers = [await read(call)]
        while not answers[-1].HasField("change"):
            answers.append(await read(call))

        assert answers[-1].change.entity_id == made[0]
        call.cancel()


async def test_the_http_api_says_that_it_carries_no_streams(short_tenant: Tenant, short_cluster: Cluster) -> None:
    request = urllib.request.Request(
        f"http://{short_cluster.addresses['http']}{PATH}",
        data=b"{}",
        headers={"content-type": "application/json", "authorization": f"Bearer {short_tenant.api_key}"},
    )

    with pytest.raises(urllib.error.HTTPError) as caught:
        await asyncio.to_thread(urllib.request.urlopen, request)

    assert caught.value.code == 501
    assert b"STREAM_NOT_SUPPORTED" in caught.value.read()


async def test_a_service_that_leaves_off_ends_its_streams_which_go_on_when_it_is_back(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("restarted")
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(running_cluster(folder, test_environment()))
        tenant = await first.new_tenant()
        channel = aio.insecure_channel(first.endpoint)
        call = await begun(Stubs.of(channel, tenant.api_key))
        one = await remember(tenant)
        position = (await read(call)).position
        two = await remember(tenant)

        async def end() -> None:
            with refused(grpc.StatusCode.UNAVAILABLE, "STREAM_ENDED"):
                await drained(call)

        ended = asyncio.create_task(end())
    await ended
    await channel.close()

    async with running_cluster(folder, {**test_environment(), "SKEIN_ADVANCED_MAX_STREAM_SECONDS": "1"}) as second:
        answers: list[pb.StreamChangesResponse] = []
        async with asyncio.timeout(SECONDS):
            # A stream that grows old while the machine stands still may end before it says anything.
            while not any(answer.HasField("change") for answer in answers):
                resumed = watch(second.with_key(tenant.api_key), position=position)
                answers = await drained(resumed)

        assert one != two
        assert [answer.change.entity_id for answer in answers if answer.HasField("change")] == two
        assert await resumed.code() is grpc.StatusCode.OK
