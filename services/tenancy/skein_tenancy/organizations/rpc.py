"""The RPCs of organizations: parse, one call, reply."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from skein.tenancy.v1 import tenancy_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.rpc import pagination
from skein_tenancy.directory import convert as directory
from skein_tenancy.errors import OrganizationNotFound
from skein_tenancy.organizations import convert
from skein_tenancy.page_token import parse_id_position

if TYPE_CHECKING:
    from skein_kit.idempotency.store import IdempotencyStore
    from skein_tenancy.organizations.store import OrganizationStore


class OrganizationHandlers:
    """Organizations, for operators. Their deletion has handlers of its own."""

    def __init__(self, store: OrganizationStore, idempotency: IdempotencyStore) -> None:
        self._store = store
        self._idempotency = idempotency

    async def CreateOrganization(
        self, request: pb.CreateOrganizationRequest, context: Context
    ) -> pb.CreateOrganizationResponse:
        draft = directory.draft(request.organization, noun="organization")
        async with self._idempotency.begin_as_operator(IdempotencyKey.of(caller_of(context), request)) as write:
            if write.saved_response is not None:
                return pb.CreateOrganizationResponse.FromString(write.saved_response)
            organization = await self._store.create_organization(write.tx, draft)
            return await write.save(pb.CreateOrganizationResponse(organization=convert.organization(organization)))

    async def GetOrganization(self, request: pb.GetOrganizationRequest, context: Context) -> pb.GetOrganizationResponse:
        organization = await self._store.get_organization(UUID(request.organization_id))
        return pb.GetOrganizationResponse(organization=convert.organization(organization))

    async def ListOrganizations(
        self, request: pb.ListOrganizationsRequest, context: Context
    ) -> pb.ListOrganizationsResponse:
        size = pagination.resolve_page_size(request.page_size)
        before = parse_id_position(pagination.read_token(request.page_token, None, request))
        rows = await self._store.list_organizations(before=before, size=size + 1)
        page = pagination.fit_items(map(convert.organization, rows[:size]))
        response = pb.ListOrganizationsResponse(organizations=page)
        if len(rows) > len(page):
            response.next_page_token = pagination.write_token([page[-1].organization_id], None, request)
        return response

    async def UpdateOrganization(
        self, request: pb.UpdateOrganizationRequest, context: Context
    ) -> pb.UpdateOrganizationResponse:
        change = directory.change(
            request.organization, request.update_mask, noun="organization", not_found=OrganizationNotFound()
        )
        async with self._idempotency.begin_as_operator(IdempotencyKey.of(caller_of(context), request)) as write:
            if write.saved_response is not None:
                return pb.UpdateOrganizationResponse.FromString(write.saved_response)
            organization = await self._store.update_organization(write.tx, change)
            return await write.save(pb.UpdateOrganizationResponse(organization=convert.organization(organization)))
