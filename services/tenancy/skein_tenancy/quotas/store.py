"""Quotas and usage in the database. Methods that take `tx` work in the caller's transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

import asyncpg

from skein_kit.database.transactions import Database, Transaction
from skein_kit.errors import QuotaExceeded
from skein_kit.ids import now
from skein_kit.quotas.store import DEFAULT_LIMITS
from skein_tenancy.errors import OrganizationNotFound
from skein_tenancy.queries import QUERIES
from skein_tenancy.quotas.model import COUNTED_KINDS, RATE_KINDS, TENANTS, OrganizationUsage, Quota, QuotaChange, Usage
from skein_tenancy.rows import check_revision

_MARK_COLLECTED = [
    QUERIES["mark_auth_usage_collected"],
    QUERIES["mark_tenancy_usage_collected"],
    QUERIES["mark_session_usage_collected"],
    QUERIES["mark_memory_usage_collected"],
]


class QuotaStore:
    """Limits and usage of tenants and organizations."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get_quota(self, tenant_id: UUID) -> Quota:
        """Read the limits that were set for a tenant itself."""
        async with self._database.transaction(tenant_id) as tx:
            return _quota(await tx.rows(QUERIES["list_tenant_limits"], tenant_id=tenant_id))

    async def get_organization_quota(self, organization_id: UUID) -> Quota:
        """Raises OrganizationNotFound."""
        async with self._database.operator_transaction() as tx:
            await _require_organization(tx, organization_id)
            return _quota(await tx.rows(QUERIES["list_organization_limits"], organization_id=organization_id))

    async def update_quota(self, tx: Transaction, tenant_id: UUID, change: QuotaChange) -> Quota:
        """Set limits of a tenant, whose rows the transaction sees. Raises RevisionStale."""
        revision = _next_revision(change, await tx.rows(QUERIES["lock_limits"], tenant_id=tenant_id))
        rows = [
            {"kind": kind, "max_amount": limit, "revision": revision, "update_time": now()}
            for kind, limit in change.limits.items()
        ]
        await tx.insert(QUERIES["set_limit"], tenant_id, rows)
        return _quota(await tx.rows(QUERIES["list_tenant_limits"], tenant_id=tenant_id))

    async def update_organization_quota(self, tx: Transaction, organization_id: UUID, change: QuotaChange) -> Quota:
        """Set limits of an organization and the remaining limits of its tenants, in an operator's transaction.

        Raises OrganizationNotFound and RevisionStale.
        """
        await _require_organization(tx, organization_id)
        locked_rows = await tx.rows(QUERIES["lock_organization_limits"], organization_id=organization_id)
        revision, at = _next_revision(change, locked_rows), now()
        for kind, limit in change.limits.items():
            await tx.execute(
                QUERIES["set_organization_limit"],
                organization_id=organization_id,
                kind=kind,
                max_amount=limit,
                revision=revision,
                update_time=at,
            )
        quota = _quota(await tx.rows(QUERIES["list_organization_limits"], organization_id=organization_id))
        await _distribute_limits(tx, organization_id, quota.limits, at)
        return quota

    async def get_usage(self, tenant_id: UUID) -> list[Usage]:
        """Count what a tenant has now."""
        async with self._database.transaction(tenant_id) as tx:
            return _usage(await tx.rows(QUERIES["read_usage"], tenant_id=tenant_id))

    async def get_organization_usage(self, organization_id: UUID) -> OrganizationUsage:
        """Sum up the usage collected last of each tenant. Raises OrganizationNotFound."""
        async with self._database.operator_transaction() as tx:
            await _require_organization(tx, organization_id)
            rows = await tx.rows(QUERIES["read_organization_usage"], organization_id=organization_id)
            limits = _limits(await tx.rows(QUERIES["list_organization_limits"], organization_id=organization_id))
        used = {row["kind"]: row["used"] for row in rows}
        return OrganizationUsage(
            usage=[
                Usage(kind=kind, used=used.get(kind, 0), limit=limits.get(kind)) for kind in (TENANTS, *COUNTED_KINDS)
            ],
            collect_time=min((row["collect_time"] for row in rows), default=None),
        )

    async def collect_usage(self, tenant_id: UUID) -> list[Usage]:
        """Save a tenant's usage for the sums of its organization, and update its remaining limits."""
        at = now()
        async with self._database.transaction(tenant_id) as tx:
            # Before the amounts are read: one that changes later is marked as not collected.
            for query in _MARK_COLLECTED:
                await tx.execute(query, tenant_id=tenant_id)
            usage = _usage(await tx.rows(QUERIES["read_usage"], tenant_id=tenant_id))
            rows = [{"kind": item.kind, "amount": item.used, "collect_time": at} for item in usage]
            rows.append({"kind": TENANTS, "amount": 1, "collect_time": at})
            await tx.insert(QUERIES["collect_usage"], tenant_id, rows)
        async with self._database.operator_transaction() as tx:
            organization_id = await tx.value(QUERIES["get_organization_of_tenant"], tenant_id=tenant_id)
            limits = _limits(await tx.rows(QUERIES["list_organization_limits"], organization_id=organization_id))
            used_by_others = await _used_by_others(tx, organization_id, tenant_id) if limits else {}
            await _set_remaining_limits(tx, tenant_id, limits, used_by_others, at)
        return usage

    async def check_tenant_quota(self, tx: Transaction, organization_id: UUID, tenant_id: UUID) -> None:
        """Check the number of an organization's tenants, and set the remaining limits of a new one.

        The new tenant is inserted already, in the same operator's transaction. Raises QuotaExceeded.
        """
        limits = _limits(await tx.rows(QUERIES["lock_organization_limits"], organization_id=organization_id))
        if not limits:
            return
        max_tenants = limits.get(TENANTS)
        if max_tenants is not None:
            tenants = await tx.rows(QUERIES["list_tenant_ids_of_organization"], organization_id=organization_id)
            if len(tenants) > max_tenants:
                raise QuotaExceeded(kind=TENANTS, limit=max_tenants)
        used_by_others = await _used_by_others(tx, organization_id, tenant_id)
        await _set_remaining_limits(tx, tenant_id, limits, used_by_others, now())


