"""What unproven credentials may cost auth: so many exchanges a second for each source, and for all of them together.

A token bucket for each source of calls (an IPv4 address, an IPv6 /64). An exchange that ends well costs nothing.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein_gateway.rate_limits.limiter import LIMITED
from skein_kit.errors import RateLimited

if TYPE_CHECKING:
    from collections.abc import Callable

KIND = "unproven_credentials"
# Failed exchanges a second of one source unless a setting says so; all sources together may have ten times as many.
SOURCE_RATE = 10.0
_SOURCES_IN_TOTAL = 10
# Failed exchanges at once are those of so many seconds.
_BURST_SECONDS = 10.0
MAX_SOURCES = 20_000


@dataclass(slots=True)
class _Bucket:
    """A token bucket; times are the clock's."""

    rate: float
    burst: float
    tokens: float
    time: float

    def fill(self, at: float) -> None:
        self.tokens = min(self.burst, self.tokens + (at - self.time) * self.rate)
        self.time = at

    def wait_seconds(self) -> float:
        """Return the seconds until there is a token."""
        return max(0.0, (1.0 - self.tokens) / self.rate)


class SourceRateLimiter:
    """The buckets of the sources that were seen last, and the bucket of all."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, rate: float = SOURCE_RATE) -> None:
        """Let one source fail `rate` times a second."""
        self._clock = clock
        self._rate = rate
        self._total = self._full(rate * _SOURCES_IN_TOTAL)
        self._sources: OrderedDict[str, _Bucket] = OrderedDict()

    def charge(self, source: str) -> None:
        """Take a token of the source and one of all. Raises RateLimited, with nothing taken."""
        buckets = (self._source(source), self._total)
        at = self._clock()
        for bucket in buckets:
            bucket.fill(at)
        after = max(bucket.wait_seconds() for bucket in buckets)
        if after > 0:
            LIMITED.labels(KIND).inc()
            raise RateLimited(after=after, kind=KIND)
        for bucket in buckets:
            bucket.tokens -= 1

    def give_back(self, source: str) -> None:
        """Put back what was charged for an exchange that ended well, or not at all."""
        for bucket in (self._source(source), self._total):
            bucket.tokens = min(bucket.burst, bucket.tokens + 1)

    def _source(self, source: str) -> _Bucket:
        bucket = self._sources.get(source)
        if bucket is None:
            bucket = self._sources[source] = self._full(self._rate)
            if len(self._sources) > MAX_SOURCES:
                self._sources.popitem(last=False)
        self._sources.move_to_end(source)
        return bucket

    def _full(self, rate: float) -> _Bucket:
        burst = rate * _BURST_SECONDS
        return _Bucket(rate, burst, burst, self._clock())
