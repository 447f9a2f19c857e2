"""Which tenants a round passes over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import grpc
from grpc import aio

from skein.memory.v1 import memory_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_worker.jobs import Clients, Jobs
from skein_worker.rounds import Rounds, Task
from skein_worker.settings import WorkerSettings

TENANTS = ("watched", "quiet", "failing")


class Played:
    """A cluster in which one tenant is watched, one is quiet and one fails, and the system that acts in it."""

    def __init__(self) -> None:
        self.tenant = ""
        self.asked: list[str] = []

    @asynccontextmanager
    async def acting(self, *, tenant_id: str = "", seconds: float) -> AsyncIterator[None]:
        self.tenant = tenant_id
        yield

    async def ListTenants(self, _request: Any) -> tenancy_pb2.ListTenantsResponse:
        return tenancy_pb2.ListTenantsResponse(tenants=[tenancy_pb2.Tenant(tenant_id=name) for name in TENANTS])

    async def deliver(self) -> memory_pb2.DeliverWebhooksResponse:
        self.asked.append(self.tenant)
        if self.tenant == "failing":
            raise aio.AioRpcError(grpc.StatusCode.INTERNAL, aio.Metadata(), aio.Metadata())
        return memory_pb2.DeliverWebhooksResponse(active=self.tenant == "watched")

    async def rounds(self, count: int, *, rest_seconds: float) -> list[str]:
        nothing = cast("Any", None)
        clients = Clients(
            auth=nothing, tenancy=cast("Any", self), upkeep=nothing, index=nothing, memory=nothing, session=nothing
        )
        jobs = Jobs(clients, cast("Any", self), nothing, WorkerSettings(tenants_at_once=1), nothing)
        task = Task(name="webhooks", seconds=5.0, calls=[self.deliver], rest_seconds=rest_seconds)
        work = Rounds(jobs, cast("Any", self), [task]).works()["webhooks"]
        for _ in range(count):
            await work(b"", asyncio.Event())
        return self.asked


async def test_a_tenant_with_nothing_to_do_is_passed_over_and_watched_or_failing_ones_are_not() -> None:
    assert await Played().rounds(2, rest_seconds=60.0) == [*TENANTS, "watched", "failing"]


async def test_a_round_without_rests_asks_every_tenant_every_time() -> None:
    assert await Played().rounds(2, rest_seconds=0.0) == [*TENANTS, *TENANTS]
