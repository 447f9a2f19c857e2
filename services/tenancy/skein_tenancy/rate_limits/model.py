"""Rate limits, their defaults, and leases of calls. No gRPC, no SQL, no clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from skein_tenancy.quotas.model import CALLER_PER_MINUTE, PER_DAY, PER_HOUR, PER_MINUTE
from skein_tenancy.settings import TenancySettings

# A gateway drops the calls it leased after this time, so that a new limit takes effect soon.
LEASE_SECONDS = 5.0
# After this time every bucket is full, and the counts of its hour and day are over.
IDLE_BUCKET_AGE = timedelta(days=1)
# A bucket that was refilled longer than this after now was refilled by a clock that was ahead.
MAX_CLOCK_LEAD = timedelta(minutes=1)
# One key or account gets half of its tenant's rate, so that one program leaves the others calls.
_CALLER_SHARE = 0.5
# A bucket holds the calls of two seconds, and one at least: the pages of one screen, the writes of one conversation.
_BURST_SECONDS = 2.0
_MINUTE_SECONDS, _HOUR_SECONDS, _DAY_SECONDS = 60.0, 3600.0, 86400.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RateLimit:
    """A token bucket of calls, with maximums for an hour and a day."""

    # The quota's kind that sets the rate, as shown to a caller who exhausts it.
    kind: str
    # Calls a second.
    rate: float
    # Calls at once.
    burst: float
    max_per_hour: int | None = None
    max_per_day: int | None = None

    @property
    def sustained_rate(self) -> float:
        """Return the calls a second that the limit lets through all day."""
        rate = self.rate
        if self.max_per_hour is not None:
            rate = min(rate, self.max_per_hour / _HOUR_SECONDS)
        if self.max_per_day is not None:
            rate = min(rate, self.max_per_day / _DAY_SECONDS)
        return rate

    def lease_size(self, requested_count: int) -> int:
        """Return the calls to lease at once: those of one second at most, so that an unused lease wastes little."""
        return min(requested_count, max(1, int(self.sustained_rate)))


@dataclass(frozen=True, kw_only=True, slots=True)
class DefaultRateLimits:
    """The rate limits where no quota sets one: calls a second, and calls at once."""

    tenant_rate: float
    tenant_burst: float
    caller_rate: float
    caller_burst: float

    @classmethod
    def from_settings(cls, settings: TenancySettings) -> DefaultRateLimits:
        tenant_rate = settings.tenant_requests_per_second
        caller_rate = tenant_rate * _CALLER_SHARE
        return cls(
            tenant_rate=tenant_rate,
            tenant_burst=max(1.0, tenant_rate * _BURST_SECONDS),
            caller_rate=caller_rate,
            caller_burst=max(1.0, caller_rate * _BURST_SECONDS),
        )

    def of_tenant(self, limits: Mapping[str, int]) -> RateLimit:
        """Return the limit of a tenant with these limits by kind."""
        rate, burst = _bucket(limits.get(PER_MINUTE), self.tenant_rate, self.tenant_burst)
        return RateLimit(
            kind=PER_MINUTE,
            rate=rate,
            burst=burst,
            max_per_hour=limits.get(PER_HOUR),
            max_per_day=limits.get(PER_DAY),
        )

    def of_caller(self, limits: Mapping[str, int]) -> RateLimit:
        """Return the limit of each caller in a tenant with these limits by kind."""
        rate, burst = _bucket(limits.get(CALLER_PER_MINUTE), self.caller_rate, self.caller_burst)
        return RateLimit(kind=CALLER_PER_MINUTE, rate=rate, burst=burst)


@dataclass(frozen=True, kw_only=True, slots=True)
class Bucket:
    """What remains in a bucket after a lease, and when its hour and its day end."""

    tokens: float
    hour_count: int
    day_count: int
    hour_remaining_seconds: float
    day_remaining_seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class RateLease:
    """Calls taken from a rate limit."""

    count: int = 0
    # The kind of the limit that is exhausted; empty: none.
    exhausted_kind: str = ""
    # How long the limit stays exhausted.
    retry_seconds: float = 0.0

    @classmethod
    def create(cls, limit: RateLimit, count: int, bucket: Bucket) -> RateLease:
        """Name the limit that `bucket` shows to be exhausted; the longest one wins."""
        if limit.max_per_day is not None and bucket.day_count >= limit.max_per_day:
            return cls(count=count, exhausted_kind=PER_DAY, retry_seconds=bucket.day_remaining_seconds)
        if limit.max_per_hour is not None and bucket.hour_count >= limit.max_per_hour:
            return cls(count=count, exhausted_kind=PER_HOUR, retry_seconds=bucket.hour_remaining_seconds)
        if bucket.tokens < 1:
            seconds = (1 - bucket.tokens) / limit.rate if limit.rate > 0 else _MINUTE_SECONDS
            return cls(count=count, exhausted_kind=limit.kind, retry_seconds=min(seconds, _HOUR_SECONDS))
        return cls(count=count)


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestLease:
    """The leases of one call of a gateway, and the limits they came from."""

    tenant: RateLease
    caller: RateLease
    tenant_limit: RateLimit
    caller_limit: RateLimit


def _bucket(per_minute: int | None, rate: float, burst: float) -> tuple[float, float]:
    """Return rate and burst of a bucket: the calls of a minute may come at once."""
    return (rate, burst) if per_minute is None else (per_minute / _MINUTE_SECONDS, float(per_minute))
