"""The expiry job: expired rows of all services are deleted, and idle sessions ended, tenant by tenant."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grpc import aio

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import members_pb2
from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import without_tracing
from skein_worker.job_queue.job_queue import Job
from skein_worker.rounds.tenant_visits import RoundProgress

if TYPE_CHECKING:
    from skein.auth.v1 import auth_pb2_grpc
    from skein.memory.v1 import memory_pb2_grpc
    from skein.session.v1 import session_pb2_grpc
    from skein.tenancy.v1 import tenancy_pb2_grpc
    from skein_worker.rounds.tenant_visits import TenantVisitor
    from skein_worker.system_identity import SystemIdentity

EXPIRY = "expiry"
EXPIRY_JOB = Job(name=EXPIRY, dedupe_key=EXPIRY, priority=1)

_CALL_SECONDS = 30.0
_RETRY_SECONDS = 60.0

log = logs.get("worker")


class ExpiryJob:
    """Deletes expired rows and ends idle sessions."""

    def __init__(
        self,
        *,
        auth: auth_pb2_grpc.AuthInternalServiceAsyncStub,
        tenancy: tenancy_pb2_grpc.TenancyInternalServiceAsyncStub,
        session: session_pb2_grpc.SessionInternalServiceAsyncStub,
        memory: memory_pb2_grpc.MemoryInternalServiceAsyncStub,
        system: SystemIdentity,
        visitor: TenantVisitor,
        seconds: float,
    ) -> None:
        """Run every `seconds`."""
        self._session = session
        self._deletes = (
            lambda: auth.DeleteExpired(auth_pb2.DeleteExpiredRequest()),
            lambda: tenancy.DeleteExpired(members_pb2.DeleteExpiredRequest()),
            lambda: session.DeleteExpired(session_pb2.DeleteExpiredRequest()),
            lambda: memory.DeleteExpired(memory_pb2.DeleteExpiredRequest()),
        )
        self._system = system
        self._visitor = visitor
        self._seconds = seconds

    async def run(self, _payload: bytes, stop: asyncio.Event) -> float:
        """Visit all tenants; return the seconds until the next run."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        progress = RoundProgress(stop=stop)
        deleted_count = 0

        async def visit(tenant_id: str) -> None:
            nonlocal deleted_count
            # A service that fails for a tenant does not keep the other services from deleting.
            for delete in self._deletes:
                try:
                    async with self._system.as_system(tenant_id=tenant_id, seconds=_CALL_SECONDS):
                        response = await delete()
                    deleted_count += response.deleted_count
                except aio.AioRpcError as error:
                    progress.add_failure(error)
                    if progress.is_stopped:
                        return
            try:
                await self._end_idle_sessions(tenant_id, stop)
            except aio.AioRpcError as error:
                progress.add_failure(error)

        with without_tracing():
            await self._visitor.visit_all(visit, progress)
        if progress.failures or stop.is_set():
            log.warning("expiry_incomplete", tenants=progress.visited_count, failures=progress.failures)
        elif deleted_count:
            log.info("expired_deleted", tenants=progress.visited_count, rows=deleted_count)
        if progress.is_stopped:
            return min(_RETRY_SECONDS, self._seconds)
        # A tenant whose visit failed waits for the next run, so that it does not make the others run more often.
        return max(self._seconds, loop.time() - start)

    async def _end_idle_sessions(self, tenant_id: str, stop: asyncio.Event) -> None:
        more = True
        while more and not stop.is_set():
            async with self._system.as_system(tenant_id=tenant_id, seconds=_CALL_SECONDS):
                response = await self._session.EndIdleSessions(session_pb2.EndIdleSessionsRequest())
            more = response.more
