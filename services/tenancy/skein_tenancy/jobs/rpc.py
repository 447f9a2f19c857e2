"""The RPCs of jobs: parse, one call, reply."""

from __future__ import annotations

from skein.tenancy.v1 import jobs_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import PermissionMissing
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.identity.identity_token import Caller
from skein_kit.ids import now
from skein_kit.jobs.model import Grant, JobKind, Progress
from skein_kit.jobs.store import JobStore
from skein_tenancy.jobs import convert
from skein_tenancy.jobs.store import TenantJobStore

# Work that deletes what a policy or a writer set an end for, and the permission that sets the policy.
_DELETING = frozenset({JobKind.RETENTION, JobKind.EXPIRY})
_POLICY = "tenant.write"


class JobHandlers:
    """Pauses, limits and progress of a tenant's jobs, and grants for its imports."""

    def __init__(self, store: TenantJobStore, jobs: JobStore, idempotency: IdempotencyStore) -> None:
        self._store = store
        self._jobs = jobs
        self._idempotency = idempotency

    async def GetJobs(self, _request: pb.GetJobsRequest, context: Context) -> pb.GetJobsResponse:
        at = now()
        jobs = await self._store.list_jobs(caller_of(context).require_tenant(), at)
        return pb.GetJobsResponse(jobs=[convert.job(each, at) for each in jobs])

    async def PauseJob(self, request: pb.PauseJobRequest, context: Context) -> pb.PauseJobResponse:
        caller, at = caller_of(context), now()
        _check_may_delay(caller, convert.kind(request.kind))
        async with self._idempotency.begin(caller, request) as write:
            job = await self._store.lock_job(write.tx, caller.require_tenant(), convert.kind(request.kind))
            paused = job.paused(caller.principal, at)
            await self._store.update_job_control(write.tx, caller, job, paused, event="job_paused")
            return await write.save(pb.PauseJobResponse(job=convert.job(paused, at)))

    async def ResumeJob(self, request: pb.ResumeJobRequest, context: Context) -> pb.ResumeJobResponse:
        caller, at = caller_of(context), now()
        async with self._idempotency.begin(caller, request) as write:
            job = await self._store.lock_job(write.tx, caller.require_tenant(), convert.kind(request.kind))
            resumed = job.resumed()
            await self._store.update_job_control(write.tx, caller, job, resumed, event="job_resumed")
            return await write.save(pb.ResumeJobResponse(job=convert.job(resumed, at)))

    async def LimitJob(self, request: pb.LimitJobRequest, context: Context) -> pb.LimitJobResponse:
        caller, at, limits = caller_of(context), now(), request.limits
        _check_may_delay(caller, convert.kind(request.kind))
        async with self._idempotency.begin(caller, request) as write:
            job = await self._store.lock_job(write.tx, caller.require_tenant(), convert.kind(request.kind))
            limited = job.limited(
                limits.items_per_second if limits.HasField("items_per_second") else None,
                limits.max_cost_per_day if limits.HasField("max_cost_per_day") else None,
                at,
            )
            await self._store.update_job_control(write.tx, caller, job, limited, event="job_limited")
            return await write.save(pb.LimitJobResponse(job=convert.job(limited, at)))

    async def AdvanceImport(self, request: pb.AdvanceImportRequest, context: Context) -> pb.AdvanceImportResponse:
        caller = caller_of(context)
        tenant_id = caller.require_tenant()
        async with self._idempotency.begin(caller, request) as write:
            if request.done_count or request.finished:
                remaining = request.remaining_count if request.HasField("remaining_count") else None
                progress = Progress(
                    done_count=request.done_count, remaining_count=remaining, has_more=not request.finished
                )
                await self._jobs.report_in(write.tx, tenant_id, JobKind.IMPORT, progress)
            grant = Grant(kind=JobKind.IMPORT, count=0)
            if request.requested_count:
                grant = await self._jobs.acquire_in(write.tx, tenant_id, JobKind.IMPORT, request.requested_count)
            return await write.save(convert.import_grant(grant))


def _check_may_delay(caller: Caller, kind: JobKind) -> None:
    """Raise PermissionMissing where a caller may not keep what the tenant promises to delete."""
    if kind in _DELETING and _POLICY not in caller.permissions:
        raise PermissionMissing(permission=_POLICY)
