"""The RPCs of the worker: deletion of expired rows, the chain of audit events, and the purge of a tenant."""

from __future__ import annotations

from skein.auth.v1 import auth_pb2 as pb
from skein_auth.audit.chain_store import AuditChain
from skein_auth.maintenance.store import DEFAULT_PURGE, MaintenanceStore
from skein_kit.calls.call import Context, caller
from skein_kit.ids import now
from skein_kit.rpc.well_known_types import to_timestamp


class MaintenanceHandlers:
    """Deletion of expired rows, the chain of audit events, and the purge of a tenant."""

    def __init__(self, store: MaintenanceStore, audit_chain: AuditChain) -> None:
        self._store = store
        self._audit_chain = audit_chain

    async def ListDueTenants(self, request: pb.ListDueTenantsRequest, _context: Context) -> pb.ListDueTenantsResponse:
        return await self._store.list_due_tenants(request, now())

    async def DeleteExpired(self, request: pb.DeleteExpiredRequest, context: Context) -> pb.DeleteExpiredResponse:
        tenant_id = caller(context).tenant_id
        if tenant_id is None:
            deleted_count = await self._store.delete_expired_globals(now())
        else:
            deleted_count = await self._store.delete_expired(tenant_id, now())
        return pb.DeleteExpiredResponse(deleted_count=deleted_count)

    async def ChainAuditEvents(
        self, _request: pb.ChainAuditEventsRequest, context: Context
    ) -> pb.ChainAuditEventsResponse:
        tenant_id = caller(context).tenant_id
        if tenant_id is None:
            closed = await self._audit_chain.close_days(now())
            return pb.ChainAuditEventsResponse(chained_before_time=None if closed is None else to_timestamp(closed))
        count, more = await self._audit_chain.extend(tenant_id, now())
        return pb.ChainAuditEventsResponse(chained_count=count, more=more)

    async def PurgeTenant(self, request: pb.PurgeTenantRequest, context: Context) -> pb.PurgeTenantResponse:
        counts, more = await self._store.purge(caller(context).require_tenant(), request.limit or DEFAULT_PURGE)
        return pb.PurgeTenantResponse(deleted_counts=counts, more=more)
