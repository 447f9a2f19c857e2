"""The RPCs that concern the deletion of tenants: parse, one call, reply."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from skein.tenancy.v1 import members_pb2
from skein.tenancy.v1 import tenancy_pb2 as pb
from skein_kit.calls.call import Context, caller
from skein_kit.errors import PageTokenInvalid
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.ids import now
from skein_kit.rpc import pagination
from skein_tenancy import convert as wire
from skein_tenancy.deletions import model as deletions
from skein_tenancy.rpc_base import Rpcs, id_from_page_token
from skein_tenancy.tenants import model as directory


class DeletionRpcs(Rpcs):
    """Closing tenants, opening them again, and how far their deletion is."""

    async def DeleteOrganization(
        self, request: pb.DeleteOrganizationRequest, context: Context
    ) -> pb.DeleteOrganizationResponse:
        who = caller(context)
        closing = deletions.DeletionRequest.of(who, request, usual=self._grace()) if request.tenants else None
        return await self._parts.deletions.delete_organization(
            UUID(request.organization_id), closing, IdempotencyKey.of(who, request)
        )

    async def DeleteTenant(self, request: pb.DeleteTenantRequest, context: Context) -> pb.DeleteTenantResponse:
        who, tenant_id = caller(context), UUID(request.tenant_id)
        directory.DirectoryScope.of(who, writes=True).must_see(tenant_id)
        closing = deletions.DeletionRequest.of(who, request, usual=self._grace())
        return await self._parts.deletions.delete_tenant(tenant_id, closing, IdempotencyKey.of(who, request))

    async def UndeleteTenant(
        self, request: members_pb2.UndeleteTenantRequest, context: Context
    ) -> members_pb2.UndeleteTenantResponse:
        once = IdempotencyKey.of(caller(context), request)
        return await self._parts.deletions.undelete_tenant(UUID(request.tenant_id), once)

    async def GetDeletion(
        self, request: members_pb2.GetDeletionRequest, context: Context
    ) -> members_pb2.GetDeletionResponse:
        return members_pb2.GetDeletionResponse(
            deletion=await self._parts.deletions.get_deletion(UUID(request.tenant_id))
        )

    async def ListDeletions(
        self, request: members_pb2.ListDeletionsRequest, context: Context
    ) -> members_pb2.ListDeletionsResponse:
        size = pagination.resolve_page_size(request.page_size)
        before = id_from_page_token(pagination.read_token(request.page_token, None, request))
        rows = await self._parts.deletions.list_deletions(before=before, size=size + 1)
        page = pagination.fit_items(wire.deletion(row) for row in rows[:size])
        response = members_pb2.ListDeletionsResponse(deletions=page)
        if len(rows) > len(page):
            last = rows[len(page) - 1]
            response.next_page_token = pagination.write_token([str(last["deletion_id"])], None, request)
        return response

    def _grace(self) -> timedelta:
        return timedelta(seconds=self._parts.settings.delete_grace_seconds)


class PurgeRpcs(Rpcs):
    """What the worker asks while it removes deleted tenants."""

    async def ListDueDeletions(
        self, request: members_pb2.ListDueDeletionsRequest, context: Context
    ) -> members_pb2.ListDueDeletionsResponse:
        size = pagination.resolve_page_size(request.page_size)
        after = _after(pagination.read_token(request.page_token, None, request))
        rows = await self._parts.deletions.list_due_deletions(now(), after=after, size=size + 1)
        page = pagination.fit_items(wire.deletion(row) for row in rows[:size])
        response = members_pb2.ListDueDeletionsResponse(deletions=page)
        if len(rows) > len(page):
            last = rows[len(page) - 1]
            place = [last["purge_time"].isoformat(), str(last["deletion_id"])]
            response.next_page_token = pagination.write_token(place, None, request)
        return response

    async def RecordDeletion(
        self, request: members_pb2.RecordDeletionRequest, context: Context
    ) -> members_pb2.RecordDeletionResponse:
        progress = deletions.DeletionProgress.of(request)
        deletion = await self._parts.deletions.record_deletion(UUID(request.tenant_id), progress)
        return members_pb2.RecordDeletionResponse(deletion=deletion)

    async def PurgeTenant(
        self, request: members_pb2.PurgeTenantRequest, context: Context
    ) -> members_pb2.PurgeTenantResponse:
        counts, more = await self._parts.deletions.purge_tenant(caller(context).tenant(), request.limit)
        return members_pb2.PurgeTenantResponse(deleted_counts=counts, more=more)


def _after(place: list[str] | None) -> tuple[datetime, UUID] | None:
    """Read the place of a page of due deletions: time and id of the last one of the page before."""
    if place is None:
        return None
    try:
        purge_time, deletion_id = place
        return datetime.fromisoformat(purge_time).astimezone(UTC), UUID(deletion_id)
    except ValueError:
        raise PageTokenInvalid from None
