"""The RPCs of audit events."""

from __future__ import annotations

from uuid import UUID

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.audit.model import AuditEvent
from skein_auth.audit.store import AuditStore
from skein_kit.calls.call import Context, caller
from skein_kit.database.transactions import NO_TENANT
from skein_kit.rpc import pagination
from skein_kit.rpc.well_known_types import to_message


class AuditHandlers:
    """Audit events of a tenant, and of the calling account."""

    def __init__(self, store: AuditStore) -> None:
        self._store = store

    async def ListAuditEvents(self, request: pb.ListAuditEventsRequest, context: Context) -> pb.ListAuditEventsResponse:
        tenant_id = caller(context).tenant_id or NO_TENANT
        account_id = UUID(request.account_id) if request.account_id else None
        events, next_page_token = await self._page(tenant_id, account_id, tenant_id, request)
        return pb.ListAuditEventsResponse(audit_events=events, next_page_token=next_page_token)

    async def ListMyAuditEvents(
        self, request: pb.ListMyAuditEventsRequest, context: Context
    ) -> pb.ListMyAuditEventsResponse:
        account_id = caller(context).require_account()
        events, next_page_token = await self._page(NO_TENANT, account_id, account_id, request)
        return pb.ListMyAuditEventsResponse(audit_events=events, next_page_token=next_page_token)

    async def _page(
        self,
        tenant_id: UUID,
        account_id: UUID | None,
        owner_id: UUID,
        request: pb.ListAuditEventsRequest | pb.ListMyAuditEventsRequest,
    ) -> tuple[list[pb.AuditEvent], str]:
        """Return a page and the token of the next one, which only this owner's list accepts; empty on the last."""
        size = pagination.resolve_page_size(request.page_size)
        before = pagination.read_id(owner_id, request)
        events = await self._store.list_audit_events(tenant_id, account_id=account_id, before=before, size=size + 1)
        return pagination.fit_rows(
            events, _audit_event, lambda event: [str(event.audit_event_id)], request, owner_id, size=size
        )


def _audit_event(value: AuditEvent) -> pb.AuditEvent:
    return to_message(pb.AuditEvent, value)
