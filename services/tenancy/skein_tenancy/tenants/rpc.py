"""The RPCs that concern organizations and tenants: parse, one call, reply."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from skein.tenancy.v1 import tenancy_pb2 as pb
from skein_kit.calls.call import Context, caller
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.rpc import pagination
from skein_tenancy.errors import OrganizationNotFound, TenantNotFound
from skein_tenancy.members.model import OWNER, NewMember
from skein_tenancy.rpc_base import Rpcs, id_from_page_token
from skein_tenancy.tenants import model as directory

if TYPE_CHECKING:
    from skein_kit.identity.identity_token import Caller


class DirectoryRpcs(Rpcs):
    """Organizations and tenants."""

    async def CreateOrganization(
        self, request: pb.CreateOrganizationRequest, context: Context
    ) -> pb.CreateOrganizationResponse:
        draft = directory.DirectoryDraft.of(request.organization, noun="organization")
        return await self._parts.directory.create_organization(draft, IdempotencyKey.of(caller(context), request))

    async def GetOrganization(self, request: pb.GetOrganizationRequest, context: Context) -> pb.GetOrganizationResponse:
        organization = await self._parts.directory.get_organization(UUID(request.organization_id))
        return pb.GetOrganizationResponse(organization=organization)

    async def ListOrganizations(
        self, request: pb.ListOrganizationsRequest, context: Context
    ) -> pb.ListOrganizationsResponse:
        size = pagination.resolve_page_size(request.page_size)
        before = id_from_page_token(pagination.read_token(request.page_token, None, request))
        found = await self._parts.directory.list_organizations(before=before, size=size + 1)
        page = pagination.fit_items(found[:size])
        response = pb.ListOrganizationsResponse(organizations=page)
        if len(found) > len(page):
            response.next_page_token = pagination.write_token([page[-1].organization_id], None, request)
        return response

    async def UpdateOrganization(
        self, request: pb.UpdateOrganizationRequest, context: Context
    ) -> pb.UpdateOrganizationResponse:
        change = directory.DirectoryChange.of(
            request.organization, request.update_mask, noun="organization", missing=OrganizationNotFound()
        )
        return await self._parts.directory.update_organization(change, IdempotencyKey.of(caller(context), request))

    async def CreateTenant(self, request: pb.CreateTenantRequest, context: Context) -> pb.CreateTenantResponse:
        who = caller(context)
        draft = directory.TenantDraft.made_by(who, request, organization=self._parts.settings.accounts_organization)
        owner = await self._owner(draft, who)
        most = self._parts.settings.accounts_tenants_most
        return await self._parts.directory.create_tenant(draft, owner, IdempotencyKey.of(who, request), most_owned=most)

    async def GetTenant(self, request: pb.GetTenantRequest, context: Context) -> pb.GetTenantResponse:
        who = caller(context)
        tenant_id = UUID(request.tenant_id) if request.tenant_id else directory.require_tenant(who)
        tenant = await self._parts.directory.get_tenant(tenant_id, sight=directory.DirectoryScope.of(who))
        return pb.GetTenantResponse(tenant=tenant)

    async def ListTenants(self, request: pb.ListTenantsRequest, context: Context) -> pb.ListTenantsResponse:
        sight = directory.DirectoryScope.of(caller(context))
        keeper = sight.tenant_id or sight.account_id
        size = pagination.resolve_page_size(request.page_size)
        found = await self._parts.directory.list_tenants(
            sight=sight,
            organization_id=UUID(request.organization_id) if request.organization_id else None,
            before=id_from_page_token(pagination.read_token(request.page_token, keeper, request)),
            size=size + 1,
        )
        page = pagination.fit_items(found[:size])
        response = pb.ListTenantsResponse(tenants=page)
        if len(found) > len(page):
            response.next_page_token = pagination.write_token([page[-1].tenant_id], keeper, request)
        return response

    async def UpdateTenant(self, request: pb.UpdateTenantRequest, context: Context) -> pb.UpdateTenantResponse:
        own = directory.DirectoryScope.of(caller(context), writes=True).tenant_id
        change = directory.DirectoryChange.of(
            request.tenant,
            request.update_mask,
            noun="tenant",
            missing=TenantNotFound(),
            updatable=directory.UPDATABLE if own is None else directory.OWN_UPDATABLE,
        )
        return await self._parts.directory.update_tenant(change, IdempotencyKey.of(caller(context), request), own=own)

    async def _owner(self, draft: directory.TenantDraft, who: Caller) -> NewMember | None:
        if draft.is_own:
            return NewMember.itself(who, OWNER)
        if draft.owner_account_id:
            return await self._parts.accounts.joining(draft.owner_account_id, OWNER, created_by=who.principal)
        return None
