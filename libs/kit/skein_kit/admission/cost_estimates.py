"""What a call will probably cost: the processor time of earlier calls of its method, of its caller and its size. Pure.

A method costs one tenant much more than another, because it reads what that tenant has stored.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

# Seconds of a call of which nothing is known, and of each byte of its request: what parsing and storing take.
_INITIAL_SECONDS = 0.01
_SECONDS_PER_BYTE = 2e-7
# Requests up to this size are alike; from then on, those within a factor of four.
_SMALL_BYTES = 16 * 1024
# Weights of a new observation in the running mean: a dear call is believed sooner than a cheap one.
_RISE, _FALL = 0.5, 0.2
# Estimates in memory; one that is dropped begins anew.
_MAX_ESTIMATES = 20_000


class CostEstimates:
    """Running means of processor time, in seconds."""

    def __init__(self) -> None:
        """Start without observations."""
        # The estimate used last comes last.
        self._means: OrderedDict[tuple[str, Hashable, int], float] = OrderedDict()

    def expect(self, path: str, key: Hashable, size: int) -> float:
        """Return the seconds that a call of a method will take for a tenant, with a request of so many bytes."""
        own = (path, key, _size_class(size))
        for known in (own, (path, None, own[2])):
            mean = self._means.get(known)
            if mean is not None:
                self._means.move_to_end(known)
                return mean
        return _initial(size)

    def observe(self, path: str, key: Hashable, size: int, seconds: float) -> None:
        """Note the seconds that a call took."""
        size_class = _size_class(size)
        # That of all tenants is for a tenant without one of its own.
        for known, rise in (((path, key, size_class), _RISE), ((path, None, size_class), _FALL)):
            mean = self._means.get(known)
            if mean is None:
                # The first call of a process fills caches: by itself it makes no cheap method a costly one.
                mean, rise = min(_initial(size), seconds), _FALL  # noqa: PLW2901 - the weight of this observation.
            self._means[known] = mean + (seconds - mean) * (rise if seconds > mean else _FALL)
            self._means.move_to_end(known)
        while len(self._means) > _MAX_ESTIMATES:
            self._means.popitem(last=False)


def _initial(size: int) -> float:
    return _INITIAL_SECONDS + size * _SECONDS_PER_BYTE


def _size_class(size: int) -> int:
    return (size // _SMALL_BYTES).bit_length() // 2
