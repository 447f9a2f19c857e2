"""Limits, usage and allowances in the database."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from skein.tenancy.v1 import limits_pb2 as pb
from skein_kit.database.transactions import NO_TENANT
from skein_kit.errors import QuotaExceeded, RevisionStale
from skein_kit.ids import now
from skein_tenancy import convert as wire
from skein_tenancy.errors import OrganizationNotFound
from skein_tenancy.queries import QUERIES
from skein_tenancy.quotas import model as quotas
from skein_tenancy.store_base import StoreBase, require_row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    import asyncpg

    from skein_kit.database.transactions import Transaction
    from skein_kit.idempotency.store import IdempotencyKey


class QuotaStore(StoreBase):
    """What tenants and organizations may have at most, what they have, and which calls they have left."""

    async def get_quota(self, tenant_id: UUID) -> pb.Quota:
        async with self._database.tenant(tenant_id) as tx:
            return wire.quota(await tx.rows(QUERIES["list_tenant_limits"], tenant_id=tenant_id))

    async def get_organization_quota(self, organization_id: UUID) -> pb.Quota:
        async with self._database.operator() as tx:
            await _must_exist(tx, organization_id)
            rows = await tx.rows(QUERIES["list_organization_limits"], organization_id=organization_id)
        return wire.quota(rows)

    async def update_quota(
        self, tenant_id: UUID, change: quotas.QuotaChange, once: IdempotencyKey
    ) -> pb.UpdateQuotaResponse:
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.UpdateQuotaResponse.FromString(first)
            revision = _next_revision(change, await tx.rows(QUERIES["lock_limits"], tenant_id=tenant_id))
            rows = [
                {"kind": kind, "most": most, "revision": revision, "update_time": now()}
                for kind, most in change.limits.items()
            ]
            await tx.insert(QUERIES["set_limit"], tenant_id, rows)
            quota = wire.quota(await tx.rows(QUERIES["list_tenant_limits"], tenant_id=tenant_id))
            response = pb.UpdateQuotaResponse(quota=quota)
            await self._answer(tx, tenant_id, once, response)
            return response

    async def update_organization_quota(
        self, organization_id: UUID, change: quotas.QuotaChange, once: IdempotencyKey
    ) -> pb.UpdateQuotaResponse:
        """Set limits of an organization, and what they leave to each of its tenants."""
        async with self._database.operator() as tx:
            if (first := await self._requests.claim(tx, NO_TENANT, once)) is not None:
                return pb.UpdateQuotaResponse.FromString(first)
            await _must_exist(tx, organization_id)
            locked = await tx.rows(QUERIES["lock_organization_limits"], organization_id=organization_id)
            revision, at = _next_revision(change, locked), now()
            for kind, most in change.limits.items():
                await tx.execute(
                    QUERIES["set_organization_limit"],
                    organization_id=organization_id,
                    kind=kind,
                    most=most,
                    revision=revision,
                    update_time=at,
                )
            rows = await tx.rows(QUERIES["list_organization_limits"], organization_id=organization_id)
            await _distribute_limits(tx, organization_id, _limits(rows), at)
            response = pb.UpdateQuotaResponse(quota=wire.quota(rows))
            await self._answer(tx, NO_TENANT, once, response)
            return response

    async def get_usage(self, tenant_id: UUID) -> Sequence[pb.Usage]:
        """Read what a tenant has now."""
        async with self._database.tenant(tenant_id) as tx:
            return _usage(await tx.rows(QUERIES["read_usage"], tenant_id=tenant_id))

    async def get_organization_usage(self, organization_id: UUID) -> pb.GetUsageResponse:
        async with self._database.operator() as tx:
            await _must_exist(tx, organization_id)
            used = await tx.rows(QUERIES["read_organization_usage"], organization_id=organization_id)
            limits = _limits(await tx.rows(QUERIES["list_organization_limits"], organization_id=organization_id))
        return wire.organization_usage(used, limits)

    async def collect_usage(self, tenant_id: UUID) -> Sequence[pb.Usage]:
        """Bring up to date what an organization's quota sees of a tenant, and what it leaves to the tenant."""
        at = now()
        async with self._database.tenant(tenant_id) as tx:
            usage = _usage(await tx.rows(QUERIES["read_usage"], tenant_id=tenant_id))
            rows = [{"kind": one.kind, "amount": one.used, "collect_time": at} for one in usage]
            rows.append({"kind": quotas.TENANTS, "amount": 1, "collect_time": at})
            await tx.insert(QUERIES["collect_usage"], tenant_id, rows)
        async with self._database.operator() as tx:
            organization_id = await tx.value(QUERIES["organization_of"], tenant_id=tenant_id)
            limits = _limits(await tx.rows(QUERIES["list_organization_limits"], organization_id=organization_id))
            used = {}
            if limits:
                others = await tx.rows(
                    QUERIES["read_usage_of_others"], organization_id=organization_id, tenant_id=tenant_id
                )
                used = {row["kind"]: row["used"] for row in others}
            await _set_remaining_limits(tx, tenant_id, limits, used, at)
        return usage

    async def lease_requests(
        self, tenant_id: UUID | None, caller: str, wanted: tuple[int, int], defaults: quotas.DefaultRateLimits
    ) -> pb.LeaseRequestsResponse:
        """Take from the allowances of a tenant and of a caller as many calls as are `wanted` of each."""
        whose = tenant_id or NO_TENANT
        async with self._database.tenant(whose, lasting=False, plans_again=False) as tx:
            limits = {}
            if tenant_id is not None:
                rows = await tx.rows(QUERIES["list_rates"], tenant_id=tenant_id, kinds=list(quotas.RATES))
                limits = {row["kind"]: row["most"] for row in rows}
            of_tenant, of_caller = defaults.of_tenant(limits), defaults.of_caller(limits)
            at = now()
            # Without a tenant there is no allowance of its own. The tenant's row comes first, for everybody.
            tenants = quotas.RateLease(count=0)
            if tenant_id is not None:
                tenants = await _lease(tx, tenant_id, "", of_tenant, wanted[0], at)
            callers = await _lease(tx, whose, caller, of_caller, wanted[1], at)
        return wire.rate_lease(tenants, callers, of_tenant, of_caller)

    async def delete_idle(self, tenant_id: UUID, at: datetime) -> int:
        """Forget the allowances that nobody has asked for a day; return how many."""
        async with self._database.tenant(tenant_id) as tx:
            return await tx.execute(
                QUERIES["delete_idle_allowances"], tenant_id=tenant_id, idle_since=at - quotas.IDLE_BUCKET_AGE
            )


