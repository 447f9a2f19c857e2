"""The reindex job: vectors of another model for all documents of a tenant, while the active model is searched.

Recall stores the progress of each tenant, so a reindex continues in another worker when this one dies.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from prometheus_client import Counter

from skein.recall.v1 import recall_pb2
from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import without_tracing
from skein_worker.job_queue.job_queue import Job
from skein_worker.rounds.tenant_visits import RoundProgress, visit_tenants

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from skein.recall.v1 import recall_pb2_grpc
    from skein_worker.settings import WorkerSettings
    from skein_worker.system_identity import SystemIdentity

# The name of the job in the queue.
REINDEX = "reindexing"
REINDEX_JOB = Job(name=REINDEX, dedupe_key=REINDEX)

REINDEXED = Counter(
    "skein_worker_reindexed_items_total", "Items that got the vectors of a model beside the one in force."
)

_LIST_SECONDS = 30.0
# Longer than one call of recall takes, because a deadline would end its work.
_CALL_SECONDS = 60.0

log = logs.get("worker")


class ReindexJob:
    """Continues reindexes, each tenant for one turn."""

    def __init__(
        self, index: recall_pb2_grpc.RecallInternalServiceAsyncStub, system: SystemIdentity, settings: WorkerSettings
    ) -> None:
        self._index = index
        self._system = system
        self._settings = settings

    async def run(self, _payload: bytes, stop: asyncio.Event) -> float:
        """Visit every tenant with an unfinished reindex; return the seconds until the next run."""
        progress = RoundProgress(stop=stop)

        async def visit(tenant_id: str) -> None:
            await self._reindex_tenant(tenant_id, stop)

        with without_tracing():
            await visit_tenants(self._due_tenants(), visit, progress, at_once=self._settings.tenants_at_once)
        if progress.failures:
            log.warning("reindexing_interrupted", failures=progress.failures)
        return self._settings.reindex_seconds

    async def _due_tenants(self) -> AsyncIterator[Sequence[str]]:
        token = ""
        while True:
            request = recall_pb2.ListDueReindexesRequest(page_token=token)
            async with self._system.as_system(seconds=_LIST_SECONDS):
                response = await self._index.ListDueReindexes(request)
            yield list(response.tenant_ids)
            token = response.next_page_token
            if not token:
                return

    async def _reindex_tenant(self, tenant_id: str, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._settings.turn_seconds
        more = True
        while more and loop.time() < end and not stop.is_set():
            async with self._system.as_system(tenant_id=tenant_id, seconds=_CALL_SECONDS):
                response = await self._index.ContinueReindex(recall_pb2.ContinueReindexRequest())
            REINDEXED.inc(response.embedded_count)
            more = response.more
