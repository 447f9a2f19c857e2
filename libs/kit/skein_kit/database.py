"""A service's database: a pool acting as the service's own role, and transactions that carry one tenant.

Row-level security reads the setting `skein.tenant_id`, which each transaction sets for itself; without it a transaction
sees no tenant's rows. Begin and setting travel together, so a transaction of one query costs three round trips.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit
from uuid import UUID

import asyncpg
from opentelemetry import trace
from opentelemetry.semconv.attributes import db_attributes, error_attributes
from opentelemetry.trace import SpanKind

from skein_kit import sql
from skein_kit.call import current
from skein_kit.errors import (
    DatabaseBusy,
    DatabaseUnavailable,
    DeadlineExceeded,
    Refusal,
    TextNotStorable,
    TransactionConflict,
)
from skein_kit.telemetry import POOL_SIZE, POOL_WAIT, QUERY_TIME, TRACING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence

    from skein_kit.sql import Query

# The nil UUID: no tenant has it.
NO_TENANT = UUID(int=0)
# Statements that one connection keeps prepared: bulk inserts have one for each number of rows.
_STATEMENT_CACHE = 512
_CONNECT_SECONDS = 5.0
# How long after a call's deadline the server ends a statement that was not cancelled.
_CANCEL_MILLISECONDS = 100
_UNAVAILABLE = (
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.InsufficientResourcesError,
    asyncpg.InterfaceError,
    # What asyncpg says when the connection under a statement goes away at the wrong moment.
    asyncpg.InternalClientError,
    # Prepared before a migration; the driver forgets it now, and the caller's retry prepares it anew.
    asyncpg.InvalidCachedStatementError,
    # A standby, or a primary that is about to become one.
    asyncpg.ReadOnlySQLTransactionError,
    OSError,
)
# The database's own limit on a statement. Repeating it at once would take as long again, so it is not UNAVAILABLE.
_TOO_SLOW = (asyncpg.QueryCanceledError,)
_CONFLICT = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError, asyncpg.LockNotAvailableError)
_NOT_STORABLE = (asyncpg.CharacterNotInRepertoireError, asyncpg.UntranslatableCharacterError)


def role_of(service: str) -> str:
    """Return the database role that a service acts as."""
    return f"skein_{service}"


def connect_keywords(url: str, role: str) -> dict[str, Any]:
    """Return asyncpg's keywords for a URL, acting as `role` whoever the URL's user is."""
    settings = {
        "application_name": role,
        # Partitioned tables and tenants of all sizes: a plan made for the values at hand is worth its price.
        "plan_cache_mode": "force_custom_plan",
        "timezone": "UTC",
        "search_path": "",
    }
    if urlsplit(url).username != role:
        settings["role"] = role
    return {"dsn": url, "server_settings": settings}


class Transaction:
    """One transaction. Rows come back as asyncpg records; every query is timed and traced by its name."""

    def __init__(self, connection: asyncpg.pool.PoolConnectionProxy[asyncpg.Record], database: Database) -> None:
        """Wrap a connection that is inside a transaction."""
        self._connection = connection
        self.database = database
        # What is sent with the commit.
        self.last_words = ""

    async def rows(self, query: Query, **values: object) -> list[asyncpg.Record]:
        """Return all rows."""
        with self.database.observed(query):
            return await self._connection.fetch(query.text, *query.bind(values))

    async def row(self, query: Query, **values: object) -> asyncpg.Record | None:
        """Return the first row; None when there is none."""
        with self.database.observed(query):
            return await self._connection.fetchrow(query.text, *query.bind(values))

    async def value(self, query: Query, **values: object) -> Any:
        """Return the first column of the first row; None when there is none."""
        with self.database.observed(query):
            return await self._connection.fetchval(query.text, *query.bind(values))

    async def execute(self, query: Query, **values: object) -> int:
        """Run a statement and return how many rows it touched."""
        with self.database.observed(query):
            status = await self._connection.execute(query.text, *query.bind(values))
        return _count(status)

    def with_commit(self, query: Query, **values: int | str | UUID) -> None:
        """Run a statement together with the commit, which costs no round trip; nobody learns what it returns."""
        self.last_words += f"{sql.spelled_out(query, values)}; "

    async def act_in(self, tenant_id: UUID) -> None:
        """See this tenant's rows instead, from here on: for what is made together with the tenant itself."""
        await self._connection.execute(f"SET LOCAL skein.tenant_id = '{tenant_id}'")

    async def act_for(self, account_id: UUID) -> None:
        """See what this account has in every tenant as well, from here on."""
        await self._connection.execute(f"SET LOCAL skein.account_id = '{account_id}'")

    async def insert(self, query: Query, tenant_id: UUID, rows: Sequence[Mapping[str, object]]) -> int:
        """Insert many rows of one tenant in as few statements as the protocol allows; return how many went in."""
        inserted = start = 0
        names = query.parameters[1:]
        at_once = max(1, sql.MAX_PARAMETERS // max(1, len(names)))
        while start < len(rows):
            part = rows[start : start + sql.rows_at_once(min(at_once, len(rows) - start))]
            start += len(part)
            values = [row[name] for row in part for name in names]
            with self.database.observed(query, len(part)):
                status = await self._connection.execute(sql.repeated(query, len(part)), tenant_id, *values)
            inserted += _count(status)
        return inserted


class Database:
    """The pool of one service."""

    def __init__(self, pool: asyncpg.Pool[asyncpg.Record], *, service: str, name: str, timeout: float) -> None:
        """Use a pool on the database `name` that somebody else closes."""
        self._pool = pool
        self._name = name
        self._timeout = timeout
        self.service = service
        self._wait = POOL_WAIT.labels(service)
        self._timers: dict[str, Any] = {}
        busy, idle = POOL_SIZE.labels(service, "busy"), POOL_SIZE.labels(service, "idle")
        busy.set_function(lambda: pool.get_size() - pool.get_idle_size())
        idle.set_function(pool.get_idle_size)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        url: str,
        *,
        service: str,
        size: int,
        timeout: float,
        init: Callable[[Any], Coroutine[Any, Any, None]] | None = None,
    ) -> AsyncIterator[Self]:
        """Open the pool lazily: the database may come up later, calls are refused until then."""
        pool = asyncpg.create_pool(
            **connect_keywords(url, role_of(service)),
            min_size=0,
            max_size=size,
            timeout=_CONNECT_SECONDS,
            statement_cache_size=_STATEMENT_CACHE,
            max_inactive_connection_lifetime=300.0,
            init=init,
            # Every transaction sets what it needs with SET LOCAL, so there is nothing to reset.
            reset=_keep,
        )
        async with pool:
            yield cls(pool, service=service, name=urlsplit(url).path.lstrip("/"), timeout=timeout)

    @asynccontextmanager
    async def tenant(
        self, tenant_id: UUID, *, lasting: bool = True, plans_again: bool = True
    ) -> AsyncIterator[Transaction]:
        """Run a transaction that sees one tenant's rows; it commits when the block ends well.

        Without `lasting` the commit does not wait for the disk, and the last ones may be lost when the server crashes:
        for what is made anew from rows that last. Without `plans_again` a statement is planned once for each connection
        instead of for each call's values: for statements that can only be carried out in one way.
        """
        begin = f"BEGIN; SET LOCAL skein.tenant_id = '{tenant_id}'"
        if not plans_again:
            begin += "; SET LOCAL plan_cache_mode = force_generic_plan"
        if not lasting:
            begin += "; SET LOCAL synchronous_commit = off"
        async with self._transaction(begin) as transaction:
            yield transaction

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[Transaction]:
        """Run a transaction that sees global tables and no tenant's rows."""
        async with self._transaction("BEGIN") as transaction:
            yield transaction

    @asynccontextmanager
    async def operator(self) -> AsyncIterator[Transaction]:
        """Run a transaction that sees the directory of all tenants, and of tenant data what no tenant owns.

        That is what is kept under NO_TENANT: the answers to the operator's own requests.
        """
        begin = f"BEGIN; SET LOCAL skein.operator = 'on'; SET LOCAL skein.tenant_id = '{NO_TENANT}'"
        async with self._transaction(begin) as transaction:
            yield transaction

    @asynccontextmanager
    async def account(self, account_id: UUID, *, directory: bool = False) -> AsyncIterator[Transaction]:
        """Run a transaction that sees what one account has in every tenant: its memberships, its sign-ins.

        With `directory` it sees the directory of all tenants as well, to find those that the account is a member of.
        """
        begin = f"BEGIN; SET LOCAL skein.account_id = '{account_id}'; SET LOCAL skein.tenant_id = '{NO_TENANT}'"
        if directory:
            begin += "; SET LOCAL skein.operator = 'on'"
        async with self._transaction(begin) as transaction:
            yield transaction

    @asynccontextmanager
    async def _transaction(self, begin: str) -> AsyncIterator[Transaction]:
        with translated():
            connection = await self._acquire()
            is_committed = False
            try:
                await connection.execute(begin + _time_limit())
                transaction = Transaction(connection, self)
                yield transaction
                await connection.execute(f"{transaction.last_words}COMMIT")
                is_committed = True
            finally:
                if is_committed:
                    # The pool itself finishes this, whatever happens to whoever waits for it.
                    await self._release(connection)
                else:
                    # In one piece: whoever is cancelled a second time (a deadline does that) leaves while this goes on.
                    await asyncio.shield(self._take_back(connection))

    async def _acquire(self) -> asyncpg.pool.PoolConnectionProxy[asyncpg.Record]:
        started = time.perf_counter()
        try:
            return await self._pool.acquire(timeout=self._timeout)
        except TimeoutError:
            # With room in the pool, or a connection to spare, it was the connecting that took too long.
            has_room = self._pool.get_size() < self._pool.get_max_size() or self._pool.get_idle_size() > 0
            raise (DatabaseUnavailable if has_room else DatabaseBusy) from None
        finally:
            self._wait.observe(time.perf_counter() - started)

    async def _take_back(self, connection: asyncpg.pool.PoolConnectionProxy[asyncpg.Record]) -> None:
        await _roll_back(connection)
        await self._release(connection)

    async def _release(self, connection: asyncpg.pool.PoolConnectionProxy[asyncpg.Record]) -> None:
        # A connection that the server closed meanwhile has gone back by itself, and a second time is refused. Whatever
        # else goes wrong here concerns the next transaction, for which the pool opens a new connection.
        with suppress(*_UNAVAILABLE, asyncpg.PostgresError):
            await self._pool.release(connection)

    @contextmanager
    def observed(self, query: Query, rows: int = 1) -> Iterator[None]:
        """Time a query and, when tracing is on, give it a span."""
        timer = self._timers.get(query.name)
        if timer is None:
            timer = self._timers[query.name] = QUERY_TIME.labels(self.service, query.name)
        started = time.perf_counter()
        try:
            if not TRACING.on:
                yield
                return
            attributes: dict[str, Any] = {
                db_attributes.DB_SYSTEM_NAME: "postgresql",
                db_attributes.DB_NAMESPACE: self._name,
                db_attributes.DB_OPERATION_NAME: query.operation,
                db_attributes.DB_QUERY_SUMMARY: query.name,
                db_attributes.DB_QUERY_TEXT: query.text,
            }
            if rows > 1:
                attributes[db_attributes.DB_OPERATION_BATCH_SIZE] = rows
            with TRACING.tracer.start_as_current_span(
                query.name,
                kind=SpanKind.CLIENT,
                attributes=attributes,
                # The words of an error may quote values.
                record_exception=False,
                set_status_on_exception=False,
            ) as span:
                try:
                    yield
                except BaseException as error:
                    kind = type(error).__name__
                    if isinstance(error, asyncpg.PostgresError):
                        kind = str(error.sqlstate)
                        span.set_attribute(db_attributes.DB_RESPONSE_STATUS_CODE, kind)
                    span.set_attribute(error_attributes.ERROR_TYPE, kind)
                    span.set_status(trace.StatusCode.ERROR)
                    raise
        finally:
            timer.observe(time.perf_counter() - started)


