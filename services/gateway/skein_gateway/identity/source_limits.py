"""Rate limits of bad credentials: token buckets for each source and for all sources together.

A source is an IPv4 address or an IPv6 /64. A successful exchange costs nothing.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from skein_gateway.rate_limits.limiter import LIMITED
from skein_kit.errors import RateLimited

KIND = "unproven_credentials"
# Default of failed exchanges a second per source; all sources together may have ten times as many.
SOURCE_RATE = 10.0
_TOTAL_FACTOR = 10
# A burst is worth this many seconds of the rate.
_BURST_SECONDS = 10.0
MAX_SOURCES = 20_000


@dataclass(slots=True)
class _Bucket:
    """A token bucket. Rate in tokens a second, times in seconds of the clock."""

    rate: float
    burst: float
    tokens: float
    time: float

    def refill(self, now: float) -> None:
        self.tokens = min(self.burst, self.tokens + (now - self.time) * self.rate)
        self.time = now

    def wait_seconds(self) -> float:
        """Return the seconds until a token is available."""
        return max(0.0, (1.0 - self.tokens) / self.rate)


class SourceRateLimiter:
    """Buckets of the most recent sources, and one for all."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, rate: float = SOURCE_RATE) -> None:
        """Allow `rate` failures a second per source."""
        self._clock = clock
        self._rate = rate
        self._total = self._full_bucket(rate * _TOTAL_FACTOR)
        self._sources: OrderedDict[str, _Bucket] = OrderedDict()

    def charge(self, source: str) -> None:
        """Take a token of the source and one of the total. Raises RateLimited and takes nothing if one is empty."""
        buckets = (self._bucket_of(source), self._total)
        now = self._clock()
        for bucket in buckets:
            bucket.refill(now)
        wait = max(bucket.wait_seconds() for bucket in buckets)
        if wait > 0:
            LIMITED.labels(KIND).inc()
            raise RateLimited(retry_after=wait, kind=KIND)
        for bucket in buckets:
            bucket.tokens -= 1

    def give_back(self, source: str) -> None:
        """Return the tokens of an exchange that succeeded or did not finish."""
        for bucket in (self._bucket_of(source), self._total):
            bucket.tokens = min(bucket.burst, bucket.tokens + 1)

    def _bucket_of(self, source: str) -> _Bucket:
        bucket = self._sources.get(source)
        if bucket is None:
            bucket = self._sources[source] = self._full_bucket(self._rate)
            if len(self._sources) > MAX_SOURCES:
                self._sources.popitem(last=False)
        self._sources.move_to_end(source)
        return bucket

    def _full_bucket(self, rate: float) -> _Bucket:
        burst = rate * _BURST_SECONDS
        return _Bucket(rate, burst, burst, self._clock())
