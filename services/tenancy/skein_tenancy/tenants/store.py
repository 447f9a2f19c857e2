"""Organizations and tenants in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.tenancy.v1 import members_pb2
from skein.tenancy.v1 import tenancy_pb2 as pb
from skein_kit.canary import ORGANIZATION
from skein_kit.database.transactions import NO_TENANT, translate_constraint_errors
from skein_kit.errors import QuotaExceeded
from skein_kit.ids import new_id, now
from skein_tenancy import convert as wire
from skein_tenancy.errors import (
    OrganizationExists,
    OrganizationNotFound,
    TenantExists,
    TenantNotFound,
)
from skein_tenancy.members.store import insert_member
from skein_tenancy.queries import QUERIES
from skein_tenancy.quotas.store import check_tenant_quota
from skein_tenancy.store_base import StoreBase, check_revision, require_row

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from uuid import UUID

    from skein_kit.database.transactions import Transaction
    from skein_kit.idempotency.store import IdempotencyKey
    from skein_tenancy.members import model as members
    from skein_tenancy.tenants import model as directory


class DirectoryStore(StoreBase):
    """Organizations and tenants.

    Where a method takes `own`, it is the one tenant that the caller sees, None for a caller that sees all. Methods that
    take `once` do their work once for each request and return the first answer whenever it is repeated.
    """

    async def create_organization(
        self, draft: directory.DirectoryDraft, once: IdempotencyKey
    ) -> pb.CreateOrganizationResponse:
        async with self._database.operator() as tx:
            if (first := await self._requests.claim(tx, NO_TENANT, once)) is not None:
                return pb.CreateOrganizationResponse.FromString(first)
            at = now()
            for slug in draft.slugs():
                row = await tx.row(
                    QUERIES["create_organization"],
                    organization_id=new_id(at),
                    display_name=draft.display_name,
                    slug=slug,
                    metadata=draft.metadata,
                    create_time=at,
                )
                if row is not None:
                    break
            else:
                raise OrganizationExists
            response = pb.CreateOrganizationResponse(organization=wire.organization(row))
            await self._answer(tx, NO_TENANT, once, response)
            return response

    async def get_organization(self, organization_id: UUID) -> pb.Organization:
        async with self._database.operator() as tx:
            row = await tx.row(QUERIES["get_organization"], organization_id=organization_id)
        if row is None:
            raise OrganizationNotFound
        return wire.organization(row)

    async def list_organizations(self, *, before: UUID | None, size: int) -> list[pb.Organization]:
        async with self._database.operator() as tx:
            rows = await tx.rows(QUERIES["list_organizations"], hidden=ORGANIZATION, before=before, size=size)
        return [wire.organization(row) for row in rows]

    async def update_organization(
        self, change: directory.DirectoryChange, once: IdempotencyKey
    ) -> pb.UpdateOrganizationResponse:
        with translate_constraint_errors({"organizations_slug_key": OrganizationExists()}):
            async with self._database.operator() as tx:
                if (first := await self._requests.claim(tx, NO_TENANT, once)) is not None:
                    return pb.UpdateOrganizationResponse.FromString(first)
                current = await tx.row(QUERIES["lock_organization"], organization_id=change.row_id)
                if current is None:
                    raise OrganizationNotFound
                check_revision(change.revision, current)
                row = await tx.row(
                    QUERIES["update_organization"],
                    organization_id=change.row_id,
                    display_name=change.values.get("display_name", current["display_name"]),
                    slug=change.values.get("slug", current["slug"]),
                    metadata=change.values.get("metadata", current["metadata"]),
                    update_time=now(),
                )
                response = pb.UpdateOrganizationResponse(organization=wire.organization(require_row(row)))
                await self._answer(tx, NO_TENANT, once, response)
                return response

    async def create_tenant(
        self, draft: directory.TenantDraft, owner: members.NewMember | None, once: IdempotencyKey, *, most_owned: int
    ) -> pb.CreateTenantResponse:
        """Make a tenant; an account that makes one for itself owns `most_owned` at most. Raises QuotaExceeded."""
        async with self._database.operator() as tx:
            if (first := await self._requests.claim(tx, NO_TENANT, once)) is not None:
                return pb.CreateTenantResponse.FromString(first)
            organization_id = await tx.value(
                QUERIES["share_organization"],
                organization_id=draft.organization_id,
                slug=draft.organization_slug,
                hidden=ORGANIZATION,
            )
            if organization_id is None:
                raise OrganizationNotFound
            if draft.is_own and owner is not None:
                await _must_own_fewer(tx, owner.account_id, most_owned)
            at = now()
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
                    break
            else:
                raise TenantExists
            await check_tenant_quota(tx, organization_id, row["tenant_id"])
            response = pb.CreateTenantResponse(tenant=wire.tenant(row))
            if draft.is_own:
                response.tenant.role = members_pb2.ROLE_OWNER
            await self._answer(tx, NO_TENANT, once, response)
            if owner is not None:
                await tx.act_in(row["tenant_id"])
                await insert_member(tx, row["tenant_id"], owner, at)
            return response

    async def get_tenant(self, tenant_id: UUID, *, sight: directory.DirectoryScope) -> pb.Tenant:
        sight.must_see(tenant_id)
        async with self._seen(sight) as tx:
            if sight.account_id is None:
                row = await tx.row(QUERIES["get_tenant"], tenant_id=tenant_id)
            else:
                row = await tx.row(QUERIES["get_tenant_of_account"], tenant_id=tenant_id, account_id=sight.account_id)
        if row is None:
            raise TenantNotFound
        return wire.tenant(row)

    async def list_tenants(
        self, *, sight: directory.DirectoryScope, organization_id: UUID | None, before: UUID | None, size: int
    ) -> list[pb.Tenant]:
        page = {"own": sight.tenant_id, "organization_id": organization_id, "before": before, "size": size}
        async with self._seen(sight) as tx:
            if sight.account_id is None:
                # Unless they are asked for, the canary's tenants are seen by the worker and by themselves alone.
                hidden = ORGANIZATION if sight.lists_for_people and organization_id is None else None
                rows = await tx.rows(QUERIES["list_tenants"], hidden=hidden, **page)
            else:
                rows = await tx.rows(QUERIES["list_tenants_of_account"], account_id=sight.account_id, **page)
        return [wire.tenant(row) for row in rows]

    async def update_tenant(
        self, change: directory.DirectoryChange, once: IdempotencyKey, *, own: UUID | None
    ) -> pb.UpdateTenantResponse:
        keeper = own or NO_TENANT
        if own not in (None, change.row_id):
            raise TenantNotFound
        with translate_constraint_errors({"tenants_slug_key": TenantExists()}):
            async with self._sight(own) as tx:
                if (first := await self._requests.claim(tx, keeper, once)) is not None:
                    return pb.UpdateTenantResponse.FromString(first)
                current = await tx.row(QUERIES["lock_tenant"], tenant_id=change.row_id)
                if current is None:
                    raise TenantNotFound
                check_revision(change.revision, current)
                row = await tx.row(
                    QUERIES["update_tenant"],
                    tenant_id=change.row_id,
                    display_name=change.values.get("display_name", current["display_name"]),
                    slug=change.values.get("slug", current["slug"]),
                    metadata=change.values.get("metadata", current["metadata"]),
                    update_time=now(),
                )
                response = pb.UpdateTenantResponse(tenant=wire.tenant(require_row(row)))
                await self._answer(tx, keeper, once, response)
                return response

    def _seen(self, sight: directory.DirectoryScope) -> AbstractAsyncContextManager[Transaction]:
        if sight.account_id is None or sight.tenant_id is not None:
            return self._sight(sight.tenant_id)
        return self._database.account(sight.account_id, directory=True)


async def _must_own_fewer(tx: Transaction, account_id: UUID, most: int) -> None:
    """Refuse an account that owns as many tenants as it may."""
    await tx.act_for(account_id)
    if await tx.value(QUERIES["count_owned"], account_id=account_id) >= most:
        raise QuotaExceeded(kind="tenants", limit=most)
