"""The RPCs of deletions: parse, one call, reply."""

from __future__ import annotations

import json
from datetime import timedelta
from uuid import UUID

from skein.tenancy.v1 import members_pb2
from skein.tenancy.v1 import tenancy_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
from skein_kit.identity.identity_token import Caller
from skein_kit.ids import now
from skein_kit.rpc import pagination
from skein_kit.rpc.well_known_types import to_message
from skein_tenancy.deletions.model import Deletion, DeletionProgress, DeletionRequest
from skein_tenancy.deletions.store import TENANTS_PER_BATCH, DeletionStore
from skein_tenancy.errors import OrganizationNotFound
from skein_tenancy.tenants.model import DirectoryScope
from skein_tenancy.validation import parse_time_position


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
            deletion_request = _deletion_request(request, caller, default_grace=self._default_grace)
        while True:
            # An interrupted request has an empty saved response; its repeat continues with the next batch.
            async with self._idempotency.begin_as_operator(key, sees_repeats=True) as write:
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
                page = pagination.fit_items(map(_deletion, deletions))
                return await write.save(pb.DeleteOrganizationResponse(deletions=page))

    async def DeleteTenant(self, request: pb.DeleteTenantRequest, context: Context) -> pb.DeleteTenantResponse:
        caller, tenant_id = caller_of(context), UUID(request.tenant_id)
        DirectoryScope.of(caller, for_write=True).require_visible(tenant_id)
        deletion_request = _deletion_request(request, caller, default_grace=self._default_grace)
        async with self._idempotency.begin_as_operator(IdempotencyKey.of(caller, request)) as write:
            deletion = await self._store.delete_tenant(write.tx, tenant_id, deletion_request)
            return await write.save(pb.DeleteTenantResponse(deletion=_deletion(deletion)))

    async def UndeleteTenant(
        self, request: members_pb2.UndeleteTenantRequest, context: Context
    ) -> members_pb2.UndeleteTenantResponse:
        async with self._idempotency.begin_as_operator(IdempotencyKey.of(caller_of(context), request)) as write:
            deletion = await self._store.undelete_tenant(write.tx, UUID(request.tenant_id))
            return await write.save(members_pb2.UndeleteTenantResponse(deletion=_deletion(deletion)))

    async def GetDeletion(
        self, request: members_pb2.GetDeletionRequest, context: Context
    ) -> members_pb2.GetDeletionResponse:
        deletion = await self._store.get_deletion(UUID(request.tenant_id))
        return members_pb2.GetDeletionResponse(deletion=_deletion(deletion))

    async def ListDeletions(
        self, request: members_pb2.ListDeletionsRequest, context: Context
    ) -> members_pb2.ListDeletionsResponse:
        size = pagination.resolve_page_size(request.page_size)
        before = pagination.read_id(None, request)
        rows = await self._store.list_deletions(before=before, size=size + 1)
        page, token = pagination.fit_rows(rows, _deletion, lambda row: [str(row.deletion_id)], request, None, size=size)
        return members_pb2.ListDeletionsResponse(deletions=page, next_page_token=token)

    async def ListDueDeletions(
        self, request: members_pb2.ListDueDeletionsRequest, context: Context
    ) -> members_pb2.ListDueDeletionsResponse:
        size = pagination.resolve_page_size(request.page_size)
        after = parse_time_position(pagination.read_token(request.page_token, None, request))
        rows = await self._store.list_due_deletions(now(), after=after, size=size + 1)
        page, token = pagination.fit_rows(
            rows,
            _deletion,
            lambda row: [row.purge_time.isoformat(), str(row.deletion_id)],
            request,
            None,
            size=size,
        )
        return members_pb2.ListDueDeletionsResponse(deletions=page, next_page_token=token)

    async def RecordDeletion(
        self, request: members_pb2.RecordDeletionRequest, context: Context
    ) -> members_pb2.RecordDeletionResponse:
        deletion = await self._store.record_progress(UUID(request.tenant_id), _progress(request))
        return members_pb2.RecordDeletionResponse(deletion=_deletion(deletion))

    async def PurgeTenant(
        self, request: members_pb2.PurgeTenantRequest, context: Context
    ) -> members_pb2.PurgeTenantResponse:
        counts, more = await self._store.purge_tenant(caller_of(context).require_tenant(), request.limit)
        return members_pb2.PurgeTenantResponse(deleted_counts=counts, more=more)


def _deletion_request(
    request: pb.DeleteTenantRequest | pb.DeleteOrganizationRequest, caller: Caller, *, default_grace: timedelta
) -> DeletionRequest:
    grace = request.grace.ToTimedelta() if request.HasField("grace") else None
    return DeletionRequest.create(caller, grace, default_grace=default_grace)


def _progress(request: members_pb2.RecordDeletionRequest) -> DeletionProgress:
    return DeletionProgress(
        stage=request.stage,
        counts=request.deleted_counts,
        is_finished=request.finished,
        is_certified=request.certified,
    )


def _deletion(value: Deletion) -> members_pb2.Deletion:
    return to_message(members_pb2.Deletion, value, deleted_counts=json.loads(value.deleted_counts))
