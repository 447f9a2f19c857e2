"""The time of day as this process tells it: never earlier than it was told before, however the machine's clock jumps.

Ids, leases and windows are made of it, so lists stay in the order of what happened, and nothing that waits for a moment
waits for an hour because somebody set the clock back. Ahead of the machine's clock it runs at half speed until that
has caught up; behind, it follows at once.
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
    """Tells seconds since 1970, from any thread."""

    def __init__(self, wall: Callable[[], float] = time.time, ticks: Callable[[], float] = time.monotonic) -> None:
        """Follow the clock on the wall, and measure by another that never jumps."""
        self._wall = wall
        self._ticks = ticks
        self._one_at_a_time = threading.Lock()
        self._told = wall()
        self._tick = ticks()

    def seconds(self) -> float:
        """Return the time."""
        with self._one_at_a_time:
            tick = self._ticks()
            ahead = self._told + _SPEED_AHEAD * max(0.0, tick - self._tick)
            self._told, self._tick = max(ahead, self._wall()), tick
            return self._told

    def now(self) -> datetime:
        """Return the time in UTC."""
        return datetime.fromtimestamp(self.seconds(), UTC)


CLOCK = Clock()
