"""What the worker does later: vectors for the backlog, partitions ahead of time, removal of what has expired.

Nobody reads across tenants, so the sweep asks tenant by tenant, as the system acting in each. A question that finds
nothing costs about 0.4 ms, so a tenant where nothing happens is asked less and less often; one that has more to do than
one question settles gets a job of its own, which any worker may take.
"""

from __future__ import annotations

import asyncio
import functools
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import grpc
from grpc import aio
from prometheus_client import Counter, Gauge

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import limits_pb2, members_pb2, tenancy_pb2
from skein_kit.errors import RpcError
from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import without_tracing
from skein_worker.job_queue.job_queue import Job
from skein_worker.measure.measurements import WaitingCounts, set_backlog_metrics
from skein_worker.rounds.idle_backoff import IdleBackoff

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping

    from skein.auth.v1 import auth_pb2_grpc
    from skein.memory.v1 import memory_pb2_grpc
    from skein.recall.v1 import recall_pb2_grpc
    from skein.session.v1 import session_pb2_grpc
    from skein.tenancy.v1 import tenancy_pb2_grpc
    from skein_worker.job_queue.job_queue import Work
    from skein_worker.job_queue.store import Store
    from skein_worker.settings import WorkerSettings
    from skein_worker.system_identity import SystemIdentity

SWEEP = "backlog_sweep"
BACKLOG = "embedding_backlog"
UPKEEP = "upkeep"
EXPIRY = "expiry"
USAGE = "usage"
ONCE = b"once"
# They run for ever, before other jobs. Upkeep also runs whenever a worker starts, whatever its next turn is.
STANDING = (
    Job(name=SWEEP, key=SWEEP, priority=2),
    Job(name=UPKEEP, key=UPKEEP, priority=1),
    Job(name=UPKEEP, key=f"{UPKEEP} at start", payload=ONCE, priority=1),
    Job(name=EXPIRY, key=EXPIRY, priority=1),
    Job(name=USAGE, key=USAGE, priority=1),
)

INDEXED = Counter("skein_worker_indexed_items_total", "Items of the backlog that got their vectors.")
HORIZON = Gauge(
    "skein_partition_horizon_seconds", "Time until the last partition that is made ahead ends.", ["service"]
)
SWEPT = Gauge("skein_worker_swept_tenants", "Tenants that the last sweep of this worker asked.")

_TENANTS_PER_PAGE = 200
# What one question of the sweep settles at once; a tenant with more gets a job.
_ITEMS_PER_QUESTION = 8
# A sweep of thousands of tenants rests four times as long as it took: a fifth of one worker is enough for looking.
_PAUSES = 4
_SHORT_CALL_SECONDS = 30.0
_LONG_CALL_SECONDS = 120.0
_RETRY_SECONDS = 60.0
# The cluster is at fault, not the tenant: asking the next one makes no sense.
_CLUSTER_FAULTS = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}
)

log = logs.get("worker")


@dataclass(frozen=True, kw_only=True, slots=True)
class Clients:
    """The services that jobs call."""

    auth: auth_pb2_grpc.IdentityServiceAsyncStub
    tenancy: tenancy_pb2_grpc.TenancyServiceAsyncStub
    upkeep: tenancy_pb2_grpc.UpkeepServiceAsyncStub
    index: recall_pb2_grpc.IndexServiceAsyncStub
    memory: memory_pb2_grpc.UpkeepServiceAsyncStub
    session: session_pb2_grpc.UpkeepServiceAsyncStub


@dataclass(kw_only=True, slots=True)
class TenantVisit:
    """One visit to every tenant that is not at rest."""

    leave_off: asyncio.Event
    # Tenants that need not be asked every time; None: all are.
    rests: IdleBackoff | None = None
    visited: int = 0
    seen: set[str] = field(default_factory=set)
    # Status codes of the visits that failed.
    failures: dict[str, int] = field(default_factory=dict)
    cluster_fault: bool = False

    def is_over(self) -> bool:
        """Say whether to visit no more tenants."""
        return self.cluster_fault or self.leave_off.is_set()

    def failed(self, error: aio.AioRpcError) -> None:
        """Remember why a visit failed; a tenant that was deleted meanwhile is no failure."""
        if error.code() is grpc.StatusCode.NOT_FOUND:
            return
        self.failures[error.code().name] = self.failures.get(error.code().name, 0) + 1
        self.cluster_fault = self.cluster_fault or error.code() in _CLUSTER_FAULTS


