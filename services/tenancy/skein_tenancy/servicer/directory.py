"""The RPCs that concern organizations and tenants: parse, one call, reply."""

from __future__ import annotations

from uuid import UUID

from skein.tenancy.v1 import tenancy_pb2 as pb
from skein_kit import pages
from skein_kit.call import Context, caller
from skein_kit.errors import PageTokenInvalid
from skein_kit.ids import parse_id
from skein_kit.requests import Once
from skein_tenancy import directory
from skein_tenancy.errors import OrganizationNotFound, TenantNotFound
from skein_tenancy.servicer.rpcs import Rpcs


class DirectoryRpcs(Rpcs):
    """Organizations and tenants."""

    async def CreateOrganization(
        self, request: pb.CreateOrganizationRequest, context: Context
    ) -> pb.CreateOrganizationResponse:
        draft = directory.Draft.of(request.organization, noun="organization")
        return await self._parts.directory.create_organization(draft, Once.of(caller(context), request))

    async def GetOrganization(self, request: pb.GetOrganizationRequest, context: Context) -> pb.GetOrganizationResponse:
        organization = await self._parts.directory.get_organization(UUID(request.organization_id))
        return pb.GetOrganizationResponse(organization=organization)

    async def ListOrganizations(
        self, request: pb.ListOrganizationsRequest, context: Context
    ) -> pb.ListOrganizationsResponse:
        size = pages.page_size(request.page_size)
        before = _id_before(pages.read_token(request.page_token, None, request))
        found = await self._parts.directory.list_organizations(before=before, size=size + 1)
        page = pages.fitting(found[:size])
        response = pb.ListOrganizationsResponse(organizations=page)
        if len(found) > len(page):
            response.next_page_token = pages.write_token([page[-1].organization_id], None, request)
        return response

    async def UpdateOrganization(
        self, request: pb.UpdateOrganizationRequest, context: Context
    ) -> pb.UpdateOrganizationResponse:
        change = directory.Change.of(
            request.organization, request.update_mask, noun="organization", missing=OrganizationNotFound()
        )
        return await self._parts.directory.update_organization(change, Once.of(caller(context), request))

    async def DeleteOrganization(
        self, request: pb.DeleteOrganizationRequest, context: Context
    ) -> pb.DeleteOrganizationResponse:
        return await self._parts.directory.delete_organization(
            UUID(request.organization_id), Once.of(caller(context), request)
        )

    async def CreateTenant(self, request: pb.CreateTenantRequest, context: Context) -> pb.CreateTenantResponse:
        draft = directory.Draft.of(request.tenant, noun="tenant")
        organization_id = UUID(request.tenant.organization_id) if request.tenant.organization_id else None
        return await self._parts.directory.create_tenant(draft, organization_id, Once.of(caller(context), request))

    async def GetTenant(self, request: pb.GetTenantRequest, context: Context) -> pb.GetTenantResponse:
        own = directory.sight(caller(context))
        tenant_id = UUID(request.tenant_id) if request.tenant_id else directory.acting_in(caller(context))
        return pb.GetTenantResponse(tenant=await self._parts.directory.get_tenant(tenant_id, own=own))

    async def ListTenants(self, request: pb.ListTenantsRequest, context: Context) -> pb.ListTenantsResponse:
        own = directory.sight(caller(context))
        size = pages.page_size(request.page_size)
        found = await self._parts.directory.list_tenants(
            own=own,
            organization_id=UUID(request.organization_id) if request.organization_id else None,
            before=_id_before(pages.read_token(request.page_token, own, request)),
            size=size + 1,
        )
        page = pages.fitting(found[:size])
        response = pb.ListTenantsResponse(tenants=page)
        if len(found) > len(page):
            response.next_page_token = pages.write_token([page[-1].tenant_id], own, request)
        return response

    async def UpdateTenant(self, request: pb.UpdateTenantRequest, context: Context) -> pb.UpdateTenantResponse:
        own = directory.sight(caller(context), writes=True)
        change = directory.Change.of(
            request.tenant,
            request.update_mask,
            noun="tenant",
            missing=TenantNotFound(),
            updatable=directory.UPDATABLE if own is None else directory.OWN_UPDATABLE,
        )
        return await self._parts.directory.update_tenant(change, Once.of(caller(context), request), own=own)

    async def DeleteTenant(self, request: pb.DeleteTenantRequest, context: Context) -> pb.DeleteTenantResponse:
        return await self._parts.directory.delete_tenant(UUID(request.tenant_id), Once.of(caller(context), request))


def _id_before(place: list[str] | None) -> UUID | None:
    if place is None:
        return None
    found = parse_id(place[0]) if place else None
    if found is None:
        raise PageTokenInvalid
    return found
