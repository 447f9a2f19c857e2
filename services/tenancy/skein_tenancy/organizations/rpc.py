"""The RPCs of organizations: parse, one call, reply."""

from __future__ import annotations

from uuid import UUID

from skein.tenancy.v1 import tenancy_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
from skein_kit.rpc import pagination
from skein_kit.rpc.well_known_types import to_message
from skein_tenancy.directory import convert as directory
from skein_tenancy.errors import OrganizationNotFound
from skein_tenancy.organizations.store import Organization, OrganizationStore


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
            organization = await self._store.create_organization(write.tx, draft)
            return await write.save(pb.CreateOrganizationResponse(organization=_organization(organization)))

    async def GetOrganization(self, request: pb.GetOrganizationRequest, context: Context) -> pb.GetOrganizationResponse:
        organization = await self._store.get_organization(UUID(request.organization_id))
        return pb.GetOrganizationResponse(organization=_organization(organization))

    async def ListOrganizations(
        self, request: pb.ListOrganizationsRequest, context: Context
    ) -> pb.ListOrganizationsResponse:
        size = pagination.resolve_page_size(request.page_size)
        before = pagination.read_id(None, request)
        rows = await self._store.list_organizations(before=before, size=size + 1)
        page, token = pagination.fit_rows(
            rows, _organization, lambda row: [str(row.organization_id)], request, None, size=size
        )
        return pb.ListOrganizationsResponse(organizations=page, next_page_token=token)

    async def UpdateOrganization(
        self, request: pb.UpdateOrganizationRequest, context: Context
    ) -> pb.UpdateOrganizationResponse:
        change = directory.change(
            request.organization, request.update_mask, noun="organization", not_found=OrganizationNotFound()
        )
        async with self._idempotency.begin_as_operator(IdempotencyKey.of(caller_of(context), request)) as write:
            organization = await self._store.update_organization(write.tx, change)
            return await write.save(pb.UpdateOrganizationResponse(organization=_organization(organization)))


def _organization(value: Organization) -> pb.Organization:
    return to_message(pb.Organization, value)
