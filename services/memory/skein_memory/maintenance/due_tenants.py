"""The RPC that names the tenants in which the worker has something to do."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.database.transactions import Database
from skein_kit.idempotency.store import LIFETIME
from skein_kit.ids import now
from skein_kit.policies.store import DEFAULT
from skein_kit.rpc.due_tenants import list_due_tenants
from skein_memory.queries import QUERIES
from skein_memory.webhooks.delivery_store import RETENTION


class DueTenantHandlers:
    """Lists tenants by kind of work."""

    def __init__(self, database: Database, *, master_key: str) -> None:
        """`master_key` is the fingerprint of the current master key; empty without one."""
        self._database = database
        self._master_key = master_key or None

    async def ListDueTenants(self, request: pb.ListDueTenantsRequest, _context: Context) -> pb.ListDueTenantsResponse:
        name, values = self._query(request.work, now())
        return await list_due_tenants(self._database, QUERIES[name], request, pb.ListDueTenantsResponse, **values)

    def _query(self, work: pb.DueWork, at: datetime) -> tuple[str, Mapping[str, object]]:
        """Return the name of a query, and its values but for those of the page."""
        if work == pb.DUE_WORK_WEBHOOKS:
            return "list_webhook_tenants", {"at": at}
        if work == pb.DUE_WORK_SNAPSHOTS:
            return "list_snapshot_tenants", {}
        if work == pb.DUE_WORK_TRUST:
            return "list_trust_tenants", {}
        if work == pb.DUE_WORK_LIFECYCLE:
            return "list_lifecycle_tenants", {"at": at, "retention_days": DEFAULT.retention_days}
        if work == pb.DUE_WORK_DECAY:
            return "list_decay_tenants", {"at": at, "decay_days": DEFAULT.decay_days}
        return "list_expiry_tenants", {
            "at": at,
            "requested_before": at - LIFETIME,
            "finished_before": at - RETENTION,
            "expired_before": at - timedelta(hours=DEFAULT.expiry_grace_hours),
            "master_key": self._master_key,
        }
