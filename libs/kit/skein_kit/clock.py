"""The wall clock of this process: it never goes back, even when the machine's clock does.

Ids, leases and windows use it. Therefore lists stay in the order of events, and a wait does not become an hour longer
when the machine's clock is set back. While it is ahead of that clock, it runs at half speed; when it is behind, it
jumps forward.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

_SPEED_AHEAD = 0.5


class Clock:
    """A clock of seconds since 1970, for any thread."""

    def __init__(
        self, wall_clock: Callable[[], float] = time.time, monotonic_clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`wall_clock` returns seconds since 1970 and may jump; `monotonic_clock` returns seconds and never does."""
        self._wall_clock = wall_clock
        self._monotonic_clock = monotonic_clock
        self._lock = threading.Lock()
        self._last_seconds = wall_clock()
        self._last_tick = monotonic_clock()

    def seconds(self) -> float:
        """Return the seconds since 1970."""
        with self._lock:
            tick = self._monotonic_clock()
            slowed_seconds = self._last_seconds + _SPEED_AHEAD * max(0.0, tick - self._last_tick)
            self._last_seconds, self._last_tick = max(slowed_seconds, self._wall_clock()), tick
            return self._last_seconds

    def now(self) -> datetime:
        """Return the time in UTC."""
        return datetime.fromtimestamp(self.seconds(), UTC)


CLOCK = Clock()
