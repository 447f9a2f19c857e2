"""The RPCs of the worker: deletion of expired rows, and the purge of a tenant."""

from __future__ import annotations

from skein.auth.v1 import auth_pb2 as pb
from skein_auth.maintenance.store import DEFAULT_PURGE, MaintenanceStore
from skein_kit.calls.call import Context, caller
from skein_kit.ids import now


class MaintenanceHandlers:
    """Deletion of expired rows, and the purge of a tenant."""

    def __init__(self, store: MaintenanceStore) -> None:
        self._store = store

    async def ListDueTenants(self, request: pb.ListDueTenantsRequest, _context: Context) -> pb.ListDueTenantsResponse:
        return await self._store.list_due_tenants(request, now())

    async def DeleteExpired(self, request: pb.DeleteExpiredRequest, context: Context) -> pb.DeleteExpiredResponse:
        tenant_id = caller(context).tenant_id
        if tenant_id is None:
            deleted_count = await self._store.delete_expired_globals(now())
        else:
            deleted_count = await self._store.delete_expired(tenant_id, now())
        return pb.DeleteExpiredResponse(deleted_count=deleted_count)

    async def PurgeTenant(self, request: pb.PurgeTenantRequest, context: Context) -> pb.PurgeTenantResponse:
        counts, more = await self._store.purge(caller(context).require_tenant(), request.limit or DEFAULT_PURGE)
        return pb.PurgeTenantResponse(deleted_counts=counts, more=more)
