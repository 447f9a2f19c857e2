"""Organizations and tenants in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.tenancy.v1 import tenancy_pb2 as pb
from skein_kit.database import NO_TENANT, refusing
from skein_kit.ids import new_id, now
from skein_tenancy import wire
from skein_tenancy.errors import (
    OrganizationExists,
    OrganizationNotEmpty,
    OrganizationNotFound,
    TenantExists,
    TenantNotFound,
)
from skein_tenancy.store.queries import QUERIES
from skein_tenancy.store.tables import Tables, refuse_stale, there

if TYPE_CHECKING:
    from uuid import UUID

    from skein_kit.requests import Once
    from skein_tenancy import directory


class DirectoryStore(Tables):
    """Organizations and tenants.

    Where a method takes `own`, it is the one tenant that the caller sees, None for a caller that sees all. Methods that
    take `once` do their work once for each request and return the first answer whenever it is repeated.
    """

    async def create_organization(self, draft: directory.Draft, once: Once) -> pb.CreateOrganizationResponse:
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
            rows = await tx.rows(QUERIES["list_organizations"], before=before, size=size)
        return [wire.organization(row) for row in rows]

    async def update_organization(self, change: directory.Change, once: Once) -> pb.UpdateOrganizationResponse:
        with refusing({"organizations_slug_key": OrganizationExists()}):
            async with self._database.operator() as tx:
                if (first := await self._requests.claim(tx, NO_TENANT, once)) is not None:
                    return pb.UpdateOrganizationResponse.FromString(first)
                current = await tx.row(QUERIES["lock_organization"], organization_id=change.row_id)
                if current is None:
                    raise OrganizationNotFound
                refuse_stale(change.revision, current)
                row = await tx.row(
                    QUERIES["update_organization"],
                    organization_id=change.row_id,
                    display_name=change.values.get("display_name", current["display_name"]),
                    slug=change.values.get("slug", current["slug"]),
                    metadata=change.values.get("metadata", current["metadata"]),
                    update_time=now(),
                )
                response = pb.UpdateOrganizationResponse(organization=wire.organization(there(row)))
                await self._answer(tx, NO_TENANT, once, response)
                return response

    async def delete_organization(self, organization_id: UUID, once: Once) -> pb.DeleteOrganizationResponse:
        response = pb.DeleteOrganizationResponse()
        async with self._database.operator() as tx:
            if (first := await self._requests.claim(tx, NO_TENANT, once)) is not None:
                return pb.DeleteOrganizationResponse.FromString(first)
            if await tx.row(QUERIES["lock_organization"], organization_id=organization_id) is None:
                raise OrganizationNotFound
            if await tx.value(QUERIES["organization_has_tenants"], organization_id=organization_id):
                raise OrganizationNotEmpty
            await tx.execute(QUERIES["delete_organization"], organization_id=organization_id, update_time=now())
            await self._answer(tx, NO_TENANT, once, response)
        return response

    async def create_tenant(
        self, draft: directory.Draft, organization_id: UUID | None, once: Once
    ) -> pb.CreateTenantResponse:
        async with self._database.operator() as tx:
            if (first := await self._requests.claim(tx, NO_TENANT, once)) is not None:
                return pb.CreateTenantResponse.FromString(first)
            organization_id = await tx.value(QUERIES["share_organization"], organization_id=organization_id)
            if organization_id is None:
                raise OrganizationNotFound
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
            response = pb.CreateTenantResponse(tenant=wire.tenant(row))
            await self._answer(tx, NO_TENANT, once, response)
            return response

    async def get_tenant(self, tenant_id: UUID, *, own: UUID | None) -> pb.Tenant:
        async with self._sight(own) as tx:
            row = await tx.row(QUERIES["get_tenant"], tenant_id=tenant_id)
        if row is None:
            raise TenantNotFound
        return wire.tenant(row)

    async def list_tenants(
        self, *, own: UUID | None, organization_id: UUID | None, before: UUID | None, size: int
    ) -> list[pb.Tenant]:
        async with self._sight(own) as tx:
            rows = await tx.rows(
                QUERIES["list_tenants"], own=own, organization_id=organization_id, before=before, size=size
            )
        return [wire.tenant(row) for row in rows]

    async def update_tenant(self, change: directory.Change, once: Once, *, own: UUID | None) -> pb.UpdateTenantResponse:
        keeper = own or NO_TENANT
        with refusing({"tenants_slug_key": TenantExists()}):
            async with self._sight(own) as tx:
                if (first := await self._requests.claim(tx, keeper, once)) is not None:
                    return pb.UpdateTenantResponse.FromString(first)
                current = await tx.row(QUERIES["lock_tenant"], tenant_id=change.row_id)
                if current is None:
                    raise TenantNotFound
                refuse_stale(change.revision, current)
                row = await tx.row(
                    QUERIES["update_tenant"],
                    tenant_id=change.row_id,
                    display_name=change.values.get("display_name", current["display_name"]),
                    slug=change.values.get("slug", current["slug"]),
                    metadata=change.values.get("metadata", current["metadata"]),
                    update_time=now(),
                )
                response = pb.UpdateTenantResponse(tenant=wire.tenant(there(row)))
                await self._answer(tx, keeper, once, response)
                return response

    async def delete_tenant(self, tenant_id: UUID, once: Once) -> pb.DeleteTenantResponse:
        response = pb.DeleteTenantResponse()
        async with self._database.operator() as tx:
            if (first := await self._requests.claim(tx, NO_TENANT, once)) is not None:
                return pb.DeleteTenantResponse.FromString(first)
            if not await tx.execute(QUERIES["delete_tenant"], tenant_id=tenant_id, update_time=now()):
                raise TenantNotFound
            await self._answer(tx, NO_TENANT, once, response)
        return response
