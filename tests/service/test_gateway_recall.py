"""The gateway's fan-out over arms that a test plays: faults, time limits, cancelling."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused
from fix_gateway import gateway_before, hit

from skein.gateway.v1 import gateway_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein_kit import errors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from skein_kit.call import Call

MEMORIES = recall_pb2.ITEM_KIND_MEMORY
MESSAGES = recall_pb2.ITEM_KIND_MESSAGE
Script = dict[str, "Callable[[Any, Call], Awaitable[Any]]"]


class QueryEmpty(errors.InvalidArgument):
    """Recall needs a text or a vector."""

    reason = "QUERY_EMPTY"


async def never(_request: recall_pb2.RecallRequest, _call: Call) -> recall_pb2.RecallResponse:
    await asyncio.Event().wait()
    raise AssertionError


def by_arm(**arms: Callable[[Any, Call], Awaitable[Any]]) -> Script:
    """Play the recall service, differently for each kind."""

    async def recall(request: recall_pb2.RecallRequest, call: Call) -> Any:
        (kind,) = request.kinds
        return await arms["memories" if kind == MEMORIES else "messages"](request, call)

    return {"Recall": recall}


def finding(*hits: recall_pb2.Hit, **fields: Any) -> Callable[[Any, Call], Awaitable[Any]]:
    async def recall(_request: recall_pb2.RecallRequest, _call: Call) -> recall_pb2.RecallResponse:
        return recall_pb2.RecallResponse(hits=hits, model="m", **fields)

    return recall


def refusing(refusal: errors.Refusal) -> Callable[[Any, Call], Awaitable[Any]]:
    async def recall(_request: recall_pb2.RecallRequest, _call: Call) -> recall_pb2.RecallResponse:
        raise refusal

    return recall


@pytest.mark.parametrize("in_process", [True, False], ids=["in process", "over sockets"])
async def test_both_arms_are_asked_and_merged(cluster: Cluster, tenant: Tenant, in_process: bool) -> None:  # noqa: FBT001 - a parameter.
    script = by_arm(
        memories=finding(hit("b", 0.5), hit("d", 0.4)),
        messages=finding(hit("c", 0.9, MESSAGES), hit("a", 0.5, MESSAGES)),
    )
    request = pb.RecallRequest(query="tea", limit=3, min_similarity=0.2, filter={"session_id": "s"})

    async with gateway_before(cluster, tenant, script, in_process=in_process) as gateway:
        response = await gateway.gateway.Recall(request)
        asked = gateway.played.requests["Recall"]

    assert [found.item_id for found in response.hits] == ["c", "a", "b"]
    assert response.model == "m"
    assert {tuple(part.kinds) for part in asked} == {(MEMORIES,), (MESSAGES,)}
    assert {(part.query, part.limit, part.min_similarity, part.filter.session_id) for part in asked} == {
        ("tea", 3, 0.2, "s")
    }
    assert [(arm.arm, arm.state, arm.hit_count) for arm in response.arms] == [
        (pb.ARM_MEMORIES, pb.ARM_STATE_OK, 2),
        (pb.ARM_MESSAGES, pb.ARM_STATE_OK, 2),
    ]
    assert all(arm.elapsed.ToMicroseconds() > 0 for arm in response.arms)


async def test_only_the_arms_wanted_are_asked(cluster: Cluster, tenant: Tenant) -> None:
    async with gateway_before(cluster, tenant, by_arm(messages=finding())) as gateway:
        response = await gateway.gateway.Recall(pb.RecallRequest(query="tea", arms=[pb.ARM_MESSAGES]))

    assert [arm.arm for arm in response.arms] == [pb.ARM_MESSAGES]


async def test_a_late_arm_is_named_and_the_rest_is_returned(cluster: Cluster, tenant: Tenant) -> None:
    script = by_arm(memories=finding(hit("a", 0.5)), messages=never)

    async with gateway_before(cluster, tenant, script, SKEIN_GATEWAY_RECALL_ARM_SECONDS="0.1") as gateway:
        response = await gateway.gateway.Recall(pb.RecallRequest(query="tea"))

    assert [found.item_id for found in response.hits] == ["a"]
    assert response.incomplete == [pb.ARM_MESSAGES]
    assert response.arms[1].state == pb.ARM_STATE_TIMED_OUT


@pytest.mark.parametrize("in_process", [True, False], ids=["in process", "over sockets"])
async def test_a_late_arm_leaves_time_to_answer(cluster: Cluster, tenant: Tenant, in_process: bool) -> None:  # noqa: FBT001 - a parameter.
    script = by_arm(memories=finding(hit("a", 0.5)), messages=never)

    async with gateway_before(cluster, tenant, script, in_process=in_process) as gateway:
        await gateway.auth.GetMe({})  # type: ignore[arg-type]  # The identity is known before the short call.
        response = await gateway.gateway.Recall(pb.RecallRequest(query="tea"), timeout=1.0)

    assert response.incomplete == [pb.ARM_MESSAGES]


async def test_a_failing_arm_is_named_and_the_rest_is_returned(cluster: Cluster, tenant: Tenant) -> None:
    script = by_arm(memories=refusing(errors.DatabaseBusy()), messages=finding(hit("a", 0.5, MESSAGES)))

    async with gateway_before(cluster, tenant, script) as gateway:
        response = await gateway.gateway.Recall(pb.RecallRequest(query="tea"))

    assert [found.item_id for found in response.hits] == ["a"]
    assert response.incomplete == [pb.ARM_MEMORIES]
    assert response.arms[0].state == pb.ARM_STATE_UNAVAILABLE


async def test_an_arm_without_vectors_says_so(cluster: Cluster, tenant: Tenant) -> None:
    script = by_arm(memories=finding(hit("a", 0.5), dense_unavailable=True))

    async with gateway_before(cluster, tenant, script) as gateway:
        response = await gateway.gateway.Recall(pb.RecallRequest(query="tea", arms=[pb.ARM_MEMORIES]))

    assert response.arms[0].state == pb.ARM_STATE_LEXICAL_ONLY
    assert not response.incomplete


async def test_the_callers_own_mistake_fails_the_call_and_ends_the_other_arm(cluster: Cluster, tenant: Tenant) -> None:
    ended = asyncio.Event()

    async def endless(_request: recall_pb2.RecallRequest, _call: Call) -> recall_pb2.RecallResponse:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    script = by_arm(memories=endless, messages=refusing(QueryEmpty()))

    async with gateway_before(cluster, tenant, script) as gateway:
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "QUERY_EMPTY"):
            await gateway.gateway.Recall(pb.RecallRequest())
        await asyncio.wait_for(ended.wait(), 5)


async def test_when_every_arm_fails_the_call_fails_with_the_first_ones_fault(cluster: Cluster, tenant: Tenant) -> None:
    script = by_arm(memories=refusing(errors.DatabaseUnavailable()), messages=never)

    async with gateway_before(cluster, tenant, script, SKEIN_GATEWAY_RECALL_ARM_SECONDS="0.1") as gateway:
        with refused(grpc.StatusCode.UNAVAILABLE, "DATABASE_UNAVAILABLE"):
            await gateway.gateway.Recall(pb.RecallRequest(query="tea"))


async def test_when_every_arm_is_late_the_call_is_late(cluster: Cluster, tenant: Tenant) -> None:
    script = by_arm(memories=never, messages=never)

    async with gateway_before(cluster, tenant, script, SKEIN_GATEWAY_RECALL_ARM_SECONDS="0.1") as gateway:
        with refused(grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED"):
            await gateway.gateway.Recall(pb.RecallRequest(query="tea"))


async def test_a_recall_service_that_is_gone_makes_the_call_unavailable(cluster: Cluster, tenant: Tenant) -> None:
    async with gateway_before(cluster, tenant, {}) as gateway:
        # Port 9 answers nobody.
        gateway.host.addresses["recall"] = "127.0.0.1:9"
        with refused(grpc.StatusCode.UNAVAILABLE, "SERVICE_UNAVAILABLE"):
            await gateway.gateway.Recall(pb.RecallRequest(query="tea"))
        with refused(grpc.StatusCode.UNAVAILABLE, "SERVICE_UNAVAILABLE"):
            await gateway.recall.Recall(recall_pb2.RecallRequest(query="tea"))


@pytest.mark.parametrize("in_process", [True, False], ids=["in process", "over sockets"])
async def test_cancelling_the_call_cancels_the_arms(cluster: Cluster, tenant: Tenant, in_process: bool) -> None:  # noqa: FBT001 - a parameter.
    begun, ended = asyncio.Semaphore(0), asyncio.Semaphore(0)

    async def endless(_request: recall_pb2.RecallRequest, _call: Call) -> recall_pb2.RecallResponse:
        begun.release()
        try:
            await asyncio.Event().wait()
        finally:
            ended.release()
        raise AssertionError

    script = by_arm(memories=endless, messages=endless)
    async with gateway_before(cluster, tenant, script, in_process=in_process) as gateway:
        call = gateway.gateway.Recall(pb.RecallRequest(query="tea"))
        task = asyncio.ensure_future(call)
        for _ in range(2):
            await asyncio.wait_for(begun.acquire(), 5)

        call.cancel()

        for _ in range(2):
            await asyncio.wait_for(ended.acquire(), 5)
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_request_that_breaks_a_rule_asks_no_arm(cluster: Cluster, tenant: Tenant) -> None:
    async with gateway_before(cluster, tenant, by_arm(memories=finding(), messages=finding())) as gateway:
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
            await gateway.gateway.Recall(pb.RecallRequest(query="tea", limit=101))

        assert gateway.played.requests["Recall"] == []
