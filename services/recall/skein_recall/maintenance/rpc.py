"""The RPC that purges deleted tenants."""

from __future__ import annotations

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.calls.call import Context, caller
from skein_recall.maintenance.store import PurgeStore


class MaintenanceHandlers:
    """Purges for the worker."""

    def __init__(self, store: PurgeStore) -> None:
        self._store = store

    async def PurgeTenant(self, request: pb.PurgeTenantRequest, context: Context) -> pb.PurgeTenantResponse:
        counts, more = await self._store.purge_tenant(caller(context).require_tenant(), request.limit)
        return pb.PurgeTenantResponse(deleted_counts=counts, more=more)
