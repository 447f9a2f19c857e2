"""A service's database: a pool acting as the service's own role, and transactions that carry one tenant.

Row-level security reads the setting `skein.tenant_id`, which each transaction sets for itself; without it a transaction
sees no tenant's rows. Begin and setting travel together, so a transaction of one query costs three round trips, and
one that only reads two, since whoever comes next ends it (skein_kit.resting).
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit
from uuid import UUID

import asyncpg

from skein_kit import sql
from skein_kit.call import current
from skein_kit.connecting import CONNECT_SECONDS, connect_keywords, connected, of_a_transaction, role_of
from skein_kit.errors import DatabaseBusy, DatabaseUnavailable, Refusal
from skein_kit.headroom import DELAYS
from skein_kit.observing import SLOW_SECONDS, Observer
from skein_kit.replicas import POSITION, Replica
from skein_kit.resting import Over, Resting
from skein_kit.revisions import tells
from skein_kit.telemetry import POOL_LIMIT, POOL_SIZE, POOL_WAIT
from skein_kit.time_limits import time_limit
from skein_kit.troubles import UNAVAILABLE, translated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from skein_kit.sql import Query

# The nil UUID: no tenant has it.
NO_TENANT = UUID(int=0)
# Statements that one connection keeps prepared: bulk inserts have one for each number of rows.
STATEMENT_CACHE = 512
# A server that is there begins and ends a transaction in less, whatever it has to do.
_ANSWER_SECONDS = 5.0
# Whoever leaves a transaction undone waits so long for its end, which goes on without them.
_PARTING_SECONDS = 0.5


class Transaction:
    """One transaction. Rows come back as asyncpg records; every query is timed and traced by its name."""

    def __init__(self, connection: asyncpg.pool.PoolConnectionProxy[asyncpg.Record], database: Database) -> None:
        """Wrap a connection that is inside a transaction."""
        self._connection: Any = connection
        self.database = database
        # What is sent with the commit.
        self.last_words = ""

    def end(self) -> None:
        """Refuse whatever comes after the end: its connection may be in another's transaction by then."""
        self._connection = Over()

    async def rows(self, query: Query, **values: object) -> list[asyncpg.Record]:
        """Return all rows."""
        with self.database.observed(query) as seen:
            rows: list[asyncpg.Record] = await self._connection.fetch(query.text, *query.bind(values))
            seen.rows = len(rows)
        return rows

    async def row(self, query: Query, **values: object) -> asyncpg.Record | None:
        """Return the first row; None when there is none."""
        with self.database.observed(query) as seen:
            row: asyncpg.Record | None = await self._connection.fetchrow(query.text, *query.bind(values))
            seen.rows = int(row is not None)
        return row

    async def value(self, query: Query, **values: object) -> Any:
        """Return the first column of the first row; None when there is none."""
        with self.database.observed(query):
            return await self._connection.fetchval(query.text, *query.bind(values))

    async def execute(self, query: Query, **values: object) -> int:
        """Run a statement and return how many rows it touched."""
        with self.database.observed(query) as seen:
            status = await self._connection.execute(query.text, *query.bind(values))
            seen.rows = _count(status)
        return seen.rows

    def with_commit(self, query: Query, **values: int | str | UUID) -> None:
        """Run a statement together with the commit, which costs no round trip; nobody learns what it returns."""
        self.last_words += f"{sql.spelled_out(query, values)}; "

    async def plan(self, *, again: bool) -> None:
        """From here on plan a statement for each call's values, or once for each connection, as `tenant` says."""
        mode = "force_custom_plan" if again else "force_generic_plan"
        await self._connection.execute(f"SET LOCAL plan_cache_mode = {mode}")

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
            with self.database.observed(query, len(part)) as seen:
                status = await self._connection.execute(sql.repeated(query, len(part)), tenant_id, *values)
                seen.rows = _count(status)
            inserted += seen.rows
        return inserted


