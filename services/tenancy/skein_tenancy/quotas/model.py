"""What a tenant or an organization may have at most, and how many calls are let through. No gRPC, no SQL, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from skein_kit.errors import FieldInvalid
from skein_kit.rpc import well_known_types

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from skein.tenancy.v1 import limits_pb2 as pb

# What is counted as it comes and goes, by the names of Quota's fields.
COUNTED_KINDS = (
    "members", "agents", "subjects", "tools", "api_keys", "sessions", "messages", "memories", "links", "blocks",
    "snapshots", "agent_states", "session_items", "watches",
)  # fmt: skip
TENANTS = "tenants"
PER_MINUTE, PER_HOUR, PER_DAY = "requests_per_minute", "requests_per_hour", "requests_per_day"
CALLER_PER_MINUTE = "caller_requests_per_minute"
RATES = (PER_MINUTE, PER_HOUR, PER_DAY, CALLER_PER_MINUTE)
OF_TENANT = (*RATES, *COUNTED_KINDS)
OF_ORGANIZATION = (*OF_TENANT, TENANTS)
# What a gateway was granted lapses after so many seconds, so that a new limit holds soon.
LEASE_SECONDS = 5.0
# After so long every bucket is full, and no count of a day is left.
IDLE_BUCKET_AGE = timedelta(days=1)
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0


@dataclass(frozen=True, kw_only=True, slots=True)
class QuotaChange:
    """Limits to set, by kind; None takes one away."""

    # None: of the tenant at hand.
    organization_id: UUID | None
    revision: int
    limits: Mapping[str, int | None]

    @classmethod
    def of(cls, request: pb.UpdateQuotaRequest, organization_id: UUID | None) -> QuotaChange:
        """Read the limits that the mask names; all when it names none."""
        quota = request.quota
        if organization_id is None and quota.HasField(TENANTS):
            raise FieldInvalid(violations=[(f"quota.{TENANTS}", "is a limit of organizations only")])
        kinds = well_known_types.updated_fields(
            request.update_mask, OF_TENANT if organization_id is None else OF_ORGANIZATION
        )
        limits = {kind: getattr(quota, kind) if quota.HasField(kind) else None for kind in sorted(kinds)}
        return cls(organization_id=organization_id, revision=quota.revision, limits=limits)


@dataclass(frozen=True, kw_only=True, slots=True)
class RateLimit:
    """How many calls are let through: so many a second, some at once, and no more than so many in an hour and a day."""

    # The limit that sets the rate, for whoever is told that it is exhausted.
    kind: str
    rate: float
    burst: float
    hour_most: int | None = None
    day_most: int | None = None

    @property
    def pace(self) -> float:
        """Return how many calls a second it lets through for long."""
        pace = self.rate
        if self.hour_most is not None:
            pace = min(pace, self.hour_most / _HOUR)
        if self.day_most is not None:
            pace = min(pace, self.day_most / _DAY)
        return pace

    def chunk(self, wanted: int) -> int:
        """Return how many to grant at once: no more than a second's worth, so that what lapses unspent is little."""
        return min(wanted, max(1, int(self.pace)))


@dataclass(frozen=True, kw_only=True, slots=True)
class DefaultRateLimits:
    """What holds where no limit is set: calls a second, and calls at once."""

    tenant_rate: float
    tenant_burst: float
    caller_rate: float
    caller_burst: float

    def of_tenant(self, limits: Mapping[str, int]) -> RateLimit:
        rate, burst = _bucket(limits.get(PER_MINUTE), self.tenant_rate, self.tenant_burst)
        return RateLimit(
            kind=PER_MINUTE, rate=rate, burst=burst, hour_most=limits.get(PER_HOUR), day_most=limits.get(PER_DAY)
        )

    def of_caller(self, limits: Mapping[str, int]) -> RateLimit:
        rate, burst = _bucket(limits.get(CALLER_PER_MINUTE), self.caller_rate, self.caller_burst)
        return RateLimit(kind=CALLER_PER_MINUTE, rate=rate, burst=burst)


@dataclass(frozen=True, kw_only=True, slots=True)
class RateLease:
    """What came of asking an allowance for calls."""

    count: int
    # The limit that kept it from being more; empty: none.
    exhausted: str = ""
    # When asking again makes sense.
    after: float = 0.0


def rate_lease(
    allowance: RateLimit, *, count: int, tokens: float, hour_count: int, day_count: int, until: tuple[float, float]
) -> RateLease:
    """Say what kept a grant from being more, given what is left after it and when (seconds) hour and day are over."""
    if allowance.day_most is not None and day_count >= allowance.day_most:
        return RateLease(count=count, exhausted=PER_DAY, after=until[1])
    if allowance.hour_most is not None and hour_count >= allowance.hour_most:
        return RateLease(count=count, exhausted=PER_HOUR, after=until[0])
    if tokens < 1:
        after = (1 - tokens) / allowance.rate if allowance.rate > 0 else _MINUTE
        return RateLease(count=count, exhausted=allowance.kind, after=min(after, _HOUR))
    return RateLease(count=count)


def _bucket(per_minute: int | None, rate: float, burst: float) -> tuple[float, float]:
    """Return the rate and the size of a bucket: a limit of a minute may be used up at once."""
    return (rate, burst) if per_minute is None else (per_minute / _MINUTE, float(per_minute))
