"""Pauses and limits of jobs in the database, with the audit event of each change in its transaction."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from skein_kit.audit_log.writer import AuditLog
from skein_kit.database.transactions import Database, Transaction
from skein_kit.identity.identity_token import Caller
from skein_kit.jobs.model import Job, JobKind
from skein_kit.jobs.store import lock_job, read_job
from skein_tenancy.queries import QUERIES


class TenantJobStore:
    """The jobs of a tenant, for those who control them."""

    def __init__(self, database: Database, audit: AuditLog) -> None:
        self._database = database
        self._audit = audit

    async def list_jobs(self, tenant_id: UUID, at: datetime) -> list[Job]:
        """Return one job of each kind."""
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(QUERIES["list_jobs"], tenant_id=tenant_id)
        jobs = {job.kind: job for job in map(read_job, rows)}
        return [jobs.get(kind) or Job.create(kind, at) for kind in JobKind]

    async def lock_job(self, tx: Transaction, tenant_id: UUID, kind: JobKind) -> Job:
        """Read a job and keep others from changing it until the transaction ends."""
        return await lock_job(tx, tenant_id, kind)

    async def update_job_control(self, tx: Transaction, caller: Caller, before: Job, after: Job, *, event: str) -> None:
        """Change the pause and the limits of a locked job and record the event; without a change do nothing."""
        if after == before:
            return
        tenant_id = caller.require_tenant()
        await tx.execute(
            QUERIES["update_job_control"],
            tenant_id=tenant_id,
            kind=after.kind,
            pause_time=after.pause_time,
            paused_by=after.paused_by,
            items_per_second=after.items_per_second,
            max_cost_per_day=after.max_cost_per_day,
            tokens=after.tokens,
            refill_time=after.refill_time,
        )
        await self._audit.record(tx, tenant_id, event, target=f"job:{after.kind}")
