"""Jobs in the database: `batch` surrounds each batch of background work.

A batch whose cost does not depend on its success begins with `acquire` and ends with `settle`.
The state is one row of `tenancy.jobs` for a tenant and a kind, so it holds for all processes and across restarts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from uuid import UUID

import asyncpg
from prometheus_client import Counter

from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Database, Transaction
from skein_kit.database.tx_options import TxOptions
from skein_kit.ids import now
from skein_kit.jobs.model import Grant, Job, JobKind, Progress

ITEMS = Counter("skein_job_items_total", "Items that jobs of tenants processed.", ["kind"])
WAITS = Counter(
    "skein_job_waits_total", "Batches that did not begin, because the tenant's job is paused or limited.", ["kind"]
)

# A crash of the server may lose the progress of the last moment; pauses and limits are committed by tenancy.
_OPTIONS = TxOptions(durable=False, plan_once=True, skip_replica=True)
_QUERIES = Queries.load("skein_kit")
_FIELDS = tuple(field.name for field in fields(Job))


@dataclass(slots=True)
class Batch:
    """A batch of a job. Its body sets `progress` as soon as it has done something."""

    grant: Grant
    # None: nothing was done, and the items are free again.
    progress: Progress | None = None


class JobStore:
    """Grants batches of jobs, and records their progress."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def batch(
        self, tenant_id: UUID, kind: JobKind, count: int, *, ignores_burst: bool = False
    ) -> AsyncIterator[Batch]:
        """Grant up to `count` items for the body, and record the progress that it sets.

        The items of a body that raises before it sets progress are free again, so a failure uses up no limit.
        `ignores_burst`: a rate grants all items at once, and later batches wait for that.
        """
        batch = Batch(await self.acquire(tenant_id, kind, count, ignores_burst=ignores_burst))
        try:
            yield batch
        finally:
            if batch.progress is not None:
                await self.settle(tenant_id, batch.grant, batch.progress)
            else:
                await self._release(tenant_id, batch.grant)

    async def acquire(
        self, tenant_id: UUID, kind: JobKind, count: int, *, item_cost: int = 1, ignores_burst: bool = False
    ) -> Grant:
        """Grant up to `count` items of a job: none while it is paused, or beyond its limits.

        Pass the grant to `settle` after the batch. `item_cost` is the expected cost of an item.
        """
        async with self._database.transaction(tenant_id, _OPTIONS) as tx:
            return await self.acquire_in(tx, tenant_id, kind, count, item_cost=item_cost, ignores_burst=ignores_burst)

    async def acquire_in(
        self,
        tx: Transaction,
        tenant_id: UUID,
        kind: JobKind,
        count: int,
        *,
        item_cost: int = 1,
        ignores_burst: bool = False,
    ) -> Grant:
        """Do the same in a transaction of the caller; its rollback returns the items."""
        job = _job(await tx.row(_QUERIES["read_job"], tenant_id=tenant_id, kind=kind))
        grant = Grant(kind=kind, count=count, item_cost=item_cost, job=job)
        if job is not None and (job.is_limited or job.pause_time is not None):
            locked = job if job.pause_time is not None else await lock_job(tx, tenant_id, kind)
            grant, after = locked.grant(count, now(), item_cost=item_cost, ignores_burst=ignores_burst)
            if grant.count:
                await _update(tx, tenant_id, after)
        if not grant.count:
            WAITS.labels(kind).inc()
        return grant

    async def report_in(self, tx: Transaction, tenant_id: UUID, kind: JobKind, progress: Progress) -> None:
        """Record what a client did with items that earlier calls granted; those stay taken from the limits."""
        ITEMS.labels(kind).inc(progress.done_count)
        job = await lock_job(tx, tenant_id, kind)
        grant = Grant(kind=kind, count=progress.done_count, job=job, is_reserved=job.is_limited, day_time=job.day_time)
        await _update(tx, tenant_id, job.settle(grant, progress, now()))

    async def report(self, tenant_id: UUID, kind: JobKind, progress: Progress) -> None:
        """Record what was done with items that earlier calls granted."""
        async with self._database.transaction(tenant_id, _OPTIONS) as tx:
            await self.report_in(tx, tenant_id, kind, progress)

    async def settle(self, tenant_id: UUID, grant: Grant, progress: Progress) -> None:
        """Record what a batch did. Nothing is written for a job that had, did and has nothing."""
        ITEMS.labels(grant.kind).inc(progress.done_count)
        was_idle = grant.job is None or not (grant.job.is_running or grant.is_reserved)
        if was_idle and not (progress.done_count or progress.has_more):
            return
        async with self._database.transaction(tenant_id, _OPTIONS) as tx:
            job = await lock_job(tx, tenant_id, grant.kind)
            await _update(tx, tenant_id, job.settle(grant, progress, now()))

    async def _release(self, tenant_id: UUID, grant: Grant) -> None:
        """Free the items of a batch that did nothing."""
        if grant.is_reserved and grant.count:
            async with self._database.transaction(tenant_id, _OPTIONS) as tx:
                job = await lock_job(tx, tenant_id, grant.kind)
                await _update(tx, tenant_id, job.release(grant, now()))

    async def finish(self, tenant_id: UUID, kind: JobKind) -> None:
        """Record that a job has nothing left, if it ran."""
        async with self._database.transaction(tenant_id, _OPTIONS) as tx:
            job = _job(await tx.row(_QUERIES["read_job"], tenant_id=tenant_id, kind=kind))
        if job is not None and job.is_running:
            await self.settle(tenant_id, Grant(kind=kind, count=0, job=job), Progress(done_count=0))


async def lock_job(tx: Transaction, tenant_id: UUID, kind: JobKind) -> Job:
    """Lock the row of a job, and insert it if it is missing."""
    job = _job(await tx.row(_QUERIES["lock_job"], tenant_id=tenant_id, kind=kind))
    if job is None:
        new = Job.create(kind, now())
        await tx.execute(
            _QUERIES["insert_job"],
            tenant_id=tenant_id,
            kind=kind,
            refill_time=new.refill_time,
            day_time=new.day_time,
        )
        job = _job(await tx.row(_QUERIES["lock_job"], tenant_id=tenant_id, kind=kind))
    return job or Job.create(kind, now())


def read_job(row: asyncpg.Record) -> Job:
    """Convert a row of `tenancy.jobs`."""
    return Job(**{name: row[name] for name in _FIELDS if name != "kind"}, kind=JobKind(row["kind"]))


def _job(row: asyncpg.Record | None) -> Job | None:
    return None if row is None else read_job(row)


async def _update(tx: Transaction, tenant_id: UUID, job: Job) -> None:
    query = _QUERIES["update_job_progress"]
    values = {name: getattr(job, name) for name in _FIELDS}
    await tx.execute(query, **{name: (values | {"tenant_id": tenant_id})[name] for name in query.parameters})
