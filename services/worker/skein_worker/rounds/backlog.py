"""The embedding backlog: a periodic scan of the tenants with work, and a job for each with more than a few items."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

from grpc import aio
from prometheus_client import Counter, Gauge

from skein.recall.v1 import recall_pb2, recall_pb2_grpc
from skein_kit.errors import RpcError
from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import without_tracing
from skein_worker.job_queue.job_queue import Job, JobHandler, JobStore
from skein_worker.measure.measurements import PendingCounts, set_backlog_metrics
from skein_worker.rounds.catalog import MAX_BACKOFF_SECONDS, TENANT_JOB_SECONDS, TURN_SECONDS
from skein_worker.rounds.tenant_rounds import run_turn
from skein_worker.rounds.tenant_visits import IdleBackoff, TenantVisitor
from skein_worker.settings import WorkerSettings
from skein_worker.system_identity import SystemIdentity

# Names of jobs in the queue.
_SCAN = "embedding_backlog_scan"
_BACKLOG = "embedding_backlog"
BACKLOG_SCAN_JOB = Job(name=_SCAN, dedupe_key=_SCAN, priority=2)

INDEXED = Counter("skein_worker_indexed_documents_total", "Documents of the backlog that were embedded.")
VISITED = Gauge("skein_worker_visited_tenants", "Tenants that the last round of this worker visited for their backlog.")

# Items that one visit of the scan embeds, and their characters: a second's work, because other tenants wait for the
# visit's end. A tenant with more gets a job.
_ITEMS_PER_VISIT = 8
_CHARACTERS_PER_VISIT = 16_000
# Seconds between two scans for tenants with items without vectors: how long a search misses them at least.
SCAN_SECONDS = 2.0
# Items of one call of a job.
_BATCH_ITEMS = 64
# The pause after a scan, in durations of the scan, so that scans take at most a fifth of one worker.
_PAUSE_FACTOR = 4
# Characters of the texts of one call of a job, but for an item that is longer and comes alone.
_CHARACTERS_PER_CALL = 64_000
_CALL_SECONDS = 120.0
# Without an idle core the longest text takes minutes, and after a timeout it starts from its beginning.
_LONG_ITEM_SECONDS = 900.0

log = logs.get("worker")


class BacklogJobs:
    """Makes the vectors of items without."""

    def __init__(
        self,
        index: recall_pb2_grpc.RecallInternalServiceAsyncStub,
        system: SystemIdentity,
        visitor: TenantVisitor,
        store: JobStore,
        add_job: Callable[[Job], Awaitable[None]],
        settings: WorkerSettings,
    ) -> None:
        self._index_service = index
        self._system = system
        self._visitor = visitor
        self._store = store
        self._add_job = add_job
        self._seconds = SCAN_SECONDS * settings.pause_factor
        self._backoff = IdleBackoff(self._seconds, MAX_BACKOFF_SECONDS * settings.pause_factor)
        # Items without vectors, by tenant.
        self._pending_counts = PendingCounts()

    def handlers(self) -> Mapping[str, JobHandler]:
        """Return the handlers by the names of their jobs."""
        return {_SCAN: self._run_scans, _BACKLOG: self._embed_tenant}

    async def _run_scans(self, _payload: bytes, stop: asyncio.Event) -> float:
        return await run_turn(lambda: self._scan(stop), stop, seconds=TURN_SECONDS)

    async def _scan(self, stop: asyncio.Event) -> float:
        """Embed a few items of each tenant with work, and add a job for each tenant with more."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        progress = self._visitor.begin(stop, self._backoff)
        try:
            active_keys = await self._store.list_active_dedupe_keys(_BACKLOG)
        except RpcError as error:
            log.warning("backlog_scan_incomplete", reason=error.reason)
            return self._seconds

        async def visit(tenant_id: str) -> bool:
            job = Job(name=_BACKLOG, dedupe_key=f"{_BACKLOG} {tenant_id}", payload=tenant_id.encode())
            if job.dedupe_key in active_keys:
                # Another job embeds the items; this visit only counts them.
                await self._index(tenant_id, count_only=True)
                return True
            response = await self._index(tenant_id, _ITEMS_PER_VISIT, max_characters=_CHARACTERS_PER_VISIT)
            if response.more:
                await self._add_job(job)
            return response.active

        with without_tracing():
            await self._visitor.visit_due(
                self._index_service.ListDueTenants, recall_pb2.ListDueTenantsRequest(), visit, progress
            )
        VISITED.set(progress.visited_count)
        if progress.failures:
            log.warning("backlog_scan_incomplete", tenants=progress.visited_count, failures=progress.failures)
        pause = max(self._seconds, _PAUSE_FACTOR * (loop.time() - start))
        if not progress.is_stopped:
            self._pending_counts.retain_only(progress.tenant_ids)
            set_backlog_metrics(self._pending_counts, pause=pause)
        return pause

    async def _embed_tenant(self, payload: bytes, stop: asyncio.Event) -> None:
        """Embed items of one tenant for one turn; the next scan finds the rest."""
        tenant_id = payload.decode()
        loop = asyncio.get_running_loop()
        end = loop.time() + TENANT_JOB_SECONDS
        while loop.time() < end and not stop.is_set():
            try:
                response = await self._index(tenant_id, _BATCH_ITEMS, max_characters=_CHARACTERS_PER_CALL)
                if response.more and response.indexed_count == 0:
                    # The oldest item is longer.
                    response = await self._index(tenant_id, 1, seconds=_LONG_ITEM_SECONDS)
            except aio.AioRpcError as error:
                log.warning("backlog_interrupted", tenant_id=tenant_id, code=error.code().name)
                return
            if not response.more or response.indexed_count == 0:
                return

    async def _index(
        self,
        tenant_id: str,
        limit: int = 0,
        *,
        max_characters: int = 0,
        count_only: bool = False,
        seconds: float = _CALL_SECONDS,
    ) -> recall_pb2.IndexBacklogResponse:
        request = recall_pb2.IndexBacklogRequest(limit=limit, max_characters=max_characters, count_only=count_only)
        async with self._system.as_system(tenant_id=tenant_id, seconds=seconds):
            response = await self._index_service.IndexBacklog(request)
        INDEXED.inc(response.indexed_count)
        oldest = response.oldest_pending_time.ToMilliseconds() / 1000
        self._pending_counts.record(tenant_id, response.pending_count, oldest, at=time.time())
        return response
