"""When a service that fails is left alone, and when it is tried again. No I/O; the clock is passed in."""

from __future__ import annotations

import random
import time
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# Failures in a row after which nobody asks any more.
MOST_FAILURES = 3
# How long it is left alone at first, and at most: twice as long after each probe that fails.
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0


class State(IntEnum):
    """How a circuit stands; the numbers are those of the metric."""

    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


class Circuit:
    """Counts what becomes of requests, and says whether to send another.

    Closed, every request goes. After MOST_FAILURES in a row it is open and none goes, for a pause with some chance in
    it, so that processes do not come back together. Then one goes as a probe: it closes the circuit or opens it for
    twice as long.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
        on_change: Callable[[State], None] = lambda _state: None,
    ) -> None:
        """`chance` returns a number from 0 to 1; `on_change` hears of every new state."""
        self._clock = clock
        self._chance = chance
        self._on_change = on_change
        self._state = State.CLOSED
        self._failures = 0
        self._pause = FIRST_PAUSE_SECONDS
        self._until = 0.0
        self._probing = False

    @property
    def state(self) -> State:
        """Return how it stands."""
        return self._state

    def passes(self) -> bool:
        """Say whether a request may go; whoever is told yes must say what became of it."""
        if self._state is State.CLOSED:
            return True
        if self._probing or self._clock() < self._until:
            return False
        self._probing = True
        self._become(State.HALF_OPEN)
        return True

    def succeeded(self) -> None:
        """A request was answered."""
        self._probing = False
        self._failures = 0
        self._pause = FIRST_PAUSE_SECONDS
        self._become(State.CLOSED)

    def failed(self) -> None:
        """A request was not answered, or not with what was asked for."""
        self._failures += 1
        if self._state is State.CLOSED and self._failures < MOST_FAILURES:
            return
        if self._state is State.OPEN:
            # One that was on its way when the circuit opened; it says nothing new.
            return
        self._open(self._pause * (0.5 + 0.5 * self._chance()))
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)

    def rests(self, seconds: float) -> None:
        """The service asked to be left alone for some time."""
        self._open(min(seconds, LONGEST_PAUSE_SECONDS))

    def withdrawn(self) -> None:
        """A request was given up, so nothing is known of it."""
        if self._probing:
            self._probing = False
            self._become(State.OPEN)

    def _open(self, seconds: float) -> None:
        self._probing = False
        self._until = self._clock() + seconds
        self._become(State.OPEN)

    def _become(self, state: State) -> None:
        if state is not self._state:
            self._state = state
            self._on_change(state)
