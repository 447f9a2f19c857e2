"""What one tenant's failure keeps a reindex of the others from."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import grpc
from grpc import aio

from skein.recall.v1 import recall_pb2
from skein_worker.rounds.reindex import ReindexJob
from skein_worker.rounds.tenant_visits import TenantVisitor
from skein_worker.settings import WorkerSettings

TENANTS = ("a", "b", "c")


class FailingRecall:
    """A recall service that fails for one tenant, and the system that acts in it."""

    def __init__(self, failing: str, code: grpc.StatusCode) -> None:
        self.failing = failing
        self.code = code
        self.tenant = ""
        self.visited: list[str] = []

    @asynccontextmanager
    async def as_system(self, *, tenant_id: str = "", seconds: float) -> AsyncIterator[None]:
        self.tenant = tenant_id
        yield

    async def ListDueReindexes(self, _request: Any) -> recall_pb2.ListDueReindexesResponse:
        return recall_pb2.ListDueReindexesResponse(tenant_ids=TENANTS)

    async def ContinueReindex(self, _request: Any) -> recall_pb2.ContinueReindexResponse:
        self.visited.append(self.tenant)
        if self.tenant == self.failing:
            raise aio.AioRpcError(self.code, aio.Metadata(), aio.Metadata())
        return recall_pb2.ContinueReindexResponse()

    async def turn(self) -> float:
        visitor = TenantVisitor(cast("Any", self), at_once=1)
        job = ReindexJob(cast("Any", self), cast("Any", self), visitor, WorkerSettings())
        return await job.run(b"", asyncio.Event())


async def test_a_tenant_that_fails_keeps_no_other_waiting() -> None:
    recall = FailingRecall("a", grpc.StatusCode.INTERNAL)

    assert await recall.turn() == 5.0
    assert recall.visited == list(TENANTS)


async def test_a_recall_service_that_is_away_ends_the_round() -> None:
    recall = FailingRecall("b", grpc.StatusCode.UNAVAILABLE)

    await recall.turn()

    assert recall.visited == ["a", "b"]
