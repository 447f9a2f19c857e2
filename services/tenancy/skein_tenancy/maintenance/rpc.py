"""The RPC of maintenance: one call to each feature that has expired rows."""

from __future__ import annotations

from datetime import timedelta

from skein.tenancy.v1 import members_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.database.transactions import Database
from skein_kit.idempotency.store import LIFETIME, IdempotencyStore
from skein_kit.ids import now
from skein_kit.policies.store import DEFAULT, shared_policy_cache
from skein_kit.rpc.due_tenants import list_due_tenants
from skein_tenancy.agents.store import AgentStore
from skein_tenancy.invitations.store import InvitationStore
from skein_tenancy.queries import QUERIES
from skein_tenancy.rate_limits.model import IDLE_BUCKET_AGE
from skein_tenancy.rate_limits.store import RateLimitStore

# Former rows of each table that one call purges; the next call goes on.
_FORMER_ROWS = 1000


class MaintenanceHandlers:
    """Periodic work on one tenant, for the worker."""

    def __init__(
        self,
        database: Database,
        invitations: InvitationStore,
        rate_limits: RateLimitStore,
        agents: AgentStore,
        idempotency: IdempotencyStore,
    ) -> None:
        self._database = database
        self._invitations = invitations
        self._rate_limits = rate_limits
        self._agents = agents
        self._idempotency = idempotency

    async def ListDueTenants(self, request: pb.ListDueTenantsRequest, _context: Context) -> pb.ListDueTenantsResponse:
        if request.work == pb.DUE_WORK_USAGE:
            return await list_due_tenants(
                self._database, QUERIES["list_usage_tenants"], request, pb.ListDueTenantsResponse
            )
        at = now()
        return await list_due_tenants(
            self._database,
            QUERIES["list_expiry_tenants"],
            request,
            pb.ListDueTenantsResponse,
            at=at,
            requested_before=at - LIFETIME,
            idle_since=at - IDLE_BUCKET_AGE,
            retention_days=DEFAULT.retention_days,
        )

    async def DeleteExpired(self, request: pb.DeleteExpiredRequest, context: Context) -> pb.DeleteExpiredResponse:
        tenant_id, at = caller_of(context).require_tenant(), now()
        deleted_count = await self._invitations.delete_expired(tenant_id, at)
        async with self._database.transaction(tenant_id) as tx:
            deleted_count += await self._idempotency.delete_expired(tx, tenant_id, at)
            policy = await shared_policy_cache(self._database).get(tx, tenant_id)
            before = at - timedelta(days=policy.retention_days)
            for name in ("purge_old_subjects", "purge_old_policies"):
                deleted_count += await tx.execute(QUERIES[name], tenant_id=tenant_id, before=before, count=_FORMER_ROWS)
        deleted_count += await self._rate_limits.delete_idle_buckets(tenant_id, at)
        deleted_count += await self._agents.delete_purged(tenant_id, at)
        return pb.DeleteExpiredResponse(deleted_count=deleted_count)
