"""Connections between two transactions: the first one only read and is not ended yet, the next one ends it.

So a transaction that reads has no round trip of its own for its end, and whoever comes next needs nothing of the pool.
What it holds meanwhile are locks that keep tables from being altered, and now and then a snapshot: for a moment only.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from typing import TYPE_CHECKING, Any, NamedTuple

import asyncpg

if TYPE_CHECKING:
    from collections.abc import Callable

    Connection = asyncpg.pool.PoolConnectionProxy[asyncpg.Record]

# Whoever rests longer is called up: its transaction is ended, and it goes back to the pool. A loop's time may be behind
# by so much.
REST_SECONDS, _BEHIND_SECONDS = 0.02, 0.002
# The pool looks at what comes back to it, so each comes back now and then: after so many transactions.
_MAX_TRANSACTIONS = 1000


class ClosedConnection:
    """Stands in the place of a connection where a transaction is over: it may be in another's by then."""

    def __getattr__(self, name: str) -> Any:
        raise asyncpg.InterfaceError(f"{name}: the transaction is over")


class _DeferredCommit(NamedTuple):
    connection: Connection
    # How many transactions it was used for since it left the pool.
    turns: int
    since: float


class DeferredCommitPool:
    """Those of one pool; the one that came last is taken first."""

    def __init__(self, call_up: Callable[[Connection], object]) -> None:
        """Have whoever rests too long ended and given back by `call_up`."""
        self._call_up = call_up
        self._rests: list[_DeferredCommit] = []
        # Of those that are in use.
        self._turns: dict[Connection, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return how many rest, but for those that were lost meanwhile."""
        return sum(not _is_lost(rest.connection) for rest in self._rests)

    def take(self) -> Connection | None:
        """Return a connection that is inside of a transaction, which has to be ended first; None when nobody rests."""
        while self._rests:
            rest = self._rests.pop()
            # What was lost has gone back to the pool by itself.
            if not _is_lost(rest.connection):
                self._turns[rest.connection] = rest.turns
                return rest.connection
        return None

    def put(self, connection: Connection) -> bool:
        """Let a connection rest inside of its transaction, unless it has to go back to the pool: then say no."""
        turns = self._turns.pop(connection, 0) + 1
        if turns >= _MAX_TRANSACTIONS:
            return False
        self._rests.append(_DeferredCommit(connection, turns, asyncio.get_running_loop().time()))
        if self._timer is None:
            self._look_later()
        return True

    def left(self, connection: Connection) -> None:
        """Forget what is known of a connection that goes back to the pool."""
        self._turns.pop(connection, None)

    def dismiss(self) -> list[Connection]:
        """Return all that rest; they rest no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        rests, self._rests = self._rests, []
        return [rest.connection for rest in rests]

    def _look(self) -> None:
        """Call up those that rested long enough. They stand in the order in which they came."""
        before = asyncio.get_running_loop().time() - REST_SECONDS + _BEHIND_SECONDS
        late = next((place for place, rest in enumerate(self._rests) if rest.since > before), len(self._rests))
        called, self._rests = self._rests[:late], self._rests[late:]
        self._timer = None
        if self._rests:
            self._look_later()
        for rest in called:
            self._call_up(rest.connection)

    def _look_later(self) -> None:
        """Look again when the first has rested long enough; that is no work of the call that happens to come here."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(self._rests[0].since + REST_SECONDS, self._look, context=Context())


def _is_lost(connection: Connection) -> bool:
    try:
        return connection.is_closed()
    except asyncpg.InterfaceError:
        # The pool took it back when the server hung up.
        return True