async def check_tenant_quota(tx: Transaction, organization_id: UUID, tenant_id: UUID) -> None:
    """Count a new tenant among those of its organization, and bind it to what the organization leaves.

    Raises QuotaExceeded. The transaction sees the directory.
    """
    limits = _limits(await tx.rows(QUERIES["lock_organization_limits"], organization_id=organization_id))
    if not limits:
        return
    most = limits.get(quotas.TENANTS)
    # The new one is among them.
    if most is not None:
        tenants = await tx.rows(QUERIES["tenant_ids_of_organization"], organization_id=organization_id)
        if len(tenants) > most:
            raise QuotaExceeded(kind=quotas.TENANTS, limit=most)
    used = await tx.rows(QUERIES["read_usage_of_others"], organization_id=organization_id, tenant_id=tenant_id)
    await _set_remaining_limits(tx, tenant_id, limits, {row["kind"]: row["used"] for row in used}, now())


async def _lease(
    tx: Transaction, tenant_id: UUID, caller: str, allowance: quotas.RateLimit, wanted: int, at: datetime
) -> quotas.RateLease:
    if not wanted:
        return quotas.RateLease(count=0)
    hour = at.replace(minute=0, second=0, microsecond=0)
    day = hour.replace(hour=0)
    row = require_row(
        await tx.row(
            QUERIES["lease_requests"],
            tenant_id=tenant_id,
            caller=caller,
            wanted=allowance.chunk(wanted),
            rate=allowance.rate,
            burst=allowance.burst,
            hour_most=allowance.hour_most,
            day_most=allowance.day_most,
            at=at,
            hour_time=hour,
            day_time=day,
        )
    )
    since = ((at - hour).total_seconds(), (at - day).total_seconds())
    return quotas.rate_lease(
        allowance,
        count=row["granted"],
        tokens=row["tokens"],
        hour_count=row["hour_count"],
        day_count=row["day_count"],
        until=(3600 - since[0], 86400 - since[1]),
    )


async def _distribute_limits(tx: Transaction, organization_id: UUID, limits: Mapping[str, int], at: datetime) -> None:
    """Set what an organization's limits leave to each of its tenants."""
    tenants = await tx.rows(QUERIES["tenant_ids_of_organization"], organization_id=organization_id)
    collected: dict[UUID, dict[str, int]] = defaultdict(dict)
    total: dict[str, int] = defaultdict(int)
    for row in await tx.rows(QUERIES["list_collected_usage"], organization_id=organization_id):
        collected[row["tenant_id"]][row["kind"]] = row["amount"]
        total[row["kind"]] += row["amount"]
    for row in tenants:
        own = collected[row["tenant_id"]]
        others = {kind: amount - own.get(kind, 0) for kind, amount in total.items()}
        await _set_remaining_limits(tx, row["tenant_id"], limits, others, at)


async def _set_remaining_limits(
    tx: Transaction, tenant_id: UUID, limits: Mapping[str, int], others: Mapping[str, int], at: datetime
) -> None:
    """Set what an organization's limits leave to a tenant when the others have so much; a rate is each tenant's own."""
    rows = [
        {
            "kind": kind,
            "organization_most": most if kind in quotas.RATES else max(0, most - others.get(kind, 0)),
            "update_time": at,
        }
        for kind, most in limits.items()
        if kind != quotas.TENANTS
    ]
    await tx.insert(QUERIES["leave_room"], tenant_id, rows)
    await tx.execute(QUERIES["free_room"], tenant_id=tenant_id, kinds=[row["kind"] for row in rows])


async def _must_exist(tx: Transaction, organization_id: UUID) -> None:
    if await tx.value(QUERIES["find_organization"], organization_id=organization_id) is None:
        raise OrganizationNotFound


def _next_revision(change: quotas.QuotaChange, locked: Sequence[asyncpg.Record]) -> int:
    """Return the revision that a change makes, or refuse one of another revision."""
    current = max((row["revision"] for row in locked), default=0)
    if change.revision not in (0, current):
        raise RevisionStale(given=change.revision, current=current)
    return int(current) + 1


def _limits(rows: Sequence[asyncpg.Record]) -> dict[str, int]:
    return {row["kind"]: row["most"] for row in rows if row["most"] is not None}


def _usage(rows: Sequence[asyncpg.Record]) -> Sequence[pb.Usage]:
    by_kind = {row["kind"]: row for row in rows}
    return [wire.usage(kind, by_kind.get(kind)) for kind in quotas.COUNTED_KINDS]
