"""Backfills: earlier messages that extractors read, newest first, as a job with a ceiling."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Database, Transaction
from skein_kit.ids import min_id_at
from skein_kit.jobs.model import MAX_COUNTED, Grant, JobKind, Progress
from skein_kit.jobs.store import JobStore
from skein_kit.policies.store import PolicyCache
from skein_session.errors import ExtractionOff
from skein_session.extractions.store import LEASE, MAX_LEASED, DueMessage, read_due, roles_of

_QUERIES = Queries.load("skein_session")
_FIRST, _LAST = UUID(int=0), UUID(int=2**128 - 1)
# Messages that one lease looks at, read or not.
_WINDOW = 2000


class BackfillStore:
    """Starts, leases and ends the backfill of a tenant."""

    def __init__(self, database: Database, policies: PolicyCache, jobs: JobStore) -> None:
        self._database = database
        self._policies = policies
        self._jobs = jobs

    async def start(
        self, tx: Transaction, tenant_id: UUID, *, since: datetime | None, max_count: int, at: datetime
    ) -> None:
        """Start a backfill, in place of one that is not done. Raises ExtractionOff."""
        if (await self._policies.get(tx, tenant_id)).extraction == "off":
            raise ExtractionOff
        first_id = _FIRST if since is None else min_id_at(since)
        await tx.execute(
            _QUERIES["put_backfill"], tenant_id=tenant_id, first_id=first_id, before_id=_LAST, count=max_count, at=at
        )

    async def show_started(self, tenant_id: UUID) -> None:
        """Show the job as running before its first batch, which counts what is left."""
        await self._jobs.finish(tenant_id, JobKind.EXTRACTION)
        await self._jobs.settle(
            tenant_id, Grant(kind=JobKind.EXTRACTION, count=0), Progress(done_count=0, has_more=True)
        )

    async def cancel(self, tx: Transaction, tenant_id: UUID) -> None:
        """End a backfill; none is no error."""
        await tx.execute(_QUERIES["delete_backfill"], tenant_id=tenant_id, create_time=None)

    async def show_ended(self, tenant_id: UUID) -> None:
        """Show that the job has nothing left."""
        await self._jobs.finish(tenant_id, JobKind.EXTRACTION)

    async def lease(self, tenant_id: UUID, extractor: str, *, at: datetime) -> list[DueMessage]:
        """Lease messages of the backfill that is due; none where there is none, or its job is paused or limited."""
        async with self._database.transaction(tenant_id) as tx:
            lease = {"tenant_id": tenant_id, "at": at, "lease_end_time": at + LEASE}
            backfill = await tx.row(_QUERIES["lease_backfill"], **lease)
            if backfill is None:
                return []
            create_time = backfill["create_time"]
            if backfill["leased_ids"]:
                # The extractor that had them ended before they were done.
                return await self._due(tx, tenant_id, backfill["leased_ids"], create_time)
            policy = await self._policies.get(tx, tenant_id)
            span = {"tenant_id": tenant_id, "first_id": backfill["first_id"], "before_id": backfill["before_id"]}
            unread = {**span, "roles": roles_of(policy), "extractor": extractor}
            is_over = policy.extraction == "off" or backfill["remaining_count"] <= 0
            rows = []
            if not is_over:
                count = min(MAX_LEASED, backfill["remaining_count"])
                rows = await tx.rows(_QUERIES["find_backfill_messages"], **unread, window=_WINDOW, count=count)
            if not rows and not is_over:
                skip = {**span, "window": _WINDOW, "create_time": create_time, "at": at}
                is_over = not await tx.execute(_QUERIES["skip_backfill_window"], **skip)
            if is_over:
                await tx.execute(_QUERIES["delete_backfill"], tenant_id=tenant_id, create_time=create_time)
        if is_over:
            await self.show_ended(tenant_id)
        if not rows:
            return []
        async with self._jobs.batch(tenant_id, JobKind.EXTRACTION, len(rows)) as batch:
            ids = [row["message_id"] for row in rows[: batch.grant.count]]
            async with self._database.transaction(tenant_id) as tx:
                await tx.execute(
                    _QUERIES["update_backfill_lease"],
                    tenant_id=tenant_id,
                    message_ids=ids,
                    due_time=at + (LEASE if ids else timedelta(seconds=batch.grant.retry_seconds)),
                    create_time=create_time,
                )
                due = await self._due(tx, tenant_id, ids, create_time)
                left_count = None
                if ids and batch.grant.begins_run:
                    count = min(MAX_COUNTED, backfill["remaining_count"])
                    counted = await tx.rows(
                        _QUERIES["find_backfill_messages"], **unread, window=MAX_COUNTED, count=count
                    )
                    left_count = len(counted) - len(ids)
            if ids:
                batch.progress = Progress(done_count=len(ids), remaining_count=left_count, has_more=True)
        return due

    async def _due(
        self, tx: Transaction, tenant_id: UUID, message_ids: Sequence[UUID], change_time: datetime
    ) -> list[DueMessage]:
        # The time of the backfill: a repeated read makes the same requests.
        queued = [{"message_id": id_, "kind": "changed", "change_time": change_time} for id_ in message_ids]
        return await read_due(tx, tenant_id, queued, await self._policies.get(tx, tenant_id))
