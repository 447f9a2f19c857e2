"""The connections of one pool: a transaction acquires one, begins on it and returns it.

A connection returns to the pool without an open transaction, or is closed.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import asyncpg

from skein_kit.admission.adaptive_limit import DELAYS
from skein_kit.calls.call import Call, current_call
from skein_kit.database.connection_settings import transaction_settings
from skein_kit.database.postgres_errors import UNAVAILABLE
from skein_kit.errors import DatabaseBusy, DatabaseUnavailable
from skein_kit.identity.permissions import ACCESS_RULES, SYSTEM
from skein_kit.telemetry.metrics import POOL_LIMIT, POOL_SIZE, POOL_WAIT

if TYPE_CHECKING:
    Connection = asyncpg.pool.PoolConnectionProxy[asyncpg.Record]

# A healthy server begins and ends any transaction in less.
ANSWER_SECONDS = 5.0
# A failed transaction waits so long for its rollback, which then goes on in the background.
_ROLLBACK_WAIT_SECONDS = 0.5
# After a call's deadline the server ends a statement whose cancellation did not arrive.
_CANCEL_MILLISECONDS = 100
# After a call's deadline the server ends its abandoned transaction; without a call, after this long.
_ABANDONED_MILLISECONDS = 5_000
_BACKGROUND_MILLISECONDS = 30_000
# Suffix of permissions that change nothing.
_READ_PERMISSION = ".read"
# The first version of Postgres with transaction_timeout.
_HAS_TRANSACTION_TIMEOUT = 17


class ConnectionPool:
    """The connections of one pool. The owner of the asyncpg pool closes it."""

    def __init__(
        self, pool: asyncpg.Pool[asyncpg.Record], *, pool_name: str, timeout: float, pooled: bool, only_reads: bool,
        read_seconds: float, citus: bool,
    ) -> None:  # fmt: skip
        """`pool_name` labels the metrics; a transaction waits up to `timeout` seconds for a connection.

        `pooled`: the connections go through a PgBouncer. `only_reads`: every transaction is read-only. `read_seconds`
        limits one statement of a read-only transaction (0: the deadline of its call). `citus`: BEGIN goes in a message
        of its own, which costs a round trip.
        """
        self._read_seconds = read_seconds
        self.citus = citus
        self.only_reads = only_reads
        self._pool = pool
        self._settings = transaction_settings() if pooled else ""
        self._timeout = timeout
        # Rollbacks that run in the background.
        self._rollbacks: set[asyncio.Future[None]] = set()
        self._wait = POOL_WAIT.labels(pool_name)
        self._resource = f"database connections of {pool_name}"
        POOL_LIMIT.labels(pool_name).set(pool.get_max_size())
        POOL_SIZE.labels(pool_name, "busy").set_function(lambda: pool.get_size() - pool.get_idle_size())
        POOL_SIZE.labels(pool_name, "idle").set_function(pool.get_idle_size)

    async def begin(self, settings: str, *, read_only: bool) -> Connection:
        """Return a connection in a new transaction with these settings, each "; SET LOCAL name = 'value'".

        Raises DatabaseBusy, DatabaseUnavailable, and the errors of the driver.
        """
        only_reads = read_only or self.only_reads
        begin = "BEGIN READ ONLY" if only_reads else "BEGIN"
        connection = await self.acquire()
        has_begun = False
        try:
            version = connection.get_server_version().major
            limit = timeout_settings(version, self._read_seconds, only_reads=only_reads)
            settings = self._settings + settings + limit
            if self.citus:
                # Citus sends the message of a SET LOCAL on to its workers whole, where they have begun already.
                await self._start(connection, begin)
                await self._start(connection, settings.removeprefix("; "))
            else:
                await self._start(connection, begin + settings)
            has_begun = True
        finally:
            if not has_begun:
                await self.rollback_and_release(connection)
        return connection

    async def rollback_and_release(self, connection: Connection) -> None:
        """Roll back, and wait for it, but not for long."""
        # A task of its own: a deadline may cancel the waiting call a second time, and the rollback goes on.
        rollback = asyncio.ensure_future(self._rollback_and_release(connection))
        self._rollbacks.add(rollback)
        rollback.add_done_callback(self._rollbacks.discard)
        await asyncio.wait({rollback}, timeout=_ROLLBACK_WAIT_SECONDS)

    async def release(self, connection: Connection) -> None:
        """Return a connection without a transaction to the pool."""
        # The pool has already taken back a connection that the server closed, and refuses it here. After any other
        # error the pool opens a new connection for the next transaction.
        with suppress(*UNAVAILABLE, asyncpg.PostgresError):
            await self._pool.release(connection)

    async def acquire(self) -> Connection:
        """Wait for a connection. Raises DatabaseBusy, DatabaseUnavailable."""
        start_time = time.perf_counter()
        try:
            return await self._pool.acquire(timeout=self._timeout)
        except TimeoutError:
            # With room in the pool, or an idle connection, connecting has taken too long.
            has_room = self._pool.get_size() < self._pool.get_max_size() or self._pool.get_idle_size() > 0
            raise (DatabaseUnavailable if has_room else DatabaseBusy) from None
        finally:
            seconds = time.perf_counter() - start_time
            self._wait.observe(seconds)
            DELAYS.observe(self._resource, seconds)

    async def _start(self, connection: Connection, statements: str) -> None:
        try:
            await connection.execute(statements, timeout=ANSWER_SECONDS)
        except TimeoutError:
            await self._replace_all(connection)
            raise DatabaseUnavailable from None

    async def _replace_all(self, connection: Connection) -> None:
        """Close the connection of a server that does not answer, and have the pool replace all others."""
        # The pool may have taken it back by itself.
        with suppress(asyncpg.InterfaceError):
            connection.terminate()
        await self._pool.expire_connections()

    async def _rollback_and_release(self, connection: Connection) -> None:
        try:
            # Sent in any case: a cancelled BEGIN may have reached the server.
            if not connection.is_closed():
                await connection.execute("ROLLBACK", timeout=ANSWER_SECONDS)
        except TimeoutError:
            await self._replace_all(connection)
        except (*UNAVAILABLE, asyncpg.PostgresError):
            # The connection is broken; the pool replaces it.
            with suppress(asyncpg.InterfaceError):
                connection.terminate()
        await self.release(connection)


def timeout_settings(version: int, read_seconds: float = 0.0, *, only_reads: bool = False) -> str:
    """Return settings by which the server itself ends late statements and abandoned transactions.

    Call this within a call, whose deadline it takes. `read_seconds` limits each statement of a read, whatever the
    deadline (0: no such limit). A read is a transaction that `only_reads`, or any one of a method with a read
    permission. The cluster's own background work has no such limit.

    The client cancels sooner, but the server drops a cancellation that arrives before its statement: the statement
    would wait for its lock without end. Without a network no cancellation arrives at all, and the transaction would
    keep its locks. Servers before version 17 end only idle transactions.
    """
    call = current_call()
    remaining_seconds = None if call is None else call.remaining_seconds()
    abandoned_setting = (
        "transaction_timeout" if version >= _HAS_TRANSACTION_TIMEOUT else "idle_in_transaction_session_timeout"
    )
    if call is None or remaining_seconds is None:
        return f"; SET LOCAL {abandoned_setting} = {_BACKGROUND_MILLISECONDS}"
    milliseconds = max(0, int(remaining_seconds * 1000))
    statement = milliseconds + _CANCEL_MILLISECONDS
    if read_seconds and (only_reads or _is_read(call)) and not _is_of_cluster(call):
        statement = min(statement, int(read_seconds * 1000))
    transaction = milliseconds + _ABANDONED_MILLISECONDS
    return f"; SET LOCAL statement_timeout = {statement}; SET LOCAL {abandoned_setting} = {transaction}"


def _is_read(call: Call) -> bool:
    """Return whether the access table says that the call's method changes nothing."""
    rule = ACCESS_RULES.get(call.path)
    return rule is not None and rule.permission is not None and rule.permission.endswith(_READ_PERMISSION)


def _is_of_cluster(call: Call) -> bool:
    """Return whether the call is the cluster's own background work."""
    return call.caller is not None and SYSTEM in call.caller.permissions
