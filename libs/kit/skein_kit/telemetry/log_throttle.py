"""A throttle for log lines: the first of each kind within a time, for a bounded number of kinds."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound="Hashable")


class LogThrottle(Generic[K]):
    """Allows one line of each kind per `seconds`, for at most `max_kinds` kinds; it suppresses further kinds."""

    def __init__(self, seconds: float, *, max_kinds: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._max_kinds = max_kinds
        self._clock = clock
        # Oldest first.
        self._report_times: OrderedDict[K, float] = OrderedDict()

    def is_first(self, kind: K) -> bool:
        """Return whether to log this line, and remember its kind."""
        at = self._clock()
        while self._report_times and next(iter(self._report_times.values())) + self._seconds <= at:
            self._report_times.popitem(last=False)
        if kind in self._report_times or len(self._report_times) >= self._max_kinds:
            return False
        self._report_times[kind] = at
        return True