class Pulse:
    """Asks whether the database answers, on a connection of its own, because a busy pool is no fault."""

    def __init__(self, url: str, role: str) -> None:
        """Connect when first asked."""
        self._keywords = connect_keywords(url, role)
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None
        self._one_at_a_time = asyncio.Lock()

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, *, service: str) -> AsyncIterator[Self]:
        """Keep the connection until the block ends."""
        pulse = cls(url, role_of(service))
        try:
            yield pulse
        finally:
            pulse.hang_up()

    async def value(self, query: Query) -> Any:
        """Return the first column of the first row. Whoever asks sets the limit of time."""
        async with self._one_at_a_time:
            try:
                if self._connection is None or self._connection.is_closed():
                    self._connection = await asyncpg.connect(**self._keywords, timeout=_CONNECT_SECONDS)
                return await self._connection.fetchval(query.text)
            except BaseException:
                # Cancelled too: what a server that hangs was asked before is nothing to wait for.
                self.hang_up()
                raise

    def hang_up(self) -> None:
        """Let go of the connection, without a word."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None


def _time_limit() -> str:
    """Let the server itself end a statement when the call's time is over.

    A cancellation is sent as well, and sooner; but one that reaches the server before its statement does is lost, and
    the statement would wait for its lock as long as it takes.
    """
    call = current()
    left = None if call is None else call.remaining()
    return "" if left is None else f"; SET LOCAL statement_timeout = {int(left * 1000) + _CANCEL_MILLISECONDS}"


@contextmanager
def translated() -> Iterator[None]:
    """Turn what the driver raises when the database is away, busy or in conflict into refusals."""
    try:
        yield
    except Refusal:
        raise
    except _UNAVAILABLE as error:
        raise DatabaseUnavailable from error
    except _TOO_SLOW as error:
        raise DeadlineExceeded from error
    except _CONFLICT as error:
        raise TransactionConflict from error
    except _NOT_STORABLE as error:
        raise TextNotStorable from error


@contextmanager
def refusing(refusals: Mapping[str, Refusal | Callable[[], Refusal]]) -> Iterator[None]:
    """Turn violations of named constraints into refusals; other violations are bugs and pass through."""
    try:
        yield
    except asyncpg.IntegrityConstraintViolationError as error:
        refusal = refusals.get(error.constraint_name or "")
        if refusal is None:
            raise
        raise (refusal if isinstance(refusal, Refusal) else refusal()) from None


def _count(status: str) -> int:
    """Read the number of rows from a command's status, such as "INSERT 0 3"."""
    count = status.rsplit(" ", 1)[-1]
    return int(count) if count.isdigit() else 0


async def _keep(_connection: object) -> None:
    """Leave a released connection as it is."""


async def _roll_back(connection: asyncpg.pool.PoolConnectionProxy[asyncpg.Record]) -> None:
    try:
        # Unasked: of a BEGIN that was cancelled on its way nobody knows yet whether it arrived.
        if not connection.is_closed():
            await connection.execute("ROLLBACK", timeout=_CONNECT_SECONDS)
    except (*_UNAVAILABLE, asyncpg.PostgresError, TimeoutError):
        # The connection is of no more use; the pool replaces it, if it has not taken it back by itself meanwhile.
        with suppress(asyncpg.InterfaceError):
            connection.terminate()


def grouped(rows: Iterable[asyncpg.Record], key: str) -> dict[Any, list[asyncpg.Record]]:
    """Gather rows by the value of a column, in order."""
    result: dict[Any, list[asyncpg.Record]] = {}
    for row in rows:
        result.setdefault(row[key], []).append(row)
    return result
