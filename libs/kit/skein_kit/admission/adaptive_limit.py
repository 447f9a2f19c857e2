"""The number of calls that a process runs at a time: as many as keep the queueing delay of shared resources short.

The measure is queueing delay: the delay of the event loop, and the wait for a connection of the pool. Breakwater uses
it too (Cho et al., "Overload Control for µs-scale RPCs with Breakwater", OSDI 2020). While the delay is below the
target and calls wait for the limit, the limit grows step by step. Above the target it shrinks in proportion to the
excess, by half at most. Latency is no measure: a call that waits for a lock or another machine uses no resource here.

Knows no clock, no loop and no metrics.
"""

from __future__ import annotations

from statistics import median

# Seconds between updates of the limit.
WINDOW_SECONDS = 0.1
# Fewer samples in a window are no measure; after the patience the window ends anyway.
_MIN_SAMPLES = 4
_MAX_WINDOW_SECONDS = 5.0
# Growth per window (a share of the limit, at least one call), shrinkage per excess over the target, and its bound.
_GROWTH_FACTOR = 0.05
_SHRINK_FACTOR = 0.1
_MIN_SHRINK = 0.5
# More samples of one resource in a window would not change the median much.
_MAX_SAMPLES = 256


class AdaptiveLimit:
    """A number of calls that adapts to the queueing delay."""

    def __init__(self, *, minimum: int, maximum: int, target_seconds: float) -> None:
        """Start at four times `minimum`: low enough for a cold start, high enough for a burst."""
        self.minimum = minimum
        self.maximum = max(minimum, maximum)
        self._target = target_seconds
        self._value = float(min(4 * minimum, self.maximum))
        self._samples: dict[str, list[float]] = {}
        self._window_ends = 0.0
        self._was_limiting = False

    @property
    def value(self) -> int:
        """The number of calls that may run."""
        return int(self._value)

    def observe_delay(self, resource: str, seconds: float) -> None:
        """Add a sample: work of a call waited this long for a shared resource."""
        samples = self._samples.get(resource)
        if samples is None:
            samples = self._samples[resource] = []
        if len(samples) < _MAX_SAMPLES:
            samples.append(seconds)

    def update(self, at: float, *, is_limiting: bool) -> None:
        """Adapt once per window. `is_limiting`: a call has to wait because of the limit."""
        self._was_limiting = self._was_limiting or is_limiting
        if at < self._window_ends:
            return
        delays = [median(samples) for samples in list(self._samples.values()) if len(samples) >= _MIN_SAMPLES]
        if delays:
            self._adapt(max(delays))
        elif at < self._window_ends + _MAX_WINDOW_SECONDS:
            # With few calls, a window lasts until it has enough samples.
            return
        self._samples.clear()
        self._was_limiting = False
        self._window_ends = at + WINDOW_SECONDS

    def _adapt(self, delay: float) -> None:
        if delay > self._target:
            factor = max(_MIN_SHRINK, 1 - _SHRINK_FACTOR * (delay - self._target) / self._target)
            self._value = max(float(self.minimum), self._value * factor)
        elif self._was_limiting:
            self._value = min(float(self.maximum), self._value + max(1.0, self._value * _GROWTH_FACTOR))


class DelayBroadcast:
    """Passes the queueing delays of this process to the limits of its services."""

    def __init__(self) -> None:
        """Start without limits."""
        self._limits: list[AdaptiveLimit] = []

    def add(self, limit: AdaptiveLimit) -> None:
        """Pass delays to a limit from now on."""
        self._limits.append(limit)

    def remove(self, limit: AdaptiveLimit) -> None:
        """Pass no further delays to a limit."""
        self._limits.remove(limit)

    def observe(self, resource: str, seconds: float) -> None:
        """Pass on that work of a call waited this long for a resource that all calls share."""
        for limit in self._limits:
            limit.observe_delay(resource, seconds)


# Sources: connection pools, the embedder, and the event loop.
DELAYS = DelayBroadcast()
