"""How many calls a process works on at once: as many as it can without any of them waiting long for what all share.

The measure is queueing delay, as in Breakwater (Cho et al., "Overload Control for µs-scale RPCs with Breakwater", OSDI
2020): how late the event loop comes to what is ready, how long a connection of the pool is waited for. While that stays
below the target and calls have to wait outside, the limit grows step by step; above it, it shrinks by a share that
follows the excess, by half at most. Latency itself says nothing here: a call that waits for a lock or for another
machine takes no room.

Knows no clock, no loop and no metrics.
"""

from __future__ import annotations

from statistics import median

# The limit is looked at so often.
WINDOW_SECONDS = 0.1
# Fewer samples in a window say nothing about it.
_FEW = 4
_PATIENCE_SECONDS = 5.0
# How fast the limit grows (a share of it, at least one) and how it shrinks with the excess over the target.
_GROWTH = 0.05
_SHRINKAGE = 0.1
_LEAST_LEFT = 0.5
# More samples of one resource in a window would not change the median much.
_MANY = 256


class AdaptiveLimit:
    """A number of calls that follows the delay."""

    def __init__(self, *, least: int, most: int, target_seconds: float) -> None:
        """Begin in between: low enough for a cold start, high enough for a burst."""
        self.least = least
        self.most = max(least, most)
        self._target = target_seconds
        self._exact = float(min(4 * least, self.most))
        self._samples: dict[str, list[float]] = {}
        self._window_ends = 0.0
        self._was_short = False

    @property
    def value(self) -> int:
        """Return how many calls may be worked on."""
        return int(self._exact)

    def delayed(self, resource: str, seconds: float) -> None:
        """Tell how long something of a call just waited for a resource."""
        samples = self._samples.get(resource)
        if samples is None:
            samples = self._samples[resource] = []
        if len(samples) < _MANY:
            samples.append(seconds)

    def look(self, at: float, *, is_short: bool) -> None:
        """Adapt once in a window. `is_short`: a call has to wait because of the limit."""
        self._was_short = self._was_short or is_short
        if at < self._window_ends:
            return
        delays = [median(samples) for samples in list(self._samples.values()) if len(samples) >= _FEW]
        if delays:
            self._follow(max(delays))
        elif at < self._window_ends + _PATIENCE_SECONDS:
            # Few calls come: it takes them longer to say something.
            return
        self._samples.clear()
        self._was_short = False
        self._window_ends = at + WINDOW_SECONDS

    def _follow(self, delay: float) -> None:
        if delay > self._target:
            left = max(_LEAST_LEFT, 1 - _SHRINKAGE * (delay - self._target) / self._target)
            self._exact = max(float(self.least), self._exact * left)
        elif self._was_short:
            self._exact = min(float(self.most), self._exact + max(1.0, self._exact * _GROWTH))


class Delays:
    """What waits in this process, told to every limit that wants to know."""

    def __init__(self) -> None:
        """Tell nobody yet."""
        self._limits: list[AdaptiveLimit] = []

    def add(self, limit: AdaptiveLimit) -> None:
        """Tell a limit from now on."""
        self._limits.append(limit)

    def remove(self, limit: AdaptiveLimit) -> None:
        """Tell it nothing any more."""
        self._limits.remove(limit)

    def waited(self, resource: str, seconds: float) -> None:
        """Say that work of a call waited so long for a resource that all calls share."""
        for limit in self._limits:
            limit.delayed(resource, seconds)


# Of this process: pools of connections, the embedder.
DELAYS = Delays()
