"""What every RPC of every service has in common, seen on one of them."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from fix_catalogue import over
from fix_cluster import Cluster, Tenant, refused
from fix_http import get
from google.rpc import error_details_pb2
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status

from skein.memory.v1 import memory_pb2 as pb

CREATE = "/skein.memory.v1.MemoryService/CreateMemory"
SERVICES = ["auth", "tenancy", "session", "memory", "recall", "gateway", "worker", "pc2"]


async def send(channel: aio.Channel, path: str, request: bytes, tenant: Tenant) -> bytes:
    call: Any = channel.unary_unary(path)
    answer: bytes = await call(request, metadata=authorized(tenant), timeout=30)
    return answer


def authorized(tenant: Tenant) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {tenant.api_key}"),)


async def test_bytes_that_are_no_message_are_refused(cluster: Cluster, tenant: Tenant) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await send(cluster.channel, CREATE, b"\xff\xff\xff", tenant)


async def test_a_message_beyond_4_mib_is_refused_with_a_reason(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "MESSAGE_TOO_LARGE"):
        await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=pb.Memory(content="x" * 5_000_000)))


async def test_a_method_that_does_not_exist_is_refused_with_a_reason(cluster: Cluster, tenant: Tenant) -> None:
    with refused(grpc.StatusCode.UNIMPLEMENTED, "METHOD_NOT_FOUND"):
        await send(cluster.channel, "/skein.memory.v1.MemoryService/Invent", b"", tenant)


async def test_internal_services_do_not_exist_at_the_gateway(cluster: Cluster, tenant: Tenant) -> None:
    for path in ("/skein.auth.v1.AuthInternalService/Exchange", "/skein.recall.v1.RecallInternalService/IndexBacklog"):
        with refused(grpc.StatusCode.UNIMPLEMENTED, "METHOD_NOT_FOUND"):
            await send(cluster.channel, path, b"", tenant)


async def test_every_broken_rule_is_named_with_its_field(tenant: Tenant) -> None:
    memory = pb.Memory(content="x", title="t" * 2000, tags=["ok", ""])

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD") as caught:
        await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=memory))

    status = rpc_status.from_call(caught.value)  # type: ignore[arg-type]  # Reads three methods that both have.
    assert status is not None
    bad = error_details_pb2.BadRequest()
    assert any(detail.Unpack(bad) for detail in status.details)
    assert {violation.field for violation in bad.field_violations} == {"memory.title", "memory.tags[1]"}


@over("credential", ["nonsense", "skein_", "eyJhbGciOiJub25lIn0.e30."])
async def test_a_wrong_credential_is_refused(cluster: Cluster, credential: str) -> None:
    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await cluster.with_key(credential).memory.ListMemories(pb.ListMemoriesRequest())


async def test_a_service_s_own_port_takes_no_api_key(cluster: Cluster, tenant: Tenant) -> None:
    async with cluster.direct("memory") as channel:
        with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
            await send(channel, CREATE, b"", tenant)


async def test_a_request_id_of_the_caller_comes_back_with_nothing_else_of_a_fault(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND") as caught:
        await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id="no-such"), metadata=(("skein-request-id", "r-1"),))

    assert "Traceback" not in str(caught.value.details())


async def test_a_deadline_that_has_passed_ends_the_call(tenant: Tenant) -> None:
    with pytest.raises(aio.AioRpcError) as caught:
        await tenant.memory.ListMemories(pb.ListMemoriesRequest(), timeout=0.000001)

    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


@over("service", SERVICES)
async def test_every_service_answers_health_on_its_own_port(cluster: Cluster, service: str) -> None:
    async with cluster.direct(service) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        async with asyncio.timeout(30):
            # On a machine that stands still for a moment, one is late to say so.
            while (await stub.Check(health_pb2.HealthCheckRequest())).status != health_pb2.HealthCheckResponse.SERVING:
                await asyncio.sleep(0.05)


@pytest.mark.system
async def test_the_admin_port_says_alive_ready_and_how_much(cluster: Cluster, tenant: Tenant) -> None:
    await tenant.memory.ListMemories(pb.ListMemoriesRequest())

    async with asyncio.timeout(30):
        # On a machine that stands still for a moment, one service is late to say so.
        while (ready := await get(cluster.admin, "/readyz"))[0] != 200:
            await asyncio.sleep(0.05)
    (_, live), (_, metrics) = [await get(cluster.admin, path) for path in ("/livez", "/metrics")]

    assert live == "ok\n"
    assert "false" not in ready[1]
    assert (
        'skein_rpc_requests_total{code="OK",method="ListMemories",service="skein.memory.v1.MemoryService"}' in metrics
    )
