"""The RPC of rate limits: parse, one call, reply."""

from __future__ import annotations

from datetime import timedelta

from google.protobuf.duration_pb2 import Duration

from skein.tenancy.v1 import limits_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.identity.permissions import OPERATOR, SYSTEM
from skein_tenancy.rate_limits.model import LEASE_SECONDS, DefaultRateLimits, RequestLease
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
            return unlimited_lease(request)
        lease = await self._store.lease_requests(
            caller.tenant_id,
            caller.principal,
            tenant_count=request.tenant_tokens,
            caller_count=request.caller_tokens,
            defaults=self._defaults,
        )
        return request_lease(lease)


def request_lease(lease: RequestLease) -> pb.AcquireRateLimitResponse:
    """Convert leases; of two exhausted limits, name the one that stays exhausted longer."""
    binding_lease = max(lease.tenant, lease.caller, key=lambda part: part.retry_seconds)
    return pb.AcquireRateLimitResponse(
        tenant_tokens=lease.tenant.count,
        caller_tokens=lease.caller.count,
        lifetime=_duration(LEASE_SECONDS),
        retry_delay=_duration(binding_lease.retry_seconds) if binding_lease.exhausted_kind else None,
        exhausted_limit=binding_lease.exhausted_kind,
        tenant_rate=lease.tenant_limit.sustained_rate,
        caller_rate=lease.caller_limit.sustained_rate,
    )


def unlimited_lease(request: pb.AcquireRateLimitRequest) -> pb.AcquireRateLimitResponse:
    """Grant every requested call, to callers without a limit."""
    return pb.AcquireRateLimitResponse(
        tenant_tokens=request.tenant_tokens,
        caller_tokens=request.caller_tokens,
        lifetime=_duration(LEASE_SECONDS),
        tenant_rate=float("inf"),
        caller_rate=float("inf"),
    )


def _duration(seconds: float) -> Duration:
    result = Duration()
    result.FromTimedelta(timedelta(seconds=seconds))
    return result
