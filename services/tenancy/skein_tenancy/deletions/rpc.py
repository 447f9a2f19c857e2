"""The RPCs of deletions: parse, one call, reply."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from skein.tenancy.v1 import members_pb2
from skein.tenancy.v1 import tenancy_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.ids import now
from skein_kit.rpc import pagination
from skein_tenancy.deletions import convert
from skein_tenancy.deletions.store import TENANTS_PER_BATCH
from skein_tenancy.errors import OrganizationNotFound
from skein_tenancy.page_token import parse_id_position, parse_time_position
from skein_tenancy.tenants.model import DirectoryScope

if TYPE_CHECKING:
    from datetime import timedelta

    from skein_kit.idempotency.store import IdempotencyStore
    from skein_tenancy.deletions.store import DeletionStore


class DeletionHandlers:
    """Deletions of tenants and organizations; for the worker, the purge of what they had."""

    def __init__(self, store: DeletionStore, idempotency: IdempotencyStore, *, default_grace: timedelta) -> None:
        self._store = store
        self._idempotency = idempotency
        self._default_grace = default_grace

    async def DeleteOrganization(
        self, request: pb.DeleteOrganizationRequest, context: Context
    ) -> pb.DeleteOrganizationResponse:
        caller, organization_id = caller_of(context), UUID(request.organization_id)
        key, deletion_request = IdempotencyKey.of(caller, request), None
        if request.tenants:
            deletion_request = convert.deletion_request(request, caller, default_grace=self._default_grace)
        while True:
            # An interrupted request has an empty saved response; its repeat continues with the next batch.
            async with self._idempotency.begin_as_operator(key) as write:
                if write.saved_response:
                    return pb.DeleteOrganizationResponse.FromString(write.saved_response)
                if not await self._store.lock_organization(write.tx, organization_id):
                    if write.saved_response is not None:
                        return pb.DeleteOrganizationResponse()
                    raise OrganizationNotFound
                if deletion_request is not None:
                    count = await self._store.delete_tenants(write.tx, organization_id, deletion_request)
                    if count == TENANTS_PER_BATCH:
                        continue
                deletions = await self._store.delete_organization(
                    write.tx, organization_id, with_report=deletion_request is not None
                )
                page = pagination.fit_items(map(convert.deletion, deletions))
                return await write.save(pb.DeleteOrganizationResponse(deletions=page))

    async def DeleteTenant(self, request: pb.DeleteTenantRequest, context: Context) -> pb.DeleteTenantResponse:
        caller, tenant_id = caller_of(context), UUID(request.tenant_id)
        DirectoryScope.of(caller, for_write=True).require_visible(tenant_id)
        deletion_request = convert.deletion_request(request, caller, default_grace=self._default_grace)
        async with self._idempotency.begin_as_operator(IdempotencyKey.of(caller, request)) as write:
            if write.saved_response is not None:
                return pb.DeleteTenantResponse.FromString(write.saved_response)
            deletion = await self._store.delete_tenant(write.tx, tenant_id, deletion_request)
            return await write.save(pb.DeleteTenantResponse(deletion=convert.deletion(deletion)))

    async def UndeleteTenant(
        self, request: members_pb2.UndeleteTenantRequest, context: Context
    ) -> members_pb2.UndeleteTenantResponse:
        async with self._idempotency.begin_as_operator(IdempotencyKey.of(caller_of(context), request)) as write:
            if write.saved_response is not None:
                return members_pb2.UndeleteTenantResponse.FromString(write.saved_response)
            deletion = await self._store.undelete_tenant(write.tx, UUID(request.tenant_id))
            return await write.save(members_pb2.UndeleteTenantResponse(deletion=convert.deletion(deletion)))

    async def GetDeletion(
        self, request: members_pb2.GetDeletionRequest, context: Context
    ) -> members_pb2.GetDeletionResponse:
        deletion = await self._store.get_deletion(UUID(request.tenant_id))
        return members_pb2.GetDeletionResponse(deletion=convert.deletion(deletion))

    async def ListDeletions(
        self, request: members_pb2.ListDeletionsRequest, context: Context
    ) -> members_pb2.ListDeletionsResponse:
        size = pagination.resolve_page_size(request.page_size)
        before = parse_id_position(pagination.read_token(request.page_token, None, request))
        rows = await self._store.list_deletions(before=before, size=size + 1)
        page = pagination.fit_items(map(convert.deletion, rows[:size]))
        response = members_pb2.ListDeletionsResponse(deletions=page)
        if len(rows) > len(page):
            last = rows[len(page) - 1]
            response.next_page_token = pagination.write_token([str(last.deletion_id)], None, request)
        return response

    async def ListDueDeletions(
        self, request: members_pb2.ListDueDeletionsRequest, context: Context
    ) -> members_pb2.ListDueDeletionsResponse:
        size = pagination.resolve_page_size(request.page_size)
        after = parse_time_position(pagination.read_token(request.page_token, None, request))
        rows = await self._store.list_due_deletions(now(), after=after, size=size + 1)
        page = pagination.fit_items(map(convert.deletion, rows[:size]))
        response = members_pb2.ListDueDeletionsResponse(deletions=page)
        if len(rows) > len(page):
            last = rows[len(page) - 1]
            position = [last.purge_time.isoformat(), str(last.deletion_id)]
            response.next_page_token = pagination.write_token(position, None, request)
        return response

    async def RecordDeletion(
        self, request: members_pb2.RecordDeletionRequest, context: Context
    ) -> members_pb2.RecordDeletionResponse:
        deletion = await self._store.record_progress(UUID(request.tenant_id), convert.progress(request))
        return members_pb2.RecordDeletionResponse(deletion=convert.deletion(deletion))

    async def PurgeTenant(
        self, request: members_pb2.PurgeTenantRequest, context: Context
    ) -> members_pb2.PurgeTenantResponse:
        counts, more = await self._store.purge_tenant(caller_of(context).require_tenant(), request.limit)
        return members_pb2.PurgeTenantResponse(deleted_counts=counts, more=more)
