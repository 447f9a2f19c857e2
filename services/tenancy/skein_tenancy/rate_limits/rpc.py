"""The RPC of rate limits: parse, one call, reply."""

from __future__ import annotations

from skein.tenancy.v1 import limits_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.identity.permissions import OPERATOR, SYSTEM
from skein_tenancy.rate_limits import convert
from skein_tenancy.rate_limits.model import DefaultRateLimits
from skein_tenancy.rate_limits.store import RateLimitStore


class RateLimitHandlers:
    """Leases of calls, for gateways."""

    def __init__(self, store: RateLimitStore, defaults: DefaultRateLimits) -> None:
        self._store = store
        self._defaults = defaults

    async def AcquireRateLimit(
        self, request: pb.AcquireRateLimitRequest, context: Context
    ) -> pb.AcquireRateLimitResponse:
        caller = caller_of(context)
        if not caller.permissions.isdisjoint({OPERATOR, SYSTEM}):
            return convert.unlimited_lease(request)
        lease = await self._store.lease_requests(
            caller.tenant_id,
            caller.principal,
            tenant_count=request.tenant_tokens,
            caller_count=request.caller_tokens,
            defaults=self._defaults,
        )
        return convert.request_lease(lease)
