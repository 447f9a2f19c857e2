"""The reindex job: vectors of another model for all documents of a tenant, while the active model is searched.

Recall stores the progress of each tenant, so a reindex continues in another worker when this one dies.
"""

from __future__ import annotations

import asyncio

from prometheus_client import Counter

from skein.recall.v1 import recall_pb2, recall_pb2_grpc
from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import without_tracing
from skein_worker.job_queue.job_queue import Job
from skein_worker.rounds.catalog import TENANT_JOB_SECONDS
from skein_worker.rounds.tenant_visits import TenantVisitor
from skein_worker.settings import WorkerSettings
from skein_worker.system_identity import SystemIdentity

REINDEX_JOB = Job(name="reindex", dedupe_key="reindex")

REINDEXED = Counter(
    "skein_worker_reindexed_documents_total", "Documents that a reindex gave the vectors of another model."
)

# Longer than one call of recall takes, because a deadline would end its work.
_CALL_SECONDS = 60.0
# Seconds between two rounds; a reindex takes minutes at least.
_ROUND_SECONDS = 5.0

log = logs.get("worker")


class ReindexJob:
    """Continues reindexes, each tenant for one turn."""

    def __init__(
        self,
        index: recall_pb2_grpc.RecallInternalServiceAsyncStub,
        system: SystemIdentity,
        visitor: TenantVisitor,
        settings: WorkerSettings,
    ) -> None:
        self._index = index
        self._system = system
        self._visitor = visitor
        self._settings = settings

    async def run(self, _payload: bytes, stop: asyncio.Event) -> float:
        """Visit every tenant with an unfinished reindex; return the seconds until the next run."""
        progress = self._visitor.begin(stop)

        async def visit(tenant_id: str) -> None:
            await self._reindex_tenant(tenant_id, stop)

        with without_tracing():
            request = recall_pb2.ListDueReindexesRequest()
            await self._visitor.visit_due(self._index.ListDueReindexes, request, visit, progress)
        if progress.failures:
            log.warning("reindex_interrupted", failures=progress.failures)
        return _ROUND_SECONDS * self._settings.pause_factor

    async def _reindex_tenant(self, tenant_id: str, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + TENANT_JOB_SECONDS
        more = True
        while more and loop.time() < end and not stop.is_set():
            async with self._system.as_system(tenant_id=tenant_id, seconds=_CALL_SECONDS):
                response = await self._index.ContinueReindex(recall_pb2.ContinueReindexRequest())
            REINDEXED.inc(response.embedded_count)
            more = response.more
