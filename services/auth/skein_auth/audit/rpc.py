"""RPCs: the list of audit events."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from skein.auth.v1 import accounts_pb2
from skein_auth.pages import id_before
from skein_kit.calls.call import Context, caller
from skein_kit.database.transactions import NO_TENANT
from skein_kit.rpc import pagination

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skein_auth.audit.store import AuditStore


class AuditRpc:
    """The list of audit events."""

    def __init__(self, store: AuditStore) -> None:
        self._store = store

    async def ListAuditEvents(
        self, request: accounts_pb2.ListAuditEventsRequest, context: Context
    ) -> accounts_pb2.ListAuditEventsResponse:
        tenant_id = caller(context).tenant_id or NO_TENANT
        account_id = UUID(request.account_id) if request.account_id else None
        found, token = await self._audit_events(tenant_id, account_id, tenant_id, request)
        return accounts_pb2.ListAuditEventsResponse(audit_events=found, next_page_token=token)

    async def ListMyAuditEvents(
        self, request: accounts_pb2.ListMyAuditEventsRequest, context: Context
    ) -> accounts_pb2.ListMyAuditEventsResponse:
        account_id = caller(context).account()
        found, token = await self._audit_events(NO_TENANT, account_id, account_id, request)
        return accounts_pb2.ListMyAuditEventsResponse(audit_events=found, next_page_token=token)

    async def _audit_events(
        self,
        tenant_id: UUID,
        account_id: UUID | None,
        whose: UUID,
        request: accounts_pb2.ListAuditEventsRequest | accounts_pb2.ListMyAuditEventsRequest,
    ) -> tuple[Sequence[accounts_pb2.AuditEvent], str]:
        """Return a page and the token of the next one, good for `whose` list alone; empty on the last."""
        size = pagination.resolve_page_size(request.page_size)
        before = id_before(pagination.read_token(request.page_token, whose, request))
        found = await self._store.list_audit_events(tenant_id, account_id=account_id, before=before, size=size + 1)
        if len(found) <= size:
            return found, ""
        return found[:size], pagination.write_token([found[size - 1].audit_event_id], whose, request)