class Jobs:
    """The jobs by name, for the queue to do."""

    def __init__(
        self,
        clients: Clients,
        system: SystemIdentity,
        store: Store,
        settings: WorkerSettings,
        add: Callable[[Job], Awaitable[None]],
    ) -> None:
        self._clients = clients
        self._system = system
        self._store = store
        self._settings = settings
        self._add = add
        self._rests = IdleBackoff(settings.backlog_seconds, settings.rest_seconds)
        # What tenants have without vectors.
        self._waiting = WaitingCounts()

    def works(self) -> Mapping[str, Work]:
        """Return what does the jobs of each name."""
        return {
            SWEEP: self._sweep,
            BACKLOG: self._backlog,
            UPKEEP: self._upkeep,
            EXPIRY: self._expiry,
            USAGE: self._usage,
        }

    async def _sweep(self, _payload: bytes, leave_off: asyncio.Event) -> float:
        """Ask tenants for items without vectors."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        visits = TenantVisit(leave_off=leave_off, rests=self._rests)
        try:
            busy = await self._store.working_keys(BACKLOG)
        except RpcError as refusal:
            log.warning("sweep_incomplete", reason=refusal.reason)
            return self._settings.backlog_seconds

        async def ask(tenant_id: str) -> bool:
            job = Job(name=BACKLOG, key=f"{BACKLOG} {tenant_id}", payload=tenant_id.encode())
            if job.key in busy:
                # Somebody is at it, perhaps for long.
                await self._index(tenant_id, look=True)
                return True
            found = await self._index(tenant_id, _ITEMS_PER_QUESTION)
            if found.more:
                await self._add(job)
            return found.active

        with without_tracing():
            await self.visit(ask, visits)
        SWEPT.set(visits.visited)
        if visits.failures:
            log.warning("sweep_incomplete", tenants=visits.visited, failures=visits.failures)
        pause = max(self._settings.backlog_seconds, _PAUSES * (loop.time() - started))
        if not visits.is_over():
            self._waiting.keep(visits.seen)
            set_backlog_metrics(self._waiting, pause=pause)
        return pause

    async def _backlog(self, payload: bytes, leave_off: asyncio.Event) -> None:
        """Make the vectors that one tenant lacks, for one turn; the next sweep sees what is left."""
        tenant_id = payload.decode()
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._settings.turn_seconds
        batch = self._settings.backlog_batch
        while loop.time() < ends and not leave_off.is_set():
            try:
                response = await self._index(tenant_id, batch)
            except aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED and batch > 1:
                    # Long texts: fewer of them fit into one call.
                    batch //= 2
                    continue
                log.warning("backlog_interrupted", tenant_id=tenant_id, code=error.code().name)
                return
            if not response.more or response.indexed_count == 0:
                return

    async def _upkeep(self, payload: bytes, _leave_off: asyncio.Event) -> float | None:
        """Make the coming months' partitions and forget old lines of the queue's log."""
        next_run = None if payload == ONCE else self._settings.upkeep_seconds
        try:
            async with self._system.acting(seconds=_SHORT_CALL_SECONDS):
                session = await self._clients.session.EnsurePartitions(session_pb2.EnsurePartitionsRequest())
                memory = await self._clients.memory.EnsurePartitions(memory_pb2.EnsurePartitionsRequest())
            await self._store.delete_old_log(datetime.now(UTC) - timedelta(seconds=self._settings.log_seconds))
        except aio.AioRpcError as error:
            log.warning("upkeep_failed", code=error.code().name)
            return min(_RETRY_SECONDS, self._settings.upkeep_seconds)
        except RpcError as refusal:
            log.warning("upkeep_failed", reason=refusal.reason)
            return min(_RETRY_SECONDS, self._settings.upkeep_seconds)
        # It comes nearer by itself, whether or not upkeep goes on.
        for service, horizon in (("session", session.horizon_time), ("memory", memory.horizon_time)):
            HORIZON.labels(service).set_function(functools.partial(_until, horizon.seconds))
        created = session.created_count + memory.created_count
        if created:
            log.info("partitions_created", count=created, horizon=memory.horizon_time.ToJsonString())
        return next_run

    async def _expiry(self, _payload: bytes, leave_off: asyncio.Event) -> float:
        """Remove what has expired, tenant by tenant."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        visits = TenantVisit(leave_off=leave_off)
        deleted = 0

        async def remove(tenant_id: str) -> None:
            nonlocal deleted
            # What one service cannot do for a tenant keeps the others from nothing.
            for delete in (
                lambda: self._clients.auth.DeleteExpired(auth_pb2.DeleteExpiredRequest()),
                lambda: self._clients.upkeep.DeleteExpired(members_pb2.DeleteExpiredRequest()),
                lambda: self._clients.session.DeleteExpired(session_pb2.DeleteExpiredRequest()),
                lambda: self._clients.memory.DeleteExpired(memory_pb2.DeleteExpiredRequest()),
            ):
                try:
                    async with self._system.acting(tenant_id=tenant_id, seconds=_SHORT_CALL_SECONDS):
                        response = await delete()
                    deleted += response.deleted_count
                except aio.AioRpcError as error:
                    visits.failed(error)
                    if visits.is_over():
                        return
            try:
                await self._end_idle(tenant_id, leave_off)
            except aio.AioRpcError as error:
                visits.failed(error)

        with without_tracing():
            await self.visit(remove, visits)
        if visits.failures or leave_off.is_set():
            log.warning("expiry_incomplete", tenants=visits.visited, failures=visits.failures)
        elif deleted:
            log.info("expired_deleted", tenants=visits.visited, rows=deleted)
        if visits.is_over():
            return min(_RETRY_SECONDS, self._settings.expiry_seconds)
        # A tenant that fails again and again has its next turn with all the others.
        return max(self._settings.expiry_seconds, loop.time() - started)

    async def _end_idle(self, tenant_id: str, leave_off: asyncio.Event) -> None:
        """End the sessions of a tenant that nobody speaks in."""
        more = True
        while more and not leave_off.is_set():
            async with self._system.acting(tenant_id=tenant_id, seconds=_SHORT_CALL_SECONDS):
                response = await self._clients.session.EndIdleSessions(session_pb2.EndIdleSessionsRequest())
            more = response.more

    async def _usage(self, _payload: bytes, leave_off: asyncio.Event) -> float:
        """Bring up to date what organizations' quotas see of their tenants."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        visits = TenantVisit(leave_off=leave_off)

        async def collect(tenant_id: str) -> None:
            async with self._system.acting(tenant_id=tenant_id, seconds=_SHORT_CALL_SECONDS):
                await self._clients.upkeep.CollectUsage(limits_pb2.CollectUsageRequest())

        with without_tracing():
            await self.visit(collect, visits)
        if visits.failures:
            log.warning("usage_incomplete", tenants=visits.visited, failures=visits.failures)
        if visits.is_over():
            return min(_RETRY_SECONDS, self._settings.usage_seconds)
        return max(self._settings.usage_seconds, loop.time() - started)

    async def _index(self, tenant_id: str, limit: int = 0, *, look: bool = False) -> recall_pb2.IndexBacklogResponse:
        request = recall_pb2.IndexBacklogRequest(limit=limit, look=look)
        async with self._system.acting(tenant_id=tenant_id, seconds=_LONG_CALL_SECONDS):
            response = await self._clients.index.IndexBacklog(request)
        INDEXED.inc(response.indexed_count)
        oldest = response.oldest_pending_time.ToMilliseconds() / 1000
        self._waiting.note(tenant_id, response.pending_count, oldest, at=time.time())
        return response

    async def visit(self, visit: Callable[[str], Awaitable[bool | None]], visits: TenantVisit) -> None:
        """Visit every tenant that is not at rest, a few at a time; a visit says whether there was something to do."""
        try:
            async for page in self._pages():
                tenant_ids = iter(page)
                async with asyncio.TaskGroup() as group:
                    for _ in range(self._settings.tenants_at_once):
                        group.create_task(_visit_some(visit, tenant_ids, visits))
                if visits.is_over():
                    return
            if visits.rests is not None:
                visits.rests.keep(visits.seen)
        except aio.AioRpcError as error:
            visits.failed(error)

    async def _pages(self) -> AsyncIterator[list[str]]:
        token = ""
        while True:
            request = tenancy_pb2.ListTenantsRequest(page_size=_TENANTS_PER_PAGE, page_token=token)
            async with self._system.acting(seconds=_SHORT_CALL_SECONDS):
                response = await self._clients.tenancy.ListTenants(request)
            yield [tenant.tenant_id for tenant in response.tenants]
            token = response.next_page_token
            if not token:
                return


def _until(at: float) -> float:
    return at - time.time()


async def _visit_some(
    visit: Callable[[str], Awaitable[bool | None]], tenant_ids: Iterator[str], visits: TenantVisit
) -> None:
    loop, rests = asyncio.get_running_loop(), visits.rests
    for tenant_id in tenant_ids:
        if visits.is_over():
            return
        visits.seen.add(tenant_id)
        if rests is not None and not rests.is_over(tenant_id, loop.time()):
            continue
        try:
            active = await visit(tenant_id)
            visits.visited += 1
        except aio.AioRpcError as error:
            visits.failed(error)
        else:
            if rests is not None:
                rests.visited(tenant_id, loop.time(), active=bool(active))