async def _used_by_others(tx: Transaction, organization_id: UUID, tenant_id: UUID) -> dict[str, int]:
    rows = await tx.rows(QUERIES["read_usage_of_others"], organization_id=organization_id, tenant_id=tenant_id)
    return {row["kind"]: row["used"] for row in rows}


async def _distribute_limits(tx: Transaction, organization_id: UUID, limits: Mapping[str, int], at: datetime) -> None:
    """Set the remaining limits of each tenant of an organization."""
    tenants = await tx.rows(QUERIES["list_tenant_ids_of_organization"], organization_id=organization_id)
    used_by_tenant: dict[UUID, dict[str, int]] = defaultdict(dict)
    total: dict[str, int] = defaultdict(int)
    for row in await tx.rows(QUERIES["list_collected_usage"], organization_id=organization_id):
        used_by_tenant[row["tenant_id"]][row["kind"]] = row["amount"]
        total[row["kind"]] += row["amount"]
    for row in tenants:
        used = used_by_tenant[row["tenant_id"]]
        used_by_others = {kind: amount - used.get(kind, 0) for kind, amount in total.items()}
        await _set_remaining_limits(tx, row["tenant_id"], limits, used_by_others, at)


async def _set_remaining_limits(
    tx: Transaction, tenant_id: UUID, limits: Mapping[str, int], used_by_others: Mapping[str, int], at: datetime
) -> None:
    """Set a tenant's share of its organization's limits: counted kinds less the others' usage, rates in full."""
    rows = [
        {
            "kind": kind,
            "max_organization_amount": limit if kind in RATE_KINDS else max(0, limit - used_by_others.get(kind, 0)),
            "update_time": at,
        }
        for kind, limit in limits.items()
        if kind != TENANTS
    ]
    await tx.insert(QUERIES["set_organization_share"], tenant_id, rows)
    await tx.execute(QUERIES["clear_organization_share"], tenant_id=tenant_id, kinds=[row["kind"] for row in rows])


async def _require_organization(tx: Transaction, organization_id: UUID) -> None:
    if await tx.value(QUERIES["find_organization"], organization_id=organization_id) is None:
        raise OrganizationNotFound


def _next_revision(change: QuotaChange, locked_rows: Sequence[asyncpg.Record]) -> int:
    """Return the revision after a change. Raises RevisionStale."""
    current = _quota(locked_rows).revision
    check_revision(change.revision, current)
    return current + 1


def _quota(rows: Sequence[asyncpg.Record]) -> Quota:
    """Read a quota from its rows; the removal of a limit leaves a row without one."""
    return Quota(
        limits=_limits(rows),
        revision=max((row["revision"] for row in rows), default=0),
        update_time=max((row["update_time"] for row in rows), default=None),
    )


def _limits(rows: Sequence[asyncpg.Record]) -> dict[str, int]:
    return {row["kind"]: row["max_amount"] for row in rows if row["max_amount"] is not None}


def _usage(rows: Sequence[asyncpg.Record]) -> list[Usage]:
    """Return the usage of every counted kind; a kind without a row has nothing and no limit of the tenant."""
    used = {row["kind"]: row["used"] for row in rows}
    limits = {**DEFAULT_LIMITS, **_limits(rows)}
    return [Usage(kind=kind, used=used.get(kind, 0), limit=limits.get(kind)) for kind in COUNTED_KINDS]
