"""The RPCs that concern the audit: parse, one call, reply."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.rpc_group import Rpcs, id_before
from skein_kit.calls.call import Context, caller
from skein_kit.database.transactions import NO_TENANT
from skein_kit.rpc import pagination

if TYPE_CHECKING:
    from collections.abc import Sequence


class AuditRpcs(Rpcs):
    """What happened to credentials."""

    async def ListAuditEvents(self, request: pb.ListAuditEventsRequest, context: Context) -> pb.ListAuditEventsResponse:
        tenant_id = caller(context).tenant_id or NO_TENANT
        account_id = UUID(request.account_id) if request.account_id else None
        found, token = await self._audit_events(tenant_id, account_id, tenant_id, request)
        return pb.ListAuditEventsResponse(audit_events=found, next_page_token=token)

    async def ListMyAuditEvents(
        self, request: pb.ListMyAuditEventsRequest, context: Context
    ) -> pb.ListMyAuditEventsResponse:
        account_id = caller(context).account()
        found, token = await self._audit_events(NO_TENANT, account_id, account_id, request)
        return pb.ListMyAuditEventsResponse(audit_events=found, next_page_token=token)

    async def _audit_events(
        self,
        tenant_id: UUID,
        account_id: UUID | None,
        whose: UUID,
        request: pb.ListAuditEventsRequest | pb.ListMyAuditEventsRequest,
    ) -> tuple[Sequence[pb.AuditEvent], str]:
        """Return a page and the token of the next one, good for `whose` list alone; empty on the last."""
        size = pagination.resolve_page_size(request.page_size)
        before = id_before(pagination.read_token(request.page_token, whose, request))
        found = await self._parts.audit_events.list_audit_events(
            tenant_id, account_id=account_id, before=before, size=size + 1
        )
        if len(found) <= size:
            return found, ""
        return found[:size], pagination.write_token([found[size - 1].audit_event_id], whose, request)
