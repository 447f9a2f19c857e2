"""Connections whose read-only transaction is still open: the next transaction on them commits it.

A read-only transaction so saves the round trip of its commit, and the next one the visit to the pool. Until then its
connection keeps locks that block ALTER TABLE, and sometimes a snapshot: for DEFER_SECONDS at most.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from typing import TYPE_CHECKING, Any, NamedTuple

import asyncpg

if TYPE_CHECKING:
    from collections.abc import Callable

    Connection = asyncpg.pool.PoolConnectionProxy[asyncpg.Record]

# Connections idle longer than this are committed and returned to the pool. The loop's clock may lag by the second.
DEFER_SECONDS, _CLOCK_LAG_SECONDS = 0.02, 0.002
# The pool checks connections when they return, so each one returns after this number of transactions.
_MAX_TRANSACTIONS = 1000


class ClosedConnection:
    """Replaces the connection of a finished transaction: another transaction may use it by then."""

    def __getattr__(self, name: str) -> Any:
        raise asyncpg.InterfaceError(f"{name}: the transaction is over")


class _DeferredCommit(NamedTuple):
    connection: Connection
    # Transactions on the connection since it left the pool.
    transactions: int
    since: float


class DeferredCommitPool:
    """The connections of one pool that wait for their commit. The last one in is the first one out."""

    def __init__(self, on_idle_timeout: Callable[[Connection], object]) -> None:
        """`on_idle_timeout` commits a connection and returns it to the pool."""
        self._on_idle_timeout = on_idle_timeout
        self._deferred: list[_DeferredCommit] = []
        # Transactions of the connections in use.
        self._transactions: dict[Connection, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return the number of waiting connections, without those that the server closed meanwhile."""
        return sum(not _is_lost(entry.connection) for entry in self._deferred)

    def take(self) -> Connection | None:
        """Return a connection with an open transaction, which the caller commits first; None when there is none."""
        while self._deferred:
            entry = self._deferred.pop()
            # A lost connection has returned to the pool by itself.
            if not _is_lost(entry.connection):
                self._transactions[entry.connection] = entry.transactions
                return entry.connection
        return None

    def put(self, connection: Connection) -> bool:
        """Keep a connection with its transaction open; return False when it has to return to the pool."""
        transactions = self._transactions.pop(connection, 0) + 1
        if transactions >= _MAX_TRANSACTIONS:
            return False
        self._deferred.append(_DeferredCommit(connection, transactions, asyncio.get_running_loop().time()))
        if self._timer is None:
            self._start_timer()
        return True

    def remove(self, connection: Connection) -> None:
        """Drop the count of a connection that returns to the pool."""
        self._transactions.pop(connection, None)

    def flush(self) -> list[Connection]:
        """Return every waiting connection, and keep none of them."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deferred, self._deferred = self._deferred, []
        return [entry.connection for entry in deferred]

    def _expire(self) -> None:
        """Commit the connections that have waited for DEFER_SECONDS; the list is in order of arrival."""
        before = asyncio.get_running_loop().time() - DEFER_SECONDS + _CLOCK_LAG_SECONDS
        count = next((place for place, entry in enumerate(self._deferred) if entry.since > before), len(self._deferred))
        expired, self._deferred = self._deferred[:count], self._deferred[count:]
        self._timer = None
        if self._deferred:
            self._start_timer()
        for entry in expired:
            self._on_idle_timeout(entry.connection)

    def _start_timer(self) -> None:
        """Schedule the expiry of the oldest, outside the context of the current call."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(self._deferred[0].since + DEFER_SECONDS, self._expire, context=Context())


def _is_lost(connection: Connection) -> bool:
    try:
        return connection.is_closed()
    except asyncpg.InterfaceError:
        # The pool took it back when the server closed it.
        return True
