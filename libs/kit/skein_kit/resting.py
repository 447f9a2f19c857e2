"""Connections between two transactions: the first one only read and is not ended yet, the next one ends it.

So a transaction that reads has no round trip of its own for its end, and whoever comes next needs nothing of the pool.
Between two statements a transaction that reads sees nothing and keeps nothing from being vacuumed; what it holds are
locks that keep tables from being altered, and those for a moment only.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

import asyncpg

if TYPE_CHECKING:
    from collections.abc import Callable

    Connection = asyncpg.pool.PoolConnectionProxy[asyncpg.Record]

# Whoever rests longer is called up: its transaction is ended, and it goes back to the pool.
REST_SECONDS = 0.05
# The pool looks at what comes back to it, so each comes back now and then: after so many transactions.
_MOST_TURNS = 1000


class Over:
    """Stands in the place of a connection where a transaction is over: it may be in another's by then."""

    def __getattr__(self, name: str) -> Any:
        raise asyncpg.InterfaceError(f"{name}: the transaction is over")


class _Rest(NamedTuple):
    connection: Connection
    # How many transactions it was used for since it left the pool.
    turns: int
    since: float


class Resting:
    """Those of one pool; the one that came last is taken first."""

    def __init__(self, call_up: Callable[[Connection], object]) -> None:
        """Have whoever rests too long ended and given back by `call_up`."""
        self._call_up = call_up
        self._rests: list[_Rest] = []
        # Of those that are in use.
        self._turns: dict[Connection, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return how many rest."""
        return len(self._rests)

    def take(self) -> Connection | None:
        """Return a connection that is inside of a transaction, which has to be ended first; None when nobody rests."""
        while self._rests:
            rest = self._rests.pop()
            if not rest.connection.is_closed():
                self._turns[rest.connection] = rest.turns
                return rest.connection
            # The server hung up on it.
            self._call_up(rest.connection)
        return None

    def put(self, connection: Connection) -> bool:
        """Let a connection rest inside of its transaction, unless it has to go back to the pool: then say no."""
        turns = self._turns.pop(connection, 0) + 1
        if turns >= _MOST_TURNS:
            return False
        loop = asyncio.get_running_loop()
        self._rests.append(_Rest(connection, turns, loop.time()))
        if self._timer is None:
            self._timer = loop.call_later(REST_SECONDS, self._look)
        return True

    def left(self, connection: Connection) -> None:
        """Forget what is known of a connection that goes back to the pool."""
        self._turns.pop(connection, None)

    def all(self) -> list[Connection]:
        """Return all that rest; they rest no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        rests, self._rests = self._rests, []
        return [rest.connection for rest in rests]

    def _look(self) -> None:
        """Call up those that rested long enough. They stand in the order in which they came."""
        loop = asyncio.get_running_loop()
        before = loop.time() - REST_SECONDS
        late = next((place for place, rest in enumerate(self._rests) if rest.since > before), len(self._rests))
        called, self._rests = self._rests[:late], self._rests[late:]
        self._timer = loop.call_later(REST_SECONDS, self._look) if self._rests else None
        for rest in called:
            self._call_up(rest.connection)
