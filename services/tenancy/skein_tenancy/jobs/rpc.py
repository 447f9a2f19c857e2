"""The RPCs of jobs: parse, one call, reply."""

from __future__ import annotations

from datetime import datetime

from skein.tenancy.v1 import jobs_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import PermissionMissing
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.identity.identity_token import Caller
from skein_kit.ids import now
from skein_kit.jobs.model import Grant, Job, JobKind, Progress, retry_delay
from skein_kit.jobs.store import JobStore
from skein_kit.rpc.well_known_types import to_timestamp
from skein_tenancy.jobs.store import TenantJobStore

# Work that deletes what a policy or a writer set an end for, and the permission that sets the policy.
_DELETING = frozenset({JobKind.RETENTION, JobKind.EXPIRY})
_POLICY = "tenant.write"
_KIND_PREFIX = "JOB_KIND_"
_STATE_PREFIX = "JOB_STATE_"
_EMBEDDINGS = frozenset({JobKind.EMBEDDING, JobKind.REINDEX})


class JobHandlers:
    """Pauses, limits and progress of a tenant's jobs, and grants for its imports."""

    def __init__(self, store: TenantJobStore, jobs: JobStore, idempotency: IdempotencyStore) -> None:
        self._store = store
        self._jobs = jobs
        self._idempotency = idempotency

    async def GetJobs(self, _request: pb.GetJobsRequest, context: Context) -> pb.GetJobsResponse:
        at = now()
        jobs = await self._store.list_jobs(caller_of(context).require_tenant(), at)
        return pb.GetJobsResponse(jobs=[job_message(each, at) for each in jobs])

    async def PauseJob(self, request: pb.PauseJobRequest, context: Context) -> pb.PauseJobResponse:
        caller, at = caller_of(context), now()
        _check_may_delay(caller, kind(request.kind))
        async with self._idempotency.begin(caller, request) as write:
            job = await self._store.lock_job(write.tx, caller.require_tenant(), kind(request.kind))
            paused = job.paused(caller.principal, at)
            await self._store.update_job_control(write.tx, caller, job, paused, event="job_paused")
            return await write.save(pb.PauseJobResponse(job=job_message(paused, at)))

    async def ResumeJob(self, request: pb.ResumeJobRequest, context: Context) -> pb.ResumeJobResponse:
        caller, at = caller_of(context), now()
        async with self._idempotency.begin(caller, request) as write:
            job = await self._store.lock_job(write.tx, caller.require_tenant(), kind(request.kind))
            resumed = job.resumed()
            await self._store.update_job_control(write.tx, caller, job, resumed, event="job_resumed")
            return await write.save(pb.ResumeJobResponse(job=job_message(resumed, at)))

    async def LimitJob(self, request: pb.LimitJobRequest, context: Context) -> pb.LimitJobResponse:
        caller, at, limits = caller_of(context), now(), request.limits
        _check_may_delay(caller, kind(request.kind))
        async with self._idempotency.begin(caller, request) as write:
            job = await self._store.lock_job(write.tx, caller.require_tenant(), kind(request.kind))
            limited = job.limited(
                limits.items_per_second if limits.HasField("items_per_second") else None,
                limits.max_cost_per_day if limits.HasField("max_cost_per_day") else None,
                at,
            )
            await self._store.update_job_control(write.tx, caller, job, limited, event="job_limited")
            return await write.save(pb.LimitJobResponse(job=job_message(limited, at)))

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
            return await write.save(import_grant(grant))


def _check_may_delay(caller: Caller, kind: JobKind) -> None:
    """Raise PermissionMissing where a caller may not keep what the tenant promises to delete."""
    if kind in _DELETING and _POLICY not in caller.permissions:
        raise PermissionMissing(permission=_POLICY)


def kind(value: pb.JobKind) -> JobKind:
    """Read a kind that the contract has checked."""
    return JobKind(pb.JobKind.Name(value).removeprefix(_KIND_PREFIX).lower())


def job_message(value: Job, at: datetime) -> pb.Job:
    """Convert a job as it is at a time."""
    cost = _cost(value.kind)
    return pb.Job(
        kind=f"{_KIND_PREFIX}{value.kind.upper()}",
        state=f"{_STATE_PREFIX}{value.state(at).upper()}",
        limits=pb.JobLimits(items_per_second=value.items_per_second, max_cost_per_day=value.max_cost_per_day),
        cost=cost,
        day_cost=value.cost_of_day(at),
        done_count=value.done_count,
        remaining_count=value.remaining_count,
        recent_rate=value.rate(at),
        expected_end_time=to_timestamp(value.expected_end(at, counts_items=cost != pb.JOB_COST_TOKENS)),
        run_start_time=to_timestamp(value.run_start_time),
        last_batch_time=to_timestamp(value.last_batch_time),
        pause_time=to_timestamp(value.pause_time),
        paused_by=value.paused_by,
    )


def import_grant(value: Grant) -> pb.AdvanceImportResponse:
    """Convert the records granted to an import."""
    return pb.AdvanceImportResponse(
        granted_count=value.count,
        retry_delay=retry_delay(value.retry_seconds),
        state=f"{_STATE_PREFIX}{value.state.upper()}",
    )


def _cost(value: JobKind) -> pb.JobCost:
    if value in {JobKind.SUMMARIES, JobKind.MODEL_EXTRACTION}:
        return pb.JOB_COST_TOKENS
    return pb.JOB_COST_EMBEDDINGS if value in _EMBEDDINGS else pb.JOB_COST_ITEMS
