"""Which tenants a round passes over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from grpc import aio

from skein.memory.v1 import memory_pb2
from skein_worker.rounds import tenant_rounds
from skein_worker.rounds.tenant_rounds import Round, Stage, TenantRounds
from skein_worker.rounds.tenant_visits import TenantVisitor

TENANTS = ("watched", "quiet", "failing")


class ScriptedCluster:
    """A cluster in which one tenant is watched, one is quiet and one fails, and the system that acts in it."""

    def __init__(self) -> None:
        self.tenant = ""
        self.fault = grpc.StatusCode.INTERNAL
        self.visited: list[str] = []

    @asynccontextmanager
    async def as_system(self, *, tenant_id: str = "", space_id: str = "", seconds: float) -> AsyncIterator[None]:
        assert not space_id
        self.tenant = tenant_id
        yield

    async def ListDueTenants(self, _request: Any) -> memory_pb2.ListDueTenantsResponse:
        return memory_pb2.ListDueTenantsResponse(tenant_ids=TENANTS)

    async def deliver(self) -> memory_pb2.DeliverWebhooksResponse:
        self.visited.append(self.tenant)
        if self.tenant == "failing":
            raise aio.AioRpcError(self.fault, aio.Metadata(), aio.Metadata())
        return memory_pb2.DeliverWebhooksResponse(active=self.tenant == "watched")

    async def rounds(
        self, count: int, *, max_backoff_seconds: float, stop: asyncio.Event | None = None, **round_values: Any
    ) -> list[str]:
        visitor = TenantVisitor(cast("Any", self), at_once=1)
        stage = Stage(list_due=self.ListDueTenants, request=memory_pb2.ListDueTenantsRequest, calls=[self.deliver])
        values = {"seconds": 5.0} | round_values
        webhooks = Round(name="webhooks", stages=[stage], max_backoff_seconds=max_backoff_seconds, **values)
        handler = TenantRounds(visitor, cast("Any", self), [webhooks]).handlers()["webhooks"]
        for _ in range(count):
            await handler(b"", stop or asyncio.Event())
        return self.visited


async def test_a_tenant_with_nothing_to_do_is_passed_over_and_watched_or_failing_ones_are_not() -> None:
    assert await ScriptedCluster().rounds(2, max_backoff_seconds=60.0) == [*TENANTS, "watched", "failing"]


async def test_a_round_without_rests_asks_every_tenant_every_time() -> None:
    assert await ScriptedCluster().rounds(2, max_backoff_seconds=0.0) == [*TENANTS, *TENANTS]


async def test_one_job_does_rounds_until_its_turn_is_over() -> None:
    rounds = await ScriptedCluster().rounds(
        1, max_backoff_seconds=0.0, seconds=0.01, pause_factor=0.0, turn_seconds=0.2
    )

    assert len(rounds) > 2 * len(TENANTS)


async def test_a_job_whose_pause_is_longer_than_its_turn_does_one_round() -> None:
    rounds = await ScriptedCluster().rounds(1, max_backoff_seconds=0.0, seconds=60.0, turn_seconds=30.0)

    assert rounds == [*TENANTS]


async def test_a_job_that_is_to_leave_off_leaves_its_pause() -> None:
    cluster, stop = ScriptedCluster(), asyncio.Event()

    rounds = await cluster.rounds(
        1,
        max_backoff_seconds=0.0,
        seconds=600.0,
        turn_seconds=6000.0,
        stop=stop,
        on_end=lambda *_: asyncio.get_running_loop().call_soon(stop.set),
    )

    assert rounds == [*TENANTS]


async def test_results_of_tenants_are_collected_and_reported_at_the_end_of_a_round() -> None:
    noted: list[str] = []
    ended: list[set[str]] = []

    await ScriptedCluster().rounds(
        1,
        max_backoff_seconds=60.0,
        on_response=lambda tenant_id, _response: noted.append(tenant_id),
        on_end=lambda tenant_ids, _pause: ended.append(set(tenant_ids)),
    )

    assert noted == ["watched", "quiet"]
    assert ended == [set(TENANTS)]


async def test_an_aborted_round_reports_nothing() -> None:
    ended: list[Any] = []
    cluster = ScriptedCluster()
    cluster.fault = grpc.StatusCode.UNAVAILABLE

    await cluster.rounds(1, max_backoff_seconds=60.0, on_end=lambda *arguments: ended.append(arguments))

    assert ended == []


async def test_only_a_tenant_whose_job_is_limited_is_visited_again_before_the_next_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tenant_rounds, "_MIN_LIMITED_SECONDS", 0.0)
    cluster = ScriptedCluster()

    async def decay() -> memory_pb2.DecayMemoriesResponse:
        cluster.visited.append(cluster.tenant)
        if cluster.tenant == "quiet" and cluster.visited.count("quiet") < 3:
            return memory_pb2.DecayMemoriesResponse(retry_delay=Duration())
        return memory_pb2.DecayMemoriesResponse()

    stage = Stage(list_due=cluster.ListDueTenants, request=memory_pb2.ListDueTenantsRequest, calls=[decay])
    rounds = TenantRounds(
        TenantVisitor(cast("Any", cluster), at_once=1),
        cast("Any", cluster),
        [Round(name="decay", seconds=3600.0, stages=[stage], pause_factor=0.0)],
    )
    pauses = [await rounds.handlers()["decay"](b"", asyncio.Event()) for _ in range(3)]

    assert cluster.visited == [*TENANTS, "quiet", "quiet"]
    assert pauses[:2] == [0.0, 0.0]
    assert pauses[2] is not None
    assert pauses[2] > 3000


async def test_only_the_limited_call_of_a_tenant_is_repeated_before_the_next_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tenant_rounds, "_MIN_LIMITED_SECONDS", 0.0)
    cluster, calls = ScriptedCluster(), list[tuple[str, str]]()

    async def archive() -> memory_pb2.ArchiveIdleMemoriesResponse:
        calls.append((cluster.tenant, "archive"))
        return memory_pb2.ArchiveIdleMemoriesResponse(retry_delay=Duration() if cluster.tenant == "quiet" else None)

    async def reindex() -> memory_pb2.ReindexMemoriesResponse:
        calls.append((cluster.tenant, "reindex"))
        return memory_pb2.ReindexMemoriesResponse()

    stages = [
        Stage(list_due=cluster.ListDueTenants, request=memory_pb2.ListDueTenantsRequest, calls=each)
        for each in ([reindex, archive], [reindex])
    ]
    rounds = TenantRounds(
        TenantVisitor(cast("Any", cluster), at_once=1),
        cast("Any", cluster),
        [Round(name="lifecycle", seconds=3600.0, stages=stages, pause_factor=0.0)],
    )
    await rounds.handlers()["lifecycle"](b"", asyncio.Event())
    complete_round = list(calls)
    await rounds.handlers()["lifecycle"](b"", asyncio.Event())

    assert len(complete_round) == 3 * len(TENANTS)
    assert calls[len(complete_round) :] == [("quiet", "archive")]