class Database:
    """The pool of one service."""

    def __init__(
        self,
        pool: asyncpg.Pool[asyncpg.Record],
        *,
        service: str,
        name: str,
        timeout: float,
        pooled: bool = False,
        reads: bool = False,
        slow_seconds: float = SLOW_SECONDS,
    ) -> None:
        """Use a pool on the database `name` that somebody else closes.

        `pooled`: by way of a PgBouncer; `reads`: it follows another, and nothing is written to it.
        """
        self._pool = pool
        settings = of_a_transaction() if pooled else ""
        self._begin_reading = f"BEGIN READ ONLY{settings}"
        self._begin = self._begin_reading if reads else f"BEGIN{settings}"
        self._replica: Replica | None = None
        self._tells_revision = reads
        # What it shows may be older than what another database has shown.
        self.follows = reads
        self._timeout = timeout
        # Connections on their way back, which nobody waits for; and those whose next user ends what they are at.
        self._taking: set[asyncio.Future[None]] = set()
        self._resting = Resting(self._taken_back)
        # A PgBouncer keeps a server for a transaction; one that rests would keep it from others.
        self._lets_rest = not pooled
        self._waiting = 0
        # How often the server did not answer, so that all connections were given up.
        self._given_up = 0
        self.service = service
        whose = f"{service}_replica" if reads else service
        self._wait = POOL_WAIT.labels(whose)
        self._resource = f"database connections of {whose}"
        self.observed = Observer(service=service, database=name, slow_seconds=slow_seconds).observed
        POOL_LIMIT.labels(whose).set(pool.get_max_size())
        busy, idle = POOL_SIZE.labels(whose, "busy"), POOL_SIZE.labels(whose, "idle")
        busy.set_function(lambda: pool.get_size() - pool.get_idle_size() - len(self._resting))
        idle.set_function(lambda: pool.get_idle_size() + len(self._resting))

    @classmethod
    @asynccontextmanager
    async def open(  # noqa: PLR0913 - what a pool is.
        cls,
        url: str,
        *,
        service: str,
        size: int,
        timeout: float,
        init: Callable[[Any], Coroutine[Any, Any, None]] | None = None,
        pooled: bool = False,
        statements: int = STATEMENT_CACHE,
        reads: bool = False,
        slow_seconds: float = SLOW_SECONDS,
    ) -> AsyncIterator[Self]:
        """Open the pool lazily: the database may come up later, calls are refused until then.

        `pooled` says that the URL leads to a PgBouncer in transaction mode; a connection keeps so many `statements`
        prepared. Queries that take longer than `slow_seconds` are logged; 0: none.
        """
        pool = asyncpg.create_pool(
            **connect_keywords(url, role_of(service), pooled=pooled),
            min_size=0,
            max_size=size,
            timeout=CONNECT_SECONDS,
            statement_cache_size=statements,
            max_inactive_connection_lifetime=300.0,
            connect=connected,
            init=init,
            # Every transaction sets what it needs with SET LOCAL, so there is nothing to reset.
            reset=_keep,
        )
        async with pool:
            name = urlsplit(url).path.lstrip("/")
            database = cls(
                pool,
                service=service,
                name=name,
                timeout=timeout,
                pooled=pooled,
                reads=reads,
                slow_seconds=slow_seconds,
            )
            try:
                yield database
            finally:
                # The pool closes when all are back.
                database.wake()

    @property
    def is_waited_for(self) -> bool:
        """Say whether somebody waits for a connection."""
        return self._waiting > 0

    def followed_by(self, follower: Database) -> None:
        """Leave reads that may come from a replica to this one, as far as it has what they must show."""
        self._replica = Replica(follower)
        self._tells_revision = True

    @asynccontextmanager
    async def tenant(
        self,
        tenant_id: UUID,
        *,
        lasting: bool = True,
        plans_again: bool = True,
        aside: bool = False,
        reads: bool = False,
    ) -> AsyncIterator[Transaction]:
        """Run a transaction that sees one tenant's rows; it commits when the block ends well.

        Without `lasting` the commit does not wait for the disk, and the last ones may be lost when the server crashes:
        for what is made anew from rows that last. Without `plans_again` a statement is planned once for each connection
        instead of for each call's values, and so is each check of a foreign key: for statements that can be carried out
        in one way only. With `aside` no replica is asked, and the answer is as old as it would be without: for what a
        reading call writes or decides by the way. One that only `reads` ends by itself: whoever has read what they
        wanted goes on.
        """
        settings = f"; SET LOCAL skein.tenant_id = '{tenant_id}'"
        if not plans_again:
            settings += "; SET LOCAL plan_cache_mode = force_generic_plan"
        if not lasting:
            settings += "; SET LOCAL synchronous_commit = off"
        call = current()
        if self._replica is not None and not aside and call is not None and call.min_revision is not None:
            async with AsyncExitStack() as stack:
                transaction = await self._replica.entered(stack, settings, call)
                if transaction is not None:
                    yield transaction
                    return
        async with self._transaction(settings, is_told=not aside, reads=reads) as transaction:
            yield transaction

    def begun(self, settings: str) -> AbstractAsyncContextManager[Transaction]:
        """Run a transaction with settings of its own, each "; SET LOCAL name = 'value'"."""
        return self._transaction(settings)

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[Transaction]:
        """Run a transaction that sees global tables and no tenant's rows."""
        async with self._transaction("") as transaction:
            yield transaction

    @asynccontextmanager
    async def operator(self) -> AsyncIterator[Transaction]:
        """Run a transaction that sees the directory of all tenants, and of tenant data what no tenant owns.

        That is what is kept under NO_TENANT: the answers to the operator's own requests.
        """
        settings = f"; SET LOCAL skein.operator = 'on'; SET LOCAL skein.tenant_id = '{NO_TENANT}'"
        async with self._transaction(settings) as transaction:
            yield transaction

    @asynccontextmanager
    async def account(self, account_id: UUID, *, directory: bool = False) -> AsyncIterator[Transaction]:
        """Run a transaction that sees what one account has in every tenant: its memberships, its sign-ins.

        With `directory` it sees the directory of all tenants as well, to find those that the account is a member of.
        """
        settings = f"; SET LOCAL skein.account_id = '{account_id}'; SET LOCAL skein.tenant_id = '{NO_TENANT}'"
        if directory:
            settings += "; SET LOCAL skein.operator = 'on'"
        async with self._transaction(settings) as transaction:
            yield transaction

    @asynccontextmanager
    async def _transaction(
        self, settings: str, *, is_told: bool = True, reads: bool = False
    ) -> AsyncIterator[Transaction]:
        is_told = is_told and self._tells_revision
        with translated():
            begin = self._begin_reading if reads else self._begin
            given_up = self._given_up
            connection = self._resting.take()
            if connection is None:
                connection = await self._acquire()
            else:
                begin = f"COMMIT; {begin}"
                self._waited(0.0)
            is_over, is_waited_for, is_resting = False, True, False
            try:
                await self._start(connection, begin + settings + time_limit(connection.get_server_version().major))
                transaction = Transaction(connection, self)
                try:
                    yield transaction
                finally:
                    transaction.end()
                if reads and not is_told:
                    # Nothing was written, so nobody needs to hear how it ends.
                    is_waited_for = False
                    may_rest = self._lets_rest and not self.is_waited_for and self._given_up == given_up
                    is_resting = may_rest and self._resting.put(connection)
                    return
                await connection.execute(f"{transaction.last_words}COMMIT")
                is_over = True
                if is_told:
                    await _tell_revision(connection)
            except Refusal:
                # A refusal is an answer too: whoever is told that a row is there, or changed, finds it so afterwards.
                if is_told:
                    await connection.execute("ROLLBACK", timeout=_ANSWER_SECONDS)
                    is_over = True
                    await _tell_revision(connection)
                raise
            finally:
                if is_over:
                    # The pool itself finishes this, whatever happens to whoever waits for it.
                    await self._release(connection)
                elif not is_resting:
                    # In one piece: whoever is cancelled a second time (a deadline does that) leaves while this goes on,
                    # and nobody waits past their time for a server that does not answer.
                    taking = self._taken_back(connection, "ROLLBACK" if is_waited_for else "COMMIT")
                    if is_waited_for:
                        await asyncio.wait({taking}, timeout=_PARTING_SECONDS)

    async def _start(self, connection: asyncpg.pool.PoolConnectionProxy[asyncpg.Record], begin: str) -> None:
        try:
            await connection.execute(begin, timeout=_ANSWER_SECONDS)
        except TimeoutError:
            await self._give_up(connection)
            raise DatabaseUnavailable from None

    async def _acquire(self) -> asyncpg.pool.PoolConnectionProxy[asyncpg.Record]:
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

    def _waited(self, seconds: float) -> None:
        self._wait.observe(seconds)
        DELAYS.waited(self._resource, seconds)

    def wake(self) -> None:
        """Have all that rest go back to the pool, and none rest again."""
        self._lets_rest = False
        for connection in self._resting.dismiss():
            self._taken_back(connection)

    def _taken_back(
        self, connection: asyncpg.pool.PoolConnectionProxy[asyncpg.Record], ending: str = "COMMIT"
    ) -> asyncio.Future[None]:
        taking = asyncio.ensure_future(self._take_back(connection, ending))
        self._taking.add(taking)
        taking.add_done_callback(self._taking.discard)
        return taking

    async def _give_up(self, connection: asyncpg.pool.PoolConnectionProxy[asyncpg.Record]) -> None:
        """Hang up on a server that does not answer; the pool's other connections go the same way, so all are new."""
        # If the pool has not taken it back by itself meanwhile.
        with suppress(asyncpg.InterfaceError):
            connection.terminate()
        self._given_up += 1
        for other in self._resting.dismiss():
            with suppress(asyncpg.InterfaceError):
                other.terminate()
            await self._release(other)
        await self._pool.expire_connections()

    async def _take_back(self, connection: asyncpg.pool.PoolConnectionProxy[asyncpg.Record], ending: str) -> None:
        try:
            # Unasked: of a BEGIN that was cancelled on its way nobody knows yet whether it arrived.
            if not connection.is_closed():
                await connection.execute(ending, timeout=_ANSWER_SECONDS)
        except TimeoutError:
            await self._give_up(connection)
        except (*UNAVAILABLE, asyncpg.PostgresError):
            # The connection is of no more use; the pool replaces it.
            with suppress(asyncpg.InterfaceError):
                connection.terminate()
        await self._release(connection)

    async def _release(self, connection: asyncpg.pool.PoolConnectionProxy[asyncpg.Record]) -> None:
        self._resting.left(connection)
        # A connection that the server closed meanwhile has gone back by itself, and a second time is refused. Whatever
        # else goes wrong here concerns the next transaction, for which the pool opens a new connection.
        with suppress(*UNAVAILABLE, asyncpg.PostgresError):
            await self._pool.release(connection)


async def _tell_revision(connection: asyncpg.pool.PoolConnectionProxy[asyncpg.Record]) -> None:
    """Note on the call that nothing of its answer is newer than what is committed here by now.

    When the connection is lost just now the answer is lost with it, as it is when that happens in the commit: without a
    revision its caller's next read could be older than the answer.
    """
    call = current()
    if call is not None and tells(call):
        call.saw(await connection.fetchval(POSITION.text, timeout=_ANSWER_SECONDS))


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


def grouped(rows: Iterable[asyncpg.Record], key: str) -> dict[Any, list[asyncpg.Record]]:
    """Gather rows by the value of a column, in order."""
    result: dict[Any, list[asyncpg.Record]] = {}
    for row in rows:
        result.setdefault(row[key], []).append(row)
    return result
