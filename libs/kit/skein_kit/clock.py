"""The wall clock of this process: it never goes back, even when the machine's clock does.

Ids, leases and windows use it. Therefore lists stay in the order of events, and a wait does not become an hour longer
when the machine's clock is set back. While it is ahead of that clock, it runs at half speed; when it is behind, it
jumps forward.
"""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_SPEED_AHEAD = 0.5


class Clock:
    """A clock of seconds since 1970, for any thread."""

    def __init__(self, wall: Callable[[], float] = time.time, ticks: Callable[[], float] = time.monotonic) -> None:
        """`wall` returns seconds since 1970 and may jump; `ticks` returns seconds and never does."""
        self._wall = wall
        self._ticks = ticks
        self._one_at_a_time = threading.Lock()
        self._told = wall()
        self._tick = ticks()

    def seconds(self) -> float:
        """Return the seconds since 1970."""
        with self._one_at_a_time:
            tick = self._ticks()
            ahead = self._told + _SPEED_AHEAD * max(0.0, tick - self._tick)
            self._told, self._tick = max(ahead, self._wall()), tick
            return self._told

    def now(self) -> datetime:
        """Return the time in UTC."""
        return datetime.fromtimestamp(self.seconds(), UTC)


CLOCK = Clock()
