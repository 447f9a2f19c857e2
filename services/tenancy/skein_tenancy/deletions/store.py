"""Deletions in the database. Methods that take `tx` work in the caller's transaction, an operator's."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

import asyncpg

from skein_kit.database.named_queries import Query
from skein_kit.database.tenant_purge import purge_tenant_rows
from skein_kit.database.transactions import Database, Transaction, translate_constraint_errors
from skein_kit.errors import TenantNotDeleted
from skein_kit.ids import new_id, now
from skein_tenancy.deletions.model import CANCELLED, DONE, PURGING, Deletion, DeletionProgress, DeletionRequest
from skein_tenancy.errors import (
    DeletionStarted,
    OrganizationExists,
    OrganizationNotEmpty,
    TenantExists,
    TenantNotFound,
)
from skein_tenancy.queries import QUERIES
from skein_tenancy.rows import require_row

# Tenants of an organization that one transaction deletes.
TENANTS_PER_BATCH = 100
# Children before parents. The tenant's own row is purged when its deletion finishes; the deletion's report stays.
_TENANT_TABLES: Mapping[str, Query] = {
    "tenancy.space_grants": QUERIES["purge_space_grants"],
    "tenancy.space_bindings": QUERIES["purge_space_bindings"],
    "tenancy.spaces": QUERIES["purge_spaces"],
    "tenancy.memberships": QUERIES["purge_memberships"],
    "tenancy.invitations": QUERIES["purge_invitations"],
    "tenancy.subject_properties": QUERIES["purge_subject_properties"],
    "tenancy.subjects": QUERIES["purge_subjects"],
    "tenancy.subjects_history": QUERIES["purge_subjects_history"],
    "tenancy.agent_tools": QUERIES["purge_agent_tools"],
    "tenancy.agents": QUERIES["purge_agents"],
    "tenancy.tools": QUERIES["purge_tools"],
    "tenancy.policies": QUERIES["purge_policies"],
    "tenancy.policies_history": QUERIES["purge_policies_history"],
    "tenancy.quotas": QUERIES["purge_limits"],
    "tenancy.usage": QUERIES["purge_usage"],
    "tenancy.collected_usage": QUERIES["purge_collected_usage"],
    "tenancy.rate_limit_buckets": QUERIES["purge_rate_limits"],
    "tenancy.jobs": QUERIES["purge_jobs"],
    "tenancy.requests": QUERIES["purge_requests"],
}


class DeletionStore:
    """Deletions of tenants and organizations, and the purge of what they had."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def delete_tenant(self, tx: Transaction, tenant_id: UUID, request: DeletionRequest) -> Deletion:
        """Raises TenantNotFound."""
        at = now()
        row = require_row(
            await tx.row(QUERIES["delete_tenant"], tenant_id=tenant_id, purge_time=at + request.grace, update_time=at),
            TenantNotFound,
        )
        return await _insert_deletion(tx, row, request, at)

    async def undelete_tenant(self, tx: Transaction, tenant_id: UUID) -> Deletion:
        """Undelete a tenant and, if it is deleted, its organization.

        Raises TenantNotFound, DeletionStarted, and TenantExists or OrganizationExists when a slug is taken by now.
        """
        deletion = await _lock_deletion(tx, tenant_id)
        if deletion is None or deletion.state in (DONE, CANCELLED):
            raise TenantNotFound
        if deletion.state == PURGING:
            raise DeletionStarted
        at = now()
        errors = {"tenants_slug_key": TenantExists(), "organizations_slug_key": OrganizationExists()}
        with translate_constraint_errors(errors):
            await tx.execute(QUERIES["undelete_organization"], organization_id=deletion.organization_id, update_time=at)
            await tx.execute(QUERIES["undelete_tenant"], tenant_id=tenant_id, update_time=at)
        return await _update_deletion(
            tx,
            deletion,
            state=CANCELLED,
            stage="",
            deleted_counts=deletion.deleted_counts,
            finish_time=at,
            is_certified=False,
        )

    async def get_deletion(self, tenant_id: UUID) -> Deletion:
        """Read the last deletion of a tenant. Raises TenantNotFound."""
        async with self._database.operator_transaction() as tx:
            row = await tx.row(QUERIES["get_deletion"], tenant_id=tenant_id)
        return Deletion(**require_row(row, TenantNotFound))

    async def list_deletions(self, *, before: UUID | None, size: int) -> list[Deletion]:
        """Read deletions, newest first."""
        async with self._database.operator_transaction() as tx:
            rows = await tx.rows(QUERIES["list_deletions"], before=before, size=size)
        return [Deletion(**row) for row in rows]

    async def list_due_deletions(
        self, at: datetime, *, after: tuple[datetime, UUID] | None, size: int
    ) -> list[Deletion]:
        """Read uncertified deletions whose grace is over, the oldest first, from after this purge time and deletion."""
        after_time, after_id = after or (None, None)
        async with self._database.operator_transaction() as tx:
            rows = await tx.rows(
                QUERIES["list_due_deletions"], at=at, after_time=after_time, after_id=after_id, size=size
            )
        return [Deletion(**row) for row in rows]

    async def record_progress(self, tenant_id: UUID, progress: DeletionProgress) -> Deletion:
        """Add progress to a report. Raises TenantNotDeleted.

        The finish removes the tenant's row and, with the last tenant, the row of a deleted organization.
        """
        async with self._database.operator_transaction() as tx:
            deletion = await _lock_deletion(tx, tenant_id)
            if deletion is None:
                raise TenantNotDeleted
            updated_deletion = await _update_deletion(tx, deletion, **deletion.apply(progress, now()))
            if progress.is_finished:
                # When the last two tenants finish at once, the second sees that the first is gone.
                await tx.value(QUERIES["lock_organization_any"], organization_id=deletion.organization_id)
                # Calls in flight may have added rows since the last batch: they go with the tenant.
                await tx.stop_history()
                await tx.execute(QUERIES["purge_tenant_row"], tenant_id=tenant_id)
                await tx.execute(QUERIES["purge_organization_row"], organization_id=deletion.organization_id)
            return updated_deletion

    async def purge_tenant(self, tenant_id: UUID, limit: int) -> tuple[dict[str, int], bool]:
        """Remove up to `limit` rows of a deleted tenant; return rows by table, and whether more may remain."""
        return await purge_tenant_rows(self._database, tenant_id, _TENANT_TABLES, limit)

    async def lock_organization(self, tx: Transaction, organization_id: UUID) -> bool:
        """Lock an organization; return False when it is deleted or does not exist."""
        return await tx.row(QUERIES["lock_organization"], organization_id=organization_id) is not None

    async def delete_tenants(self, tx: Transaction, organization_id: UUID, request: DeletionRequest) -> int:
        """Delete up to TENANTS_PER_BATCH tenants of an organization; return how many."""
        at = now()
        rows = await tx.rows(
            QUERIES["delete_tenants"],
            organization_id=organization_id,
            count=TENANTS_PER_BATCH,
            purge_time=at + request.grace,
            update_time=at,
        )
        for row in rows:
            await _insert_deletion(tx, row, request, at)
        return len(rows)

    async def delete_organization(self, tx: Transaction, organization_id: UUID, *, with_report: bool) -> list[Deletion]:
        """Delete a locked organization; return the open deletions of its tenants, none without a report.

        Raises OrganizationNotEmpty.
        """
        if await tx.value(QUERIES["organization_has_tenants"], organization_id=organization_id):
            raise OrganizationNotEmpty
        await tx.execute(QUERIES["delete_organization"], organization_id=organization_id, update_time=now())
        await tx.execute(QUERIES["purge_organization_row"], organization_id=organization_id)
        if not with_report:
            return []
        rows = await tx.rows(QUERIES["list_organization_deletions"], organization_id=organization_id)
        return [Deletion(**row) for row in rows]


async def _lock_deletion(tx: Transaction, tenant_id: UUID) -> Deletion | None:
    row = await tx.row(QUERIES["lock_deletion"], tenant_id=tenant_id)
    return None if row is None else Deletion(**row)


async def _insert_deletion(tx: Transaction, tenant: asyncpg.Record, request: DeletionRequest, at: datetime) -> Deletion:
    row = await tx.row(
        QUERIES["create_deletion"],
        tenant_id=tenant["tenant_id"],
        deletion_id=new_id(at),
        organization_id=tenant["organization_id"],
        create_time=at,
        purge_time=at + request.grace,
        created_by=request.created_by,
    )
    return Deletion(**require_row(row))


async def _update_deletion(tx: Transaction, deletion: Deletion, **values: object) -> Deletion:
    row = await tx.row(
        QUERIES["update_deletion"], tenant_id=deletion.tenant_id, deletion_id=deletion.deletion_id, **values
    )
    return Deletion(**require_row(row))
