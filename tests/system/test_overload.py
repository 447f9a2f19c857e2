"""A gateway that is asked for more than it can do: what it refuses, what it goes on with, and what its callers do."""

from __future__ import annotations

import asyncio
import http.client
import json
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Stubs, Tenant, fault_of, refused
from fix_gateway import Gateway, gateway_before
from fix_metrics import sample
from google.rpc import error_details_pb2
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_client.client import Client
from skein_kit.calls.call import Call

SECONDS = 60.0
# Calls at once, of which one tenant has three quarters, and calls that wait.
ROOM, SHARE, WAITING = 4, 3, 2
TIGHT: dict[str, Any] = {
    "SKEIN_ADVANCED_ADMISSION_CALLS": str(ROOM),
    "SKEIN_ADVANCED_ADMISSION_QUEUE": str(WAITING),
    # A slow test does not make calls give up.
    "SKEIN_ADVANCED_ADMISSION_WAIT_SECONDS": "60",
}
HASTY: dict[str, Any] = {**TIGHT, "SKEIN_ADVANCED_ADMISSION_WAIT_SECONDS": "0.02"}
APPEND = "/skein.session.v1.SessionService/AppendMessages"


@dataclass
class BlockedHandler:
    """AppendMessages, which answers when it is let go."""

    released: asyncio.Event = field(default_factory=asyncio.Event)
    begun: int = 0
    hops: list[int] = field(default_factory=list)

    async def answer(self, _request: Any, call: Call) -> session_pb2.AppendMessagesResponse:
        self.begun += 1
        self.hops.append(call.hops)
        await self.released.wait()
        return session_pb2.AppendMessagesResponse()


@asynccontextmanager
async def holding(
    cluster: Cluster, tenant: Tenant, settings: dict[str, Any]
) -> AsyncIterator[tuple[Gateway, BlockedHandler]]:
    handler = BlockedHandler()
    async with gateway_before(cluster, tenant, {"AppendMessages": handler.answer}, **settings) as gateway:
        try:
            yield gateway, handler
        finally:
            handler.released.set()


def _turn_of_a_conversation() -> session_pb2.AppendMessagesRequest:
    message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="tea")
    return session_pb2.AppendMessagesRequest(session_id="s", messages=[message])


def append(stubs: Any, *, timeout: float | None = None) -> asyncio.Task[Any]:
    return asyncio.ensure_future(stubs.sessions.AppendMessages(_turn_of_a_conversation(), timeout=timeout))


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not holds():
            await asyncio.sleep(0.01)


def waiting() -> float:
    return sample("skein_admission_queue_calls", service="gateway") or 0.0


def shed(reason: str) -> float:
    result = sample("skein_admission_shed_calls_total", service="gateway", reason=reason)
    return result or 0.0


async def filled(gateway: Any, handler: BlockedHandler, *, also_waiting: bool = True) -> list[asyncio.Task[Any]]:
    """Make as many calls as one tenant may have at once, and as many as may wait."""
    calls = [append(gateway) for _ in range(SHARE)]
    await until(lambda: handler.begun == SHARE)
    if also_waiting:
        calls += [append(gateway) for _ in range(WAITING)]
        await until(lambda: waiting() == WAITING)
    return calls


def retry_seconds(error: aio.AioRpcError) -> float:
    status = rpc_status.from_call(error)  # type: ignore[arg-type]  # It reads three methods that both have.
    assert status is not None
    retry = error_details_pb2.RetryInfo()
    assert any(detail.Unpack(retry) for detail in status.details)
    return float(retry.retry_delay.ToTimedelta().total_seconds())


async def test_a_call_for_which_there_is_no_room_is_refused_with_a_reason_and_a_time(
    cluster: Cluster, tenant: Tenant
) -> None:
    async with holding(cluster, tenant, TIGHT) as (gateway, handler):
        before = shed("queue_full")
        calls = await filled(gateway, handler)

        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED") as caught:
            await append(gateway)

        assert 0 < retry_seconds(caught.value) <= 2
        assert shed("queue_full") == before + 1
        assert handler.begun == SHARE
        handler.released.set()
        await asyncio.gather(*calls)
        await append(gateway)
        assert handler.begun == SHARE + WAITING + 1


