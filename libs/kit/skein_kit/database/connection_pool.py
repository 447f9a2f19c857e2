"""The connections of one pool: how a transaction gets one and begins on it, and how it gives it back.

Whatever happens to whoever used one, it goes back to the pool without a transaction, rests where the next one ends that
(skein_kit.database.deferred_commit), or is hung up on.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import asyncpg

from skein_kit.admission.adaptive_limit import DELAYS
from skein_kit.database.connection_settings import transaction_settings
from skein_kit.database.deferred_commit import DeferredCommitPool
from skein_kit.database.postgres_errors import UNAVAILABLE
from skein_kit.database.statement_timeout import timeout_settings
from skein_kit.errors import DatabaseBusy, DatabaseUnavailable
from skein_kit.telemetry.metrics import POOL_LIMIT, POOL_SIZE, POOL_WAIT

if TYPE_CHECKING:
    from skein_kit.database.deferred_commit import Connection

# A server that is there begins and ends a transaction in less, whatever it has to do.
ANSWER_SECONDS = 5.0
# Whoever leaves a transaction undone waits so long for its end, which goes on without them.
_PARTING_SECONDS = 0.5


class ConnectionPool:
    """Those of one pool, which somebody else closes."""

    def __init__(
        self, pool: asyncpg.Pool[asyncpg.Record], *, whose: str, timeout: float, pooled: bool, reads: bool,
        read_seconds: float,
    ) -> None:  # fmt: skip
        """`whose` they are is told in metrics; a transaction waits up to `timeout` seconds for one.

        `pooled`: by way of a PgBouncer; `reads`: nothing is written; `read_seconds`: the most that a statement of a
        transaction that only reads may take (0: as long as its call has).
        """
        self._read_seconds = read_seconds
        self._only_reads = reads
        self._pool = pool
        settings = transaction_settings() if pooled else ""
        self._begin_reading = f"BEGIN READ ONLY{settings}"
        self._begin = self._begin_reading if reads else f"BEGIN{settings}"
        self._timeout = timeout
        # On their way back, which nobody waits for; and those whose next user ends what they are at.
        self._taking: set[asyncio.Future[None]] = set()
        self._resting = DeferredCommitPool(self._taken_back)
        # A PgBouncer keeps a server for a transaction; one that rests would keep it from others.
        self._lets_rest = not pooled
        self._waiting = 0
        # How often the server did not answer, so that all connections were given up.
        self.given_up = 0
        self._wait = POOL_WAIT.labels(whose)
        self._resource = f"database connections of {whose}"
        POOL_LIMIT.labels(whose).set(pool.get_max_size())
        busy, idle = POOL_SIZE.labels(whose, "busy"), POOL_SIZE.labels(whose, "idle")
        busy.set_function(lambda: pool.get_size() - pool.get_idle_size() - len(self._resting))
        idle.set_function(lambda: pool.get_idle_size() + len(self._resting))

    @property
    def is_waited_for(self) -> bool:
        """Say whether somebody waits for a connection."""
        return self._waiting > 0

    async def begun(self, settings: str, *, reads: bool) -> Connection:
        """Return a connection inside of a new transaction with these settings, each "; SET LOCAL name = 'value'".

        Raises DatabaseBusy, DatabaseUnavailable, and what the driver raises.
        """
        begin = self._begin_reading if reads else self._begin
        connection = self._resting.take()
        if connection is None:
            connection = await self.acquire()
        else:
            begin = f"COMMIT; {begin}"
            self._waited(0.0)
        is_begun = False
        try:
            version = connection.get_server_version().major
            limit = timeout_settings(version, self._read_seconds, reads=reads or self._only_reads)
            await self._start(connection, begin + settings + limit)
            is_begun = True
        finally:
            if not is_begun:
                await self.abandon(connection)
        return connection

    def rests(self, connection: Connection, given_up: int) -> bool:
        """Let a connection rest inside of a transaction that only read, if it may; else say no.

        It may not when connections were given up since they had been so often, as it then is one of those.
        """
        may = self._lets_rest and not self._waiting and self.given_up == given_up
        return may and self._resting.put(connection)

    async def abandon(self, connection: Connection) -> None:
        """End a transaction that was left undone, and wait for that, but not for long."""
        # In one piece: whoever is cancelled a second time (a deadline does that) leaves while this goes on, and nobody
        # waits past their time for a server that does not answer.
        await asyncio.wait({self._taken_back(connection, "ROLLBACK")}, timeout=_PARTING_SECONDS)

    def end_aside(self, connection: Connection) -> None:
        """End a transaction that only read: nothing was written, so nobody needs to hear how it ends."""
        self._taken_back(connection)

    async def release(self, connection: Connection) -> None:
        """Give a connection back that is in no transaction."""
        self._resting.left(connection)
        # A connection that the server closed meanwhile has gone back by itself, and a second time is refused. Whatever
        # else goes wrong here concerns the next transaction, for which the pool opens a new connection.
        with suppress(*UNAVAILABLE, asyncpg.PostgresError):
            await self._pool.release(connection)

    def wake(self) -> None:
        """Have all that rest go back to the pool, and none rest again."""
        self._lets_rest = False
        for connection in self._resting.dismiss():
            self._taken_back(connection)

    async def acquire(self) -> Connection:
        """Wait for a connection. Raises DatabaseBusy, DatabaseUnavailable."""
        started = time.perf_counter()
        self._waiting += 1
        try:
            return await self._pool.acquire(timeout=self._timeout)
        except TimeoutError:
            # With room in the pool, or a connection to spare, it was the connecting that took too long.
            has_room = self._pool.get_size() < self._pool.get_max_size() or self._pool.get_idle_size() > 0
            raise (DatabaseUnavailable if has_room else DatabaseBusy) from None
        finally:
            self._waiting -= 1
            self._waited(time.perf_counter() - started)

    async def _start(self, connection: Connection, begin: str) -> None:
        try:
            await connection.execute(begin, timeout=ANSWER_SECONDS)
        except TimeoutError:
            await self._give_up(connection)
            raise DatabaseUnavailable from None

    def _waited(self, seconds: float) -> None:
        self._wait.observe(seconds)
        DELAYS.waited(self._resource, seconds)

    def _taken_back(self, connection: Connection, ending: str = "COMMIT") -> asyncio.Future[None]:
        taking = asyncio.ensure_future(self._take_back(connection, ending))
        self._taking.add(taking)
        taking.add_done_callback(self._taking.discard)
        return taking

    async def _give_up(self, connection: Connection) -> None:
        """Hang up on a server that does not answer; the pool's other connections go the same way, so all are new."""
        # If the pool has not taken it back by itself meanwhile.
        with suppress(asyncpg.InterfaceError):
            connection.terminate()
        self.given_up += 1
        for other in self._resting.dismiss():
            with suppress(asyncpg.InterfaceError):
                other.terminate()
            await self.release(other)
        await self._pool.expire_connections()

    async def _take_back(self, connection: Connection, ending: str) -> None:
        try:
            # Unasked: of a BEGIN that was cancelled on its way nobody knows yet whether it arrived.
            if not connection.is_closed():
                await connection.execute(ending, timeout=ANSWER_SECONDS)
        except TimeoutError:
            await self._give_up(connection)
        except (*UNAVAILABLE, asyncpg.PostgresError):
            # The connection is of no more use; the pool replaces it.
            with suppress(asyncpg.InterfaceError):
                connection.terminate()
        await self.release(connection)
