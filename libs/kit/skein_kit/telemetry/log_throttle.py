"""What is reported once in a while instead of each time: the first of its kind within a time, of so many kinds."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

K = TypeVar("K", bound="Hashable")


class LogThrottle(Generic[K]):
    """Remembers for `seconds` what was reported, at most so many kinds: more are not reported."""

    def __init__(self, seconds: float, *, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._most = most
        self._clock = clock
        # The oldest first.
        self._reported: OrderedDict[K, float] = OrderedDict()

    def is_first(self, kind: K) -> bool:
        """Say whether to report this one; it is remembered as reported."""
        at = self._clock()
        while self._reported and next(iter(self._reported.values())) + self._seconds <= at:
            self._reported.popitem(last=False)
        if kind in self._reported or len(self._reported) >= self._most:
            return False
        self._reported[kind] = at
        return True