async def test_a_call_that_waited_long_enough_is_refused_and_never_begun(cluster: Cluster, tenant: Tenant) -> None:
    async with holding(cluster, tenant, HASTY) as (gateway, handler):
        before = shed("queue_timeout")
        calls = await filled(gateway, handler, also_waiting=False)

        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED"):
            await append(gateway)

        handler.released.set()
        await asyncio.gather(*calls)
        assert shed("queue_timeout") == before + 1
        assert handler.begun == SHARE


async def test_a_call_whose_caller_does_not_wait_that_long_is_refused_before_its_deadline(
    cluster: Cluster, tenant: Tenant
) -> None:
    async with holding(cluster, tenant, TIGHT) as (gateway, handler):
        calls = await filled(gateway, handler, also_waiting=False)

        # While a machine stands still for a moment, the deadline comes first: then it is asked again.
        async with asyncio.timeout(60):
            while (fault := await fault_of(append(gateway, timeout=2.0))).code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                pass
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED"):
            raise fault

        handler.released.set()
        await asyncio.gather(*calls)
        assert handler.begun == SHARE


async def test_a_caller_that_hangs_up_while_it_waits_leaves_its_place_to_others(
    cluster: Cluster, tenant: Tenant
) -> None:
    async with holding(cluster, tenant, TIGHT) as (gateway, handler):
        calls = await filled(gateway, handler)

        for gone in calls[SHARE:]:
            gone.cancel()
        await until(lambda: waiting() == 0)
        again = [append(gateway) for _ in range(WAITING)]
        await until(lambda: waiting() == WAITING)

        handler.released.set()
        await asyncio.gather(*calls[:SHARE], *again)
        assert handler.begun == SHARE + WAITING


async def test_another_tenant_finds_room_while_the_calls_of_one_hang(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant
) -> None:
    async with holding(cluster, tenant, TIGHT) as (gateway, handler):
        calls = await filled(gateway, handler)
        async with aio.insecure_channel(gateway.host.addresses["gateway"]) as channel:
            other = Stubs.of(channel, other_tenant.api_key)

            await other.tenancy.ListAgents(tenancy_pb2.ListAgentsRequest())
            theirs = append(other)
            await until(lambda: handler.begun == SHARE + 1)

            handler.released.set()
            await asyncio.gather(*calls, theirs)


async def test_costly_calls_of_one_tenant_run_one_by_one_and_hold_up_no_other_call(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant
) -> None:
    settings = {**TIGHT, "SKEIN_ADVANCED_ADMISSION_CALLS": "32"}
    settings["SKEIN_ADVANCED_ADMISSION_QUEUE"] = "1000"
    request = _turn_of_a_conversation()
    request.messages[0].content = "tea " * 250_000
    async with holding(cluster, tenant, settings) as (gateway, handler):
        large = [asyncio.ensure_future(gateway.sessions.AppendMessages(request)) for _ in range(4)]
        await until(lambda: handler.begun == 1 and waiting() == 3)
        async with aio.insecure_channel(gateway.host.addresses["gateway"]) as channel:
            other = Stubs.of(channel, other_tenant.api_key)

            small = [append(gateway), append(other)]
            await until(lambda: handler.begun == 3)
            also_large = asyncio.ensure_future(other.sessions.AppendMessages(request))
            await until(lambda: waiting() == 4)

            handler.released.set()
            await asyncio.gather(*large, *small, also_large)
    assert handler.begun == 7


async def test_health_is_answered_and_the_operator_is_served_while_tenants_are_refused(
    cluster: Cluster, tenant: Tenant
) -> None:
    async with holding(cluster, tenant, TIGHT) as (gateway, handler):
        calls = await filled(gateway, handler)
        async with aio.insecure_channel(gateway.host.addresses["gateway"]) as channel:
            operator = Stubs.of(channel, cluster.operator_key)
            checks: Any = health_pb2_grpc.HealthStub(channel)
            health = await checks.Check(health_pb2.HealthCheckRequest())
            listed = await operator.tenancy.ListTenants(tenancy_pb2.ListTenantsRequest(page_size=1))

        assert health.status == health_pb2.HealthCheckResponse.SERVING
        assert listed.tenants
        handler.released.set()
        await asyncio.gather(*calls)


