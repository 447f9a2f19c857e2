"""A throttle for log lines: the first of each kind within a time, for a bounded number of kinds."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

K = TypeVar("K", bound="Hashable")


class LogThrottle(Generic[K]):
    """Allows one line of each kind per `seconds`, for at most `most` kinds; it suppresses further kinds."""

    def __init__(self, seconds: float, *, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._most = most
        self._clock = clock
        # Oldest first.
        self._reported: OrderedDict[K, float] = OrderedDict()

    def is_first(self, kind: K) -> bool:
        """Return whether to log this line, and remember its kind."""
        at = self._clock()
        while self._reported and next(iter(self._reported.values())) + self._seconds <= at:
            self._reported.popitem(last=False)
        if kind in self._reported or len(self._reported) >= self._most:
            return False
        self._reported[kind] = at
        return True
