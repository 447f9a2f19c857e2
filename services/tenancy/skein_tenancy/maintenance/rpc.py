"""The RPC of maintenance: one call to each feature that has expired rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.tenancy.v1 import members_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.ids import now

if TYPE_CHECKING:
    from skein_tenancy.agents.store import AgentStore
    from skein_tenancy.idempotency import IdempotentWrites
    from skein_tenancy.invitations.store import InvitationStore
    from skein_tenancy.rate_limits.store import RateLimitStore


class MaintenanceHandlers:
    """Periodic work on one tenant, for the worker."""

    def __init__(
        self, invitations: InvitationStore, rate_limits: RateLimitStore, agents: AgentStore, writes: IdempotentWrites
    ) -> None:
        self._invitations = invitations
        self._rate_limits = rate_limits
        self._agents = agents
        self._writes = writes

    async def DeleteExpired(self, request: pb.DeleteExpiredRequest, context: Context) -> pb.DeleteExpiredResponse:
        tenant_id, at = caller_of(context).tenant(), now()
        deleted = await self._invitations.delete_expired(tenant_id, at)
        deleted += await self._writes.delete_expired(tenant_id, at)
        deleted += await self._rate_limits.delete_idle_buckets(tenant_id, at)
        deleted += await self._agents.delete_purged(tenant_id, at)
        return pb.DeleteExpiredResponse(deleted_count=deleted)
