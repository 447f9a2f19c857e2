"""Reindexing: the vectors of a new model, tenant by tenant, while the old one is searched.

Recall remembers how far each tenant is, so a worker that dies takes nothing along: the next one goes on there.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grpc import aio
from prometheus_client import Counter

from skein.recall.v1 import recall_pb2
from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import without_tracing
from skein_worker.job_queue.job_queue import Job
from skein_worker.rounds.jobs import TenantVisit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from skein.recall.v1 import recall_pb2_grpc
    from skein_worker.settings import WorkerSettings
    from skein_worker.system_identity import SystemIdentity

REINDEXING = "reindexing"
STANDING = Job(name=REINDEXING, key=REINDEXING)

REINDEXED = Counter(
    "skein_worker_reindexed_items_total", "Items that got the vectors of a model beside the one in force."
)

_LIST_SECONDS = 30.0
# Longer than one call of recall's works; what is under way is ended with it.
_CALL_SECONDS = 60.0

log = logs.get("worker")


class Reindexing:
    """The job that goes on with reindexes."""

    def __init__(
        self, index: recall_pb2_grpc.IndexServiceAsyncStub, system: SystemIdentity, settings: WorkerSettings
    ) -> None:
        self._index = index
        self._system = system
        self._settings = settings

    async def run(self, _payload: bytes, leave_off: asyncio.Event) -> float:
        """Give every tenant in which a reindex is not done a turn, a few at once; one that fails keeps none waiting."""
        visits = TenantVisit(leave_off=leave_off)
        with without_tracing():
            try:
                async for page in self._due():
                    tenant_ids = iter(page)
                    async with asyncio.TaskGroup() as group:
                        for _ in range(self._settings.tenants_at_once):
                            group.create_task(self._some(tenant_ids, visits))
                    if visits.is_over():
                        break
            except aio.AioRpcError as error:
                visits.failed(error)
        if visits.failures:
            log.warning("reindexing_interrupted", failures=visits.failures)
        return self._settings.reindex_seconds

    async def _due(self) -> AsyncIterator[list[str]]:
        token = ""
        while True:
            request = recall_pb2.ListDueReindexesRequest(page_token=token)
            async with self._system.acting(seconds=_LIST_SECONDS):
                response = await self._index.ListDueReindexes(request)
            yield list(response.tenant_ids)
            token = response.next_page_token
            if not token:
                return

    async def _some(self, tenant_ids: Iterator[str], visits: TenantVisit) -> None:
        for tenant_id in tenant_ids:
            if visits.is_over():
                return
            try:
                await self._turn(tenant_id, visits.leave_off)
            except aio.AioRpcError as error:
                visits.failed(error)

    async def _turn(self, tenant_id: str, leave_off: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._settings.turn_seconds
        more = True
        while more and loop.time() < ends and not leave_off.is_set():
            async with self._system.acting(tenant_id=tenant_id, seconds=_CALL_SECONDS):
                response = await self._index.ContinueReindex(recall_pb2.ContinueReindexRequest())
            REINDEXED.inc(response.embedded_count)
            more = response.more
