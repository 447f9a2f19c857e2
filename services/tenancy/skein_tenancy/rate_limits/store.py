"""Rate limits in the database: one bucket for each tenant and for each caller."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from skein_kit.database.transactions import NO_TENANT, Database, Transaction
from skein_kit.database.tx_options import TxOptions
from skein_kit.ids import now
from skein_tenancy.queries import QUERIES
from skein_tenancy.quotas.model import RATE_KINDS
from skein_tenancy.rate_limits.model import (
    IDLE_BUCKET_AGE,
    MAX_CLOCK_LEAD,
    Bucket,
    DefaultRateLimits,
    RateLease,
    RateLimit,
    RequestLease,
)
from skein_tenancy.rows import require_row


class RateLimitStore:
    """Buckets of calls."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def lease_requests(
        self,
        tenant_id: UUID | None,
        caller: str,
        *,
        tenant_count: int,
        caller_count: int,
        defaults: DefaultRateLimits,
    ) -> RequestLease:
        """Take up to so many calls from the buckets of a tenant and of a caller (a principal).

        A caller without a tenant has its own bucket only. The commit does not wait for the disk: a crash may return
        the calls of the last moment.
        """
        owner_id = tenant_id or NO_TENANT
        async with self._database.transaction(owner_id, TxOptions(durable=False, plan_once=True)) as tx:
            limits = {}
            if tenant_id is not None:
                rows = await tx.rows(QUERIES["list_rates"], tenant_id=tenant_id, kinds=list(RATE_KINDS))
                limits = {row["kind"]: row["max_amount"] for row in rows}
            tenant_limit, caller_limit = defaults.of_tenant(limits), defaults.of_caller(limits)
            at = now()
            tenant_lease = RateLease()
            # Every transaction locks the tenant's bucket before a caller's, so none deadlock.
            if tenant_id is not None:
                tenant_lease = await _acquire(tx, tenant_id, "", tenant_limit, tenant_count, at)
            caller_lease = await _acquire(tx, owner_id, caller, caller_limit, caller_count, at)
        return RequestLease(
            tenant=tenant_lease, caller=caller_lease, tenant_limit=tenant_limit, caller_limit=caller_limit
        )

    async def delete_idle_buckets(self, tenant_id: UUID, at: datetime) -> int:
        """Delete the tenant's buckets that were not used for IDLE_BUCKET_AGE; return how many."""
        async with self._database.transaction(tenant_id) as tx:
            return await tx.execute(
                QUERIES["delete_idle_rate_limits"], tenant_id=tenant_id, idle_since=at - IDLE_BUCKET_AGE
            )


async def _acquire(
    tx: Transaction, tenant_id: UUID, caller: str, limit: RateLimit, requested_count: int, at: datetime
) -> RateLease:
    if not requested_count:
        return RateLease()
    hour = at.replace(minute=0, second=0, microsecond=0)
    day = hour.replace(hour=0)
    row = require_row(
        await tx.row(
            QUERIES["acquire_rate_limit"],
            tenant_id=tenant_id,
            caller=caller,
            requested=limit.lease_size(requested_count),
            rate=limit.rate,
            burst=limit.burst,
            max_per_hour=limit.max_per_hour,
            max_per_day=limit.max_per_day,
            at=at,
            max_refill_time=at + MAX_CLOCK_LEAD,
            hour_time=hour,
            day_time=day,
        )
    )
    bucket = Bucket(
        tokens=row["tokens"],
        hour_count=row["hour_count"],
        day_count=row["day_count"],
        hour_remaining_seconds=(hour + timedelta(hours=1) - at).total_seconds(),
        day_remaining_seconds=(day + timedelta(days=1) - at).total_seconds(),
    )
    return RateLease.create(limit, row["leased"], bucket)