async def test_over_http_it_is_429_with_the_time_to_come_back(cluster: Cluster, tenant: Tenant) -> None:
    async with holding(cluster, tenant, TIGHT) as (gateway, handler):
        calls = await filled(gateway, handler)

        status, retry_after, body = await asyncio.to_thread(_posted, gateway.host.addresses["http"], tenant.api_key)

        assert (status, body["code"]) == (429, "resource_exhausted")
        assert int(retry_after) >= 1
        assert "OVERLOADED" in json.dumps(body)
        handler.released.set()
        await asyncio.gather(*calls)


def _posted(address: str, key: str) -> tuple[int, str, Any]:
    connection = http.client.HTTPConnection(address, timeout=SECONDS)
    try:
        headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
        # Refused before it is looked at.
        connection.request("POST", APPEND, b"this is no JSON", headers)
        answer = connection.getresponse()
        return answer.status, answer.headers.get("retry-after", ""), json.loads(answer.read())
    finally:
        connection.close()


async def test_the_client_retries_at_the_given_time_and_is_served(cluster: Cluster, tenant: Tenant) -> None:
    async with holding(cluster, tenant, TIGHT) as (gateway, handler):
        before = shed("queue_full")
        calls = await filled(gateway, handler)
        async with Client(endpoint=gateway.host.addresses["gateway"], api_key=tenant.api_key, timeout=SECONDS) as skein:
            call = asyncio.ensure_future(skein.sessions.AppendMessages(_turn_of_a_conversation()))
            await until(lambda: shed("queue_full") > before)
            handler.released.set()
            await call

        await asyncio.gather(*calls)


@pytest.mark.parametrize("in_process", [True, False], ids=["one process", "sockets"])
async def test_calls_that_services_make_for_a_call_never_wait_for_each_other(
    cluster: Cluster, tenant: Tenant, *, in_process: bool
) -> None:
    one = {**TIGHT, "SKEIN_ADVANCED_ADMISSION_CALLS": "1"}
    hops: list[int] = []

    async def create(_request: Any, call: Call) -> memory_pb2.BatchCreateMemoriesResponse:
        hops.append(call.hops)
        return memory_pb2.BatchCreateMemoriesResponse(memories=[memory_pb2.Memory(memory_id="m")])

    async with gateway_before(
        cluster, tenant, {"BatchCreateMemories": create}, in_process=in_process, **one
    ) as gateway:
        for _ in range(3):
            await gateway.gateway.Remember(
                gateway_pb2.RememberRequest(memories=[memory_pb2.Memory(content="likes tea")])
            )

    assert hops == [1, 1, 1]


async def test_a_caller_cannot_claim_to_have_had_its_turn(cluster: Cluster, tenant: Tenant) -> None:
    async with holding(cluster, tenant, TIGHT) as (gateway, handler):
        calls = await filled(gateway, handler)
        request = session_pb2.AppendMessagesRequest(session_id="s")

        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED"):
            await gateway.sessions.AppendMessages(request, metadata=(("skein-hops", "7"),))

        handler.released.set()
        await asyncio.gather(*calls)
        assert set(handler.hops) == {1}


async def test_hundreds_of_calls_at_once_are_taken_in_and_answered(cluster: Cluster, tenant: Tenant) -> None:
    async with aio.insecure_channel(cluster.endpoint) as channel:
        stubs = Stubs.of(channel, tenant.api_key)
        request = tenancy_pb2.ListAgentsRequest()

        answers = await asyncio.gather(*(stubs.tenancy.ListAgents(request, timeout=SECONDS) for _ in range(400)))

    assert len(answers) == 400


async def test_waiting_and_refused_calls_are_on_the_metrics_page(cluster: Cluster, tenant: Tenant) -> None:
    await tenant.tenancy.ListAgents(tenancy_pb2.ListAgentsRequest())

    def read() -> str:
        with urllib.request.urlopen(f"http://{cluster.admin}/metrics", timeout=SECONDS) as answer:
            text: str = answer.read().decode()
        return text

    text = await asyncio.to_thread(read)

    for name in ("limit", "queue_calls", "shed_calls_total", "wait_seconds_count"):
        assert f"skein_admission_{name}{{" in text
    assert str(tenant.tenant_id) not in text
