"""Tenants in the database. Methods that take `tx` work in the caller's transaction."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import datetime
from uuid import UUID

import asyncpg

from skein_kit.canary import ORGANIZATION
from skein_kit.database.transactions import NO_TENANT, Database, Transaction, translate_constraint_errors
from skein_kit.errors import QuotaExceeded
from skein_kit.ids import new_id, now
from skein_tenancy.directory.model import DirectoryChange
from skein_tenancy.errors import OrganizationNotFound, TenantExists, TenantNotFound
from skein_tenancy.members.model import OWNER, NewMember
from skein_tenancy.members.store import MemberStore
from skein_tenancy.queries import QUERIES
from skein_tenancy.quotas.store import QuotaStore
from skein_tenancy.rows import check_revision, require_row
from skein_tenancy.tenants.model import DirectoryScope, Tenant, TenantDraft


class TenantStore:
    """Tenants."""

    def __init__(self, database: Database, members: MemberStore, quotas: QuotaStore) -> None:
        self._database = database
        self._members = members
        self._quotas = quotas

    async def create_tenant(
        self, tx: Transaction, draft: TenantDraft, owner: NewMember | None, *, max_owned: int
    ) -> Tenant:
        """Create a tenant with the first free slug, in an operator's transaction; `add_owner` then adds the owner.

        An account that creates one for itself owns `max_owned` at most.
        Raises OrganizationNotFound, TenantExists and QuotaExceeded.
        """
        organization_id = await tx.value(
            QUERIES["share_organization"],
            organization_id=draft.organization_id,
            slug=draft.organization_slug,
            canary_organization_id=ORGANIZATION,
        )
        if organization_id is None:
            raise OrganizationNotFound
        if draft.is_self_service and owner is not None:
            await _check_owned_tenants(tx, owner.account_id, max_owned)
        row = await _insert_tenant(tx, organization_id, draft, now())
        await self._quotas.check_tenant_quota(tx, organization_id, row["tenant_id"])
        tenant = Tenant(**row)
        return replace(tenant, role=OWNER) if draft.is_self_service else tenant

    async def add_owner(self, tx: Transaction, tenant_id: UUID, owner: NewMember) -> None:
        """Add the owner of a new tenant, in the operator's transaction that made the tenant."""
        await tx.set_tenant(tenant_id)
        await self._members.add_member(tx, tenant_id, owner)
        await tx.set_tenant(NO_TENANT)

    async def get_tenant(self, tenant_id: UUID, *, scope: DirectoryScope) -> Tenant:
        """Raises TenantNotFound."""
        scope.require_visible(tenant_id)
        async with self._transaction_for(scope) as tx:
            if scope.account_id is None:
                row = await tx.row(QUERIES["get_tenant"], tenant_id=tenant_id)
            else:
                row = await tx.row(QUERIES["get_tenant_of_account"], tenant_id=tenant_id, account_id=scope.account_id)
        return Tenant(**require_row(row, TenantNotFound))

    async def list_tenants(
        self, *, scope: DirectoryScope, organization_id: UUID | None, before: UUID | None, size: int
    ) -> list[Tenant]:
        """Read tenants, newest first: of any organization, or of one."""
        page = {
            "visible_tenant_id": scope.tenant_id,
            "organization_id": organization_id,
            "before": before,
            "size": size,
        }
        async with self._transaction_for(scope) as tx:
            if scope.account_id is None:
                # The canary's tenants show up when their organization is named.
                hidden_organization_id = ORGANIZATION if scope.hides_canary and organization_id is None else None
                rows = await tx.rows(QUERIES["list_tenants"], hidden_organization_id=hidden_organization_id, **page)
            else:
                rows = await tx.rows(QUERIES["list_tenants_of_account"], account_id=scope.account_id, **page)
        return [Tenant(**row) for row in rows]

    async def update_tenant(self, tx: Transaction, change: DirectoryChange) -> Tenant:
        """Raises TenantNotFound, TenantExists and RevisionStale."""
        current = require_row(await tx.row(QUERIES["lock_tenant"], tenant_id=change.row_id), TenantNotFound)
        check_revision(change.revision, current["revision"])
        with translate_constraint_errors({"tenants_slug_key": TenantExists()}):
            row = await tx.row(
                QUERIES["update_tenant"],
                tenant_id=change.row_id,
                display_name=change.values.get("display_name", current["display_name"]),
                slug=change.values.get("slug", current["slug"]),
                metadata=change.values.get("metadata", current["metadata"]),
                update_time=now(),
            )
        return Tenant(**require_row(row))

    def _transaction_for(self, scope: DirectoryScope) -> AbstractAsyncContextManager[Transaction]:
        if scope.tenant_id is not None:
            return self._database.transaction(scope.tenant_id)
        if scope.account_id is not None:
            return self._database.account_transaction(scope.account_id, directory=True)
        return self._database.operator_transaction()


async def _check_owned_tenants(tx: Transaction, account_id: UUID, max_owned: int) -> None:
    """Raise QuotaExceeded for an account that owns `max_owned` tenants."""
    await tx.set_account(account_id)
    if await tx.value(QUERIES["count_owned_tenants"], account_id=account_id) >= max_owned:
        raise QuotaExceeded(kind="tenants", limit=max_owned)


async def _insert_tenant(tx: Transaction, organization_id: UUID, draft: TenantDraft, at: datetime) -> asyncpg.Record:
    for slug in draft.slugs():
        row = await tx.row(
            QUERIES["create_tenant"],
            tenant_id=new_id(at),
            organization_id=organization_id,
            display_name=draft.display_name,
            slug=slug,
            metadata=draft.metadata,
            create_time=at,
        )
        if row is not None:
            return row
    raise TenantExists
