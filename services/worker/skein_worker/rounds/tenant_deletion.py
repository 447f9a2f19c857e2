"""The deletion job: a deleted tenant's rows are purged service by service, in batches, and then the tenant itself.

An interrupted purge starts again with the first service, so a crash, or two workers at once, do no harm. Each batch is
added to the deletion's report after its purge; a crash in between leaves one batch out of the report. A finished
deletion stays due until auth has signed its certificate.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import grpc
from grpc import aio
from prometheus_client import Counter

from skein.auth.v1 import auth_pb2, auth_pb2_grpc, certificates_pb2
from skein.memory.v1 import memory_pb2, memory_pb2_grpc
from skein.recall.v1 import recall_pb2, recall_pb2_grpc
from skein.session.v1 import session_pb2, session_pb2_grpc
from skein.tenancy.v1 import members_pb2, tenancy_pb2_grpc
from skein_kit.ids import now
from skein_kit.telemetry import logs
from skein_worker.job_queue.job_queue import Job
from skein_worker.rounds.tenant_visits import list_pages
from skein_worker.system_identity import SystemIdentity

DELETION_JOB = Job(name="deletion", dedupe_key="deletion", priority=1)

PURGED = Counter("skein_worker_purged_rows_total", "Rows of deleted tenants that were purged.")

BATCH = 2000
_CALL_SECONDS = 120.0
# Longer than auth caches the state of a tenant.
_STATE_CACHE_SECONDS = 1.5
# Errors of the cluster, which the next tenant would get too.
_CLUSTER_FAULTS = frozenset({grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED})

log = logs.get("worker")


# Purges rows of the caller's tenant, up to a limit; returns the response of a service's PurgeTenant.
Purge = Callable[[int], Awaitable[Any]]


def purge_stages(
    *,
    session: session_pb2_grpc.SessionInternalServiceAsyncStub,
    memory: memory_pb2_grpc.MemoryInternalServiceAsyncStub,
    recall: recall_pb2_grpc.RecallInternalServiceAsyncStub,
    auth: auth_pb2_grpc.AuthInternalServiceAsyncStub,
    tenancy: tenancy_pb2_grpc.TenancyInternalServiceAsyncStub,
) -> Mapping[str, Purge]:
    """Return the purge of each service, in the order in which they run."""
    return {
        "session": lambda limit: session.PurgeTenant(session_pb2.PurgeTenantRequest(limit=limit)),
        "memory": lambda limit: memory.PurgeTenant(memory_pb2.PurgeTenantRequest(limit=limit)),
        "recall": lambda limit: recall.PurgeTenant(recall_pb2.PurgeTenantRequest(limit=limit)),
        "auth": lambda limit: auth.PurgeTenant(auth_pb2.PurgeTenantRequest(limit=limit)),
        "tenancy": lambda limit: tenancy.PurgeTenant(members_pb2.PurgeTenantRequest(limit=limit)),
    }


class TenantDeletionJob:
    """Purges deleted tenants whose grace is over, and lets auth certify it."""

    def __init__(
        self,
        tenancy: tenancy_pb2_grpc.TenancyInternalServiceAsyncStub,
        auth: auth_pb2_grpc.AuthInternalServiceAsyncStub,
        stages: Mapping[str, Purge],
        system: SystemIdentity,
        *,
        seconds: float,
        batch: int = BATCH,
    ) -> None:
        """Run every `seconds`; purge `batch` rows with each call of the `stages`, which are by service."""
        self._tenancy = tenancy
        self._auth = auth
        self._stages = stages
        self._system = system
        self._seconds = seconds
        self._batch = batch

    async def run(self, _payload: bytes, stop: asyncio.Event) -> float:
        """Purge and certify all due tenants; return the seconds until the next run, which retries failed ones."""
        try:
            async for deletion in self._due_deletions():
                if stop.is_set():
                    break
                try:
                    if deletion.state == members_pb2.DELETION_STATE_DONE:
                        await self._certify_end(deletion)
                    else:
                        await self._purge_tenant(deletion.tenant_id, stop)
                except aio.AioRpcError as error:
                    self._system.drop_token(deletion.tenant_id)
                    log.warning("deletion_interrupted", tenant_id=deletion.tenant_id, code=error.code().name)
                    if error.code() in _CLUSTER_FAULTS:
                        break
        except aio.AioRpcError as error:
            log.warning("deletion_list_failed", code=error.code().name)
        return self._seconds

    async def _due_deletions(self) -> AsyncIterator[members_pb2.Deletion]:
        request = members_pb2.ListDueDeletionsRequest()
        async for response in list_pages(self._system, self._tenancy.ListDueDeletions, request):
            for deletion in response.deletions:
                yield deletion

    async def _purge_tenant(self, tenant_id: str, stop: asyncio.Event) -> None:
        """Run all stages until none finds rows, because calls in progress may still add some; then end the deletion."""
        purged_count = -1
        while purged_count:
            purged_count = 0
            for stage, purge in self._stages.items():
                # Before the first purge, because a tenant that is being purged cannot be undeleted.
                await self._record(tenant_id, stage=stage)
                more = True
                while more:
                    if stop.is_set():
                        return
                    response = await self._purge_batch(tenant_id, purge, stop)
                    more = response.more
                    if response.deleted_counts:
                        row_count = sum(response.deleted_counts.values())
                        await self._record(tenant_id, stage=stage, deleted_counts=response.deleted_counts)
                        PURGED.inc(row_count)
                        purged_count += row_count
        # A worker that ends in between leaves a certificate that says so.
        try:
            await self._certify(await self._record(tenant_id, stage="tenancy"), is_complete=False)
        except aio.AioRpcError as error:
            # The rows are purged either way, and the complete certificate is retried.
            log.warning("deletion_certificate_failed", tenant_id=tenant_id, code=error.code().name)
        deletion = await self._record(tenant_id, stage="tenancy", deleted_counts={"tenancy.tenants": 1}, finished=True)
        log.info("tenant_purged", tenant_id=tenant_id, rows=sum(deletion.deleted_counts.values()))
        await self._certify_end(deletion)

    async def _certify_end(self, deletion: members_pb2.Deletion) -> None:
        """Let auth sign the certificate of a finished deletion, which is then no longer due."""
        await self._certify(deletion, is_complete=True)
        await self._record(deletion.tenant_id, stage="tenancy", certified=True)

    async def _certify(self, deletion: members_pb2.Deletion, *, is_complete: bool) -> None:
        """Let auth sign what was purged."""
        request = certificates_pb2.IssueDeletionCertificateRequest(
            tenant_id=deletion.tenant_id,
            complete=is_complete,
            start_time=deletion.create_time,
            deleted_counts=deletion.deleted_counts,
        )
        if deletion.HasField("finish_time"):
            request.end_time.CopyFrom(deletion.finish_time)
        else:
            request.end_time.FromDatetime(now())
        async with self._system.as_system(seconds=_CALL_SECONDS):
            await self._auth.IssueDeletionCertificate(request)

    async def _purge_batch(self, tenant_id: str, purge: Purge, stop: asyncio.Event) -> Any:
        """Purge a batch, with a second attempt when auth's cache still has the tenant as open."""
        try:
            async with self._system.as_system(tenant_id=tenant_id, deleted=True, seconds=_CALL_SECONDS):
                return await purge(self._batch)
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
        self._system.drop_token(tenant_id)
        with suppress(TimeoutError):
            async with asyncio.timeout(_STATE_CACHE_SECONDS):
                await stop.wait()
        async with self._system.as_system(tenant_id=tenant_id, deleted=True, seconds=_CALL_SECONDS):
            return await purge(self._batch)

    async def _record(self, tenant_id: str, **progress: Any) -> members_pb2.Deletion:
        request = members_pb2.RecordDeletionRequest(tenant_id=tenant_id, **progress)
        async with self._system.as_system(seconds=_CALL_SECONDS):
            response = await self._tenancy.RecordDeletion(request)
        return response.deletion
