"""A circuit breaker: when a failing service gets no requests, and when it is tried again. No I/O."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from enum import IntEnum

# Failures in a row that open the circuit.
MAX_FAILURES = 3
# The first pause; each probe that fails doubles it, up to the second value.
FIRST_PAUSE_SECONDS = 1.0
MAX_PAUSE_SECONDS = 30.0


class CircuitState(IntEnum):
    """States of a circuit breaker, with the numbers of the metric."""

    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


class CircuitBreaker:
    """Counts failed requests, and decides whether to send another.

    A closed circuit sends every request. MAX_FAILURES in a row open it: none is sent during a pause, which is random so
    that processes do not return together. Then one request is sent as a probe. It closes the circuit, or opens it for
    twice as long.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        random_source: Callable[[], float] = random.random,
        on_change: Callable[[CircuitState], None] = lambda _state: None,
    ) -> None:
        """`random_source` returns numbers from 0 to 1; `on_change` is called with every new state."""
        self._clock = clock
        self._random_source = random_source
        self._on_change = on_change
        self._state = CircuitState.CLOSED
        self._failures = 0
        self._pause = FIRST_PAUSE_SECONDS
        self._until = 0.0
        self._is_probing = False

    @property
    def state(self) -> CircuitState:
        """The present state."""
        return self._state

    @property
    def remaining_seconds(self) -> float:
        """The seconds until the next request is sent."""
        return max(0.0, self._until - self._clock())

    def allow_request(self) -> bool:
        """Return whether to send a request. The caller of an allowed one must report its end to one of the others."""
        if self._state is CircuitState.CLOSED:
            return True
        if self._is_probing or self._clock() < self._until:
            return False
        self._is_probing = True
        self._change(CircuitState.HALF_OPEN)
        return True

    def on_success(self) -> None:
        """Record a response."""
        self._is_probing = False
        self._failures = 0
        self._pause = FIRST_PAUSE_SECONDS
        self._change(CircuitState.CLOSED)

    def on_failure(self) -> None:
        """Record a missing or invalid response."""
        self._failures += 1
        if self._state is CircuitState.CLOSED and self._failures < MAX_FAILURES:
            return
        if self._state is CircuitState.OPEN:
            # The request was sent before the circuit opened.
            return
        self._open(self._pause * (0.5 + 0.5 * self._random_source()))
        self._pause = min(2 * self._pause, MAX_PAUSE_SECONDS)

    def open_for(self, seconds: float) -> None:
        """Open the circuit for the time that the service asked for, at most MAX_PAUSE_SECONDS."""
        self._open(min(seconds, MAX_PAUSE_SECONDS))

    def on_cancelled(self) -> None:
        """Record a request whose outcome is unknown."""
        if self._is_probing:
            self._is_probing = False
            self._change(CircuitState.OPEN)

    def _open(self, seconds: float) -> None:
        self._is_probing = False
        self._until = self._clock() + seconds
        self._change(CircuitState.OPEN)

    def _change(self, state: CircuitState) -> None:
        if state is not self._state:
            self._state = state
            self._on_change(state)
