"""Removing deleted tenants: every service's rows, a batch at a time, until nothing is left; then the tenant itself.

Whatever is interrupted begins again with the first service, which has nothing left to say: so a crash anywhere, and two
workers at once, do no harm. Each batch is added to the deletion's report as soon as it is gone; what a worker removed
in the moment before it crashed is missing from the report, and nothing else.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import grpc
from grpc import aio
from prometheus_client import Counter

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import members_pb2
from skein_kit.telemetry import logs
from skein_worker.job_queue.job_queue import Job

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from skein.auth.v1 import auth_pb2_grpc
    from skein.memory.v1 import memory_pb2_grpc
    from skein.recall.v1 import recall_pb2_grpc
    from skein.session.v1 import session_pb2_grpc
    from skein.tenancy.v1 import tenancy_pb2_grpc
    from skein_worker.system_identity import SystemIdentity

DELETION = "deletion"
STANDING = Job(name=DELETION, key=DELETION, priority=1)

PURGED = Counter("skein_worker_purged_rows_total", "Rows of deleted tenants that were removed.")

BATCH = 2000
_CALL_SECONDS = 120.0
# Longer than auth remembers whether a tenant is open.
_STANDING_SECONDS = 1.5
# Whatever comes next would fail as well.
_CLUSTER_FAULTS = frozenset({grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED})

log = logs.get("worker")


class PurgeResponse(Protocol):
    """What every service says when it removed some rows."""

    @property
    def deleted_counts(self) -> Mapping[str, int]:
        """Rows by table."""

    @property
    def more(self) -> bool:
        """Say whether there may be more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Clients:
    """The services that keep something of a tenant."""

    session: session_pb2_grpc.UpkeepServiceAsyncStub
    memory: memory_pb2_grpc.UpkeepServiceAsyncStub
    recall: recall_pb2_grpc.IndexServiceAsyncStub
    auth: auth_pb2_grpc.IdentityServiceAsyncStub
    tenancy: tenancy_pb2_grpc.UpkeepServiceAsyncStub

    def stages(self, batch: int) -> Mapping[str, Callable[[], Awaitable[PurgeResponse]]]:
        """Return what removes a batch of rows of each service, in the order in which they go."""
        return {
            "session": lambda: self.session.PurgeTenant(session_pb2.PurgeTenantRequest(limit=batch)),
            "memory": lambda: self.memory.PurgeTenant(memory_pb2.PurgeTenantRequest(limit=batch)),
            "recall": lambda: self.recall.PurgeTenant(recall_pb2.PurgeTenantRequest(limit=batch)),
            "auth": lambda: self.auth.PurgeTenant(auth_pb2.PurgeTenantRequest(limit=batch)),
            "tenancy": lambda: self.tenancy.PurgeTenant(members_pb2.PurgeTenantRequest(limit=batch)),
        }


class TenantDeletionJob:
    """The job that removes tenants whose grace is over."""

    def __init__(self, clients: Clients, system: SystemIdentity, *, seconds: float, batch: int = BATCH) -> None:
        """Look for them every so many `seconds`; remove `batch` rows with each call."""
        self._clients = clients
        self._system = system
        self._seconds = seconds
        self._batch = batch

    async def run(self, _payload: bytes, leave_off: asyncio.Event) -> float:
        """Remove every tenant that is due; one that fails has its next turn with the others."""
        try:
            async for deletion in self._due():
                if leave_off.is_set():
                    break
                try:
                    await self._remove(deletion.tenant_id, leave_off)
                except aio.AioRpcError as error:
                    self._system.forget(deletion.tenant_id)
                    log.warning("deletion_interrupted", tenant_id=deletion.tenant_id, code=error.code().name)
                    if error.code() in _CLUSTER_FAULTS:
                        break
        except aio.AioRpcError as error:
            log.warning("deletions_unknown", code=error.code().name)
        return self._seconds

    async def _due(self) -> AsyncIterator[members_pb2.Deletion]:
        token = ""
        while True:
            request = members_pb2.ListDueDeletionsRequest(page_token=token)
            async with self._system.acting(seconds=_CALL_SECONDS):
                response = await self._clients.tenancy.ListDueDeletions(request)
            for deletion in response.deletions:
                yield deletion
            token = response.next_page_token
            if not token:
                return

    async def _remove(self, tenant_id: str, leave_off: asyncio.Event) -> None:
        """Remove a tenant: all stages until none finds anything, as calls under way may still have added something."""
        removed = -1
        while removed:
            removed = 0
            for stage, purge in self._clients.stages(self._batch).items():
                # Said before anything is removed: from here on nobody opens the tenant again.
                await self._record(tenant_id, stage=stage)
                more = True
                while more:
                    if leave_off.is_set():
                        return
                    purged = await self._purged(tenant_id, purge, leave_off)
                    more = purged.more
                    if purged.deleted_counts:
                        rows = sum(purged.deleted_counts.values())
                        await self._record(tenant_id, stage=stage, deleted_counts=purged.deleted_counts)
                        PURGED.inc(rows)
                        removed += rows
        deletion = await self._record(tenant_id, stage="tenancy", deleted_counts={"tenancy.tenants": 1}, finished=True)
        log.info("tenant_removed", tenant_id=tenant_id, rows=sum(deletion.deleted_counts.values()))

    async def _purged(
        self, tenant_id: str, purge: Callable[[], Awaitable[PurgeResponse]], leave_off: asyncio.Event
    ) -> PurgeResponse:
        """Remove a batch; where auth still takes the tenant for open, as it may for a second, wait and try again."""
        try:
            async with self._system.acting(tenant_id=tenant_id, closed=True, seconds=_CALL_SECONDS):
                return await purge()
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
        self._system.forget(tenant_id)
        with suppress(TimeoutError):
            async with asyncio.timeout(_STANDING_SECONDS):
                await leave_off.wait()
        async with self._system.acting(tenant_id=tenant_id, closed=True, seconds=_CALL_SECONDS):
            return await purge()

    async def _record(self, tenant_id: str, **progress: Any) -> members_pb2.Deletion:
        request = members_pb2.RecordDeletionRequest(tenant_id=tenant_id, **progress)
        async with self._system.acting(seconds=_CALL_SECONDS):
            response = await self._clients.tenancy.RecordDeletion(request)
        return response.deletion
