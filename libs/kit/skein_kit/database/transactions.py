"""The database of a service: a pool with the role of the service, and transactions of one tenant.

Row-level security reads the setting `skein.tenant_id`, which each transaction sets; without it a transaction sees no
tenant's rows. BEGIN carries the setting, so a transaction of one query costs three round trips.
"""

from __future__ import annotations

import asyncio
import copy
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Self, TypeAlias, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

import asyncpg

from skein_kit.admission.scan_budget import ScanBuckets
from skein_kit.calls.call import Call, bound_agent_id, current_call, current_space_ids
from skein_kit.calls.database_revision import UNREACHABLE_REVISION
from skein_kit.database import named_queries, tx_options
from skein_kit.database.connection_pool import ANSWER_SECONDS, ConnectionPool
from skein_kit.database.connection_settings import CONNECT_SECONDS, connect, connect_arguments, database_role
from skein_kit.database.named_queries import Query
from skein_kit.database.postgres_errors import raise_rpc_error, violated_constraint
from skein_kit.database.tx_options import TxOptions
from skein_kit.errors import DatabaseBusy, DatabaseUnavailable, HistoryNotKept, RpcError, TransactionConflict
from skein_kit.identity.spaces import ALL_SPACES
from skein_kit.telemetry.metrics import REPLICA_READ_COUNT

_Result = TypeVar("_Result")
# An INSERT of rows, and its rows.
Insert: TypeAlias = tuple[Query, Sequence[Mapping[str, object]]]
# The nil UUID: no tenant has it.
NO_TENANT = UUID(int=0)
# Prepared statements that one connection keeps. Bulk inserts without casts, and all on Citus, have one for each
# number of rows.
STATEMENT_CACHE = 512
# The position in the log that a server has written or replayed.
_LOG_POSITION = named_queries.Queries.load("skein_kit")["log_position"]
# A replica is usually one millisecond behind; one that is further behind is left to catch up.
_ATTEMPTS, _PAUSE_SECONDS = 4, 0.003
# A lag that no replica replays within these attempts. A caller may also have invented the revision.
_MAX_LAG_BYTES = 4 * 1024 * 1024
# Pause until a replica that failed is tried again.
_RETRY_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadLimits:
    """Limits of what the reads of callers may cost the database."""

    # Seconds of one statement, whatever the caller's deadline; 0: no such limit.
    seconds: float = 0.0
    # Bytes per second that the conditions of one tenant's reads may scan; 0: no limit.
    scan_bytes_per_second: float = 0.0


class Transaction:
    """One transaction. It returns asyncpg records, and times and traces every query by its name."""

    def __init__(self, connection: asyncpg.pool.PoolConnectionProxy[asyncpg.Record], database: Database) -> None:
        """`connection` is inside a transaction."""
        self._connection: Any = connection
        self.database = database
        # Statements to send with the commit.
        self.commit_prefix = ""

    def close(self) -> None:
        """Refuse further statements: another transaction may use the connection from now on."""
        self._connection = _ClosedConnection()

    async def rows(self, query: Query, **values: object) -> list[asyncpg.Record]:
        """Return all rows."""
        with self.database.observer(query) as run:
            rows: list[asyncpg.Record] = await self._connection.fetch(query.text, *query.bind(values))
            run.rows = len(rows)
        return rows

    async def row(self, query: Query, **values: object) -> asyncpg.Record | None:
        """Return the first row; None when there is none."""
        with self.database.observer(query) as run:
            row: asyncpg.Record | None = await self._connection.fetchrow(query.text, *query.bind(values))
            run.rows = int(row is not None)
        return row

    async def value(self, query: Query, **values: object) -> Any:
        """Return the first column of the first row; None when there is none."""
        row = await self.row(query, **values)
        return None if row is None else row[0]

    async def execute(self, query: Query, **values: object) -> int:
        """Run a statement and return the number of affected rows."""
        with self.database.observer(query) as run:
            status = await self._connection.execute(query.text, *query.bind(values))
            run.rows = _count(status)
        return run.rows

    def execute_with_commit(self, query: Query, **values: int | str | UUID) -> None:
        """Run a statement together with the commit, which saves a round trip; its result is lost."""
        self.commit_prefix += f"{named_queries.inline_values(query, values)}; "

    async def set_plan_mode(self, *, replan: bool) -> None:
        """From now on plan statements for each call (`replan`) or once per connection, as TxOptions.plan_once does."""
        if self.database.may_reuse_plans:
            mode = "force_custom_plan" if replan else "force_generic_plan"
            await self._connection.execute(f"SET LOCAL plan_cache_mode = {mode}")

    async def write_sequentially(self) -> None:
        """From now on reach the shards of Citus one after the other: before a copied table is written beside them.

        Citus refuses that write once the transaction has reached several shards at the same time.
        """
        if self.database.is_citus:
            await self._connection.execute("SET LOCAL citus.multi_shard_modify_mode = 'sequential'")

    async def stop_history(self) -> None:
        """From now on keep no former versions of rows that are changed or deleted: for purges."""
        await self._connection.execute("SET LOCAL skein.keep_history = 'off'")

    async def set_spaces(self, space_ids: Sequence[UUID] | None) -> None:
        """From now on see what lies in these spaces of the tenant instead: for moves between them.

        None: all of the tenant, of every agent, so that a memory moves with versions that were another agent's.
        """
        seen, all_spaces = ("", "on") if space_ids is None else ("{" + ",".join(map(str, space_ids)) + "}", "")
        agent_id = "" if space_ids is None else bound_agent_id()
        await self._connection.execute(
            f"SET LOCAL skein.spaces = '{seen}'; SET LOCAL skein.all_spaces = '{all_spaces}'; "
            f"SET LOCAL skein.agent_id = {_quote(agent_id)}"
        )

    async def set_tenant(self, tenant_id: UUID) -> None:
        """From now on see the rows of this tenant instead: for rows that are created together with the tenant."""
        await self._connection.execute(f"SET LOCAL skein.tenant_id = '{tenant_id}'")

    async def set_account(self, account_id: UUID) -> None:
        """From now on also see the rows of this account in every tenant."""
        await self._connection.execute(f"SET LOCAL skein.account_id = '{account_id}'")

    async def see_spaces(self, space_ids: Sequence[UUID]) -> None:
        """From now on see what lies in some spaces instead, which the caller reaches."""
        await self._connection.execute(f"SET LOCAL skein.spaces = {_space_list(space_ids)}")

    @asynccontextmanager
    async def in_all_spaces(self) -> AsyncIterator[None]:
        """See and change what lies in every space while a block runs: for erasures from what serves all of them."""
        before = await self._connection.fetchrow(
            "SELECT coalesce(current_setting('skein.spaces', true), '') AS spaces, "
            "coalesce(current_setting('skein.all_spaces', true), '') AS all_spaces"
        )
        await self._connection.execute("SET LOCAL skein.spaces = ''; SET LOCAL skein.all_spaces = 'on'")
        yield
        if before is not None:
            await self._connection.execute(
                f"SET LOCAL skein.spaces = {_quote(before['spaces'])}; "
                f"SET LOCAL skein.all_spaces = {_quote(before['all_spaces'])}"
            )

    @asynccontextmanager
    async def reading_all_spaces(self) -> AsyncIterator[None]:
        """See what lies in every space while a block reads, for decisions that show the caller nothing of it."""
        await self._connection.execute(
            "SAVEPOINT all_spaces; SET LOCAL skein.spaces = ''; SET LOCAL skein.all_spaces = 'on'"
        )
        yield
        # It takes back the settings alone: the block has only read.
        await self._connection.execute("ROLLBACK TO SAVEPOINT all_spaces; RELEASE SAVEPOINT all_spaces")

    async def insert(self, query: Query, tenant_id: UUID, rows: Sequence[Mapping[str, object]]) -> int:
        """Insert rows of one tenant in as few statements as possible; return the number of inserted rows."""
        inserted_count = start = 0
        values: list[object]
        names = query.parameters[1:]
        arrays = None if self.database.is_citus or len(rows) == 1 else named_queries.array_insert(query)
        max_rows = max(1, named_queries.MAX_PARAMETERS // max(1, len(names)))
        while start < len(rows):
            if arrays is not None:
                batch = rows[start : start + named_queries.MAX_ARRAY_ROWS]
                text, values = arrays, _columns(names, batch)
            else:
                batch = rows[start : start + named_queries.batch_size(min(max_rows, len(rows) - start))]
                text = named_queries.multi_row_insert(query, len(batch))
                values = [row[name] for row in batch for name in names]
            start += len(batch)
            with self.database.observer(query, len(batch)) as run:
                status = await self._connection.execute(text, tenant_id, *values)
                run.rows = _count(status)
            inserted_count += run.rows
        return inserted_count

    async def insert_all(
        self, tenant_id: UUID, inserts: Iterable[Insert], *, then: Query | None = None, **values: object
    ) -> list[asyncpg.Record]:
        """Insert rows of one tenant into several tables in one round trip; return the rows of `then`.

        Later inserts may name the rows of earlier ones. Do not rely on `then` to see any of them, nor to miss them. On
        Citus, and where there are many rows, each is a statement of its own.
        """
        parts = [(query, rows) for query, rows in inserts if rows]
        is_whole = not self.database.is_citus and all(
            len(rows) == 1 or (len(rows) <= named_queries.MAX_ARRAY_ROWS and named_queries.array_insert(query))
            for query, rows in parts
        )
        if not is_whole or len(parts) + (then is not None) <= 1:
            for query, rows in parts:
                await self.insert(query, tenant_id, rows)
            return [] if then is None else await self.rows(then, tenant_id=tenant_id, **values)
        joined = named_queries.joined_inserts(tuple((query, len(rows) > 1) for query, rows in parts), then)
        parameters: list[object] = []
        for query, rows in parts:
            names = query.parameters[1:]
            parameters += [rows[0][name] for name in names] if len(rows) == 1 else _columns(names, rows)
        if then is not None:
            parameters += then.bind({"tenant_id": tenant_id, **values})[1:]
        with self.database.observer(joined, max(len(rows) for _, rows in parts)) as run:
            found: list[asyncpg.Record] = await self._connection.fetch(joined.text, tenant_id, *parameters)
            run.rows = len(found)
        return found


def _columns(names: Sequence[str], rows: Sequence[Mapping[str, object]]) -> list[object]:
    """Return the values of rows by column."""
    return [[row[name] for row in rows] for name in names]


class _ClosedConnection:
    """Replaces the connection of a finished transaction."""

    def __getattr__(self, name: str) -> Any:
        raise asyncpg.InterfaceError(f"{name}: the transaction is over")


class Database:
    """The connection pool of one service, and its replica if there is one."""

    def __init__(
        self,
        connections: ConnectionPool,
        *,
        service: str,
        name: str,
        slow_seconds: float,
        scan_bytes_per_second: float,
    ) -> None:
        """Use the connections to the database `name`."""
        self.connections = connections
        # Statements on tenants' rows run on other machines, which number transactions apart.
        self.is_citus = connections.citus
        # Whether TxOptions.plan_once has an effect; the connections' own mode plans each statement for its values.
        self.may_reuse_plans = not connections.citus
        self._replica: Replica | None = None
        # Calls report the revision that their answer shows, because a replica may answer the next one.
        self.reports_revision = connections.only_reads
        # What its transactions see; None: what the current call reaches. See `for_spaces`.
        self.space_ids: tuple[UUID, ...] | None = None
        # This database is a replica, which may lag.
        self.is_replica = connections.only_reads
        self.service = service
        # Scan budgets of the tenants.
        self.scan_buckets = ScanBuckets(scan_bytes_per_second)
        self.observer = named_queries.QueryObserver(service=service, database=name, slow_seconds=slow_seconds).observe

    @classmethod
    @asynccontextmanager
    async def open(  # noqa: PLR0913 - the options of a pool.
        cls,
        url: str,
        *,
        service: str,
        size: int,
        timeout: float,
        init: Callable[[Any], Coroutine[Any, Any, None]] | None = None,
        pooled: bool = False,
        statements: int = STATEMENT_CACHE,
        only_reads: bool = False,
        slow_seconds: float = named_queries.SLOW_SECONDS,
        limits: ReadLimits | None = None,
        citus: bool = False,
    ) -> AsyncIterator[Self]:
        """Open the pool lazily: the database may start later, and calls are refused until then.

        `size` is the number of connections, `timeout` the longest wait for one in seconds. `pooled`: the URL leads to a
        PgBouncer in transaction mode. Each connection keeps `statements` prepared statements. Queries longer than
        `slow_seconds` are logged; 0: none. `limits` apply to the reads of callers. `only_reads`: it is a replica.
        `citus`: it is the coordinator of a Citus cluster, where no plan is reused and BEGIN has a message of its own.
        """
        pool = asyncpg.create_pool(
            **connect_arguments(url, database_role(service), pooled=pooled),
            min_size=0,
            max_size=size,
            timeout=CONNECT_SECONDS,
            statement_cache_size=statements,
            max_inactive_connection_lifetime=300.0,
            connect=connect,
            init=init,
            # Transactions use SET LOCAL only, so a connection needs no reset.
            reset=_skip_reset,
        )
        limits = limits or ReadLimits()
        async with pool:
            connections = ConnectionPool(
                pool,
                pool_name=f"{service}_replica" if only_reads else service,
                timeout=timeout,
                pooled=pooled,
                only_reads=only_reads,
                read_seconds=limits.seconds,
                citus=citus,
            )
            yield cls(
                connections,
                service=service,
                name=urlsplit(url).path.lstrip("/"),
                slow_seconds=slow_seconds,
                scan_bytes_per_second=limits.scan_bytes_per_second,
            )

    def for_all_spaces(self) -> Self:
        """Return the same database, whose transactions see what lies in every space.

        For caches, queues and indexes that serve all callers, and show no caller what they read. Use it where a service
        is composed.
        """
        return self.for_spaces(ALL_SPACES)

    def for_spaces(self, space_ids: tuple[UUID, ...] | None) -> Self:
        """Return the same database, whose transactions see some spaces, whatever the call; None: what the call reaches.

        For background work on behalf of callers that reached these spaces.
        """
        database = copy.copy(self)
        database.space_ids = space_ids
        return database

    def use_replica(self, replica: Database) -> None:
        """Use a replica for the reads that it may answer, while it is recent enough."""
        replica.scan_buckets = self.scan_buckets
        self._replica = Replica(replica)
        self.reports_revision = True

    def transaction(
        self, tenant_id: UUID, options: TxOptions = tx_options.DEFAULT
    ) -> AbstractAsyncContextManager[Transaction]:
        """Run a transaction that sees one tenant's rows; it commits when the block ends without an error.

        A replica runs it instead, if there is one that shows the revision of the call. Raises DatabaseBusy,
        DatabaseUnavailable and the other errors of skein_kit.database.postgres_errors, and HistoryNotKept for an
        as_of_time on Citus, which has no triggers.
        """
        if options.as_of_time is not None and self.is_citus:
            raise HistoryNotKept
        call = current_call()
        settings = f"; SET LOCAL skein.tenant_id = '{tenant_id}'{self._walls(options)}"
        if options.repeatable_read:
            # Before the first statement, which takes the snapshot.
            settings = f"; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ{settings}"
        if options.plan_once and self.may_reuse_plans:
            settings += "; SET LOCAL plan_cache_mode = force_generic_plan"
        if not options.durable:
            settings += "; SET LOCAL synchronous_commit = off"
        if options.as_of_time is not None:
            settings += f"; SET LOCAL skein.as_of_time = '{options.as_of_time.isoformat()}'"
            if options.unseen_times:
                times = ",".join(f'"{time.isoformat()}"' for time in options.unseen_times)
                settings += f"; SET LOCAL skein.unseen_times = '{{{times}}}'"
        elif not options.read_only and call is not None:
            settings += f"; SET LOCAL skein.write_time = '{call.write_time.isoformat()}'"
        primary = _TransactionContext(
            self, settings, has_revision=not options.skip_replica, read_only=options.read_only
        )
        # A replica is asked how far it is by a first statement, which would fix the snapshot.
        is_for_replica = self._replica is not None and not options.skip_replica and not options.repeatable_read
        if self._replica is not None and is_for_replica and call is not None and call.min_revision is not None:
            return _by_replica(self._replica, settings, call, primary)
        return primary

    def _walls(self, options: TxOptions) -> str:
        """Return the settings by which row-level security leaves out what the call does not see in its tenant."""
        settings = ""
        if (agent_id := bound_agent_id()) and not options.has_all_agents:
            settings += f"; SET LOCAL skein.agent_id = {_quote(agent_id)}"
        space_ids = current_space_ids() if self.space_ids is None else self.space_ids
        if space_ids == ALL_SPACES:
            settings += "; SET LOCAL skein.all_spaces = 'on'"
        elif space_ids is not None:
            # Without the setting a transaction sees the default space.
            settings += f"; SET LOCAL skein.spaces = {_space_list(space_ids)}"
        return settings

    def begin_with_settings(self, settings: str) -> AbstractAsyncContextManager[Transaction]:
        """Run a transaction with settings of its own, each "; SET LOCAL name = 'value'"."""
        return _TransactionContext(self, settings)

    def global_transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Run a transaction that sees global tables and no tenant's rows."""
        return _TransactionContext(self, "")

    def operator_transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Run a transaction that sees the directory of all tenants, and the rows of NO_TENANT.

        Those rows are the saved responses to requests of operators.
        """
        return _TransactionContext(
            self, f"; SET LOCAL skein.operator = 'on'; SET LOCAL skein.tenant_id = '{NO_TENANT}'"
        )

    def account_transaction(
        self, account_id: UUID, *, directory: bool = False
    ) -> AbstractAsyncContextManager[Transaction]:
        """Run a transaction that sees the rows of one account in every tenant: memberships, auth sessions.

        With `directory` it also sees the directory of all tenants, to find those of the account's memberships.
        """
        settings = f"; SET LOCAL skein.account_id = '{account_id}'; SET LOCAL skein.tenant_id = '{NO_TENANT}'"
        if directory:
            settings += "; SET LOCAL skein.operator = 'on'"
        return _TransactionContext(self, settings)


def _space_list(space_ids: Sequence[UUID]) -> str:
    """Return spaces as a literal of SQL, which is not empty for none of them."""
    return f"'{{{','.join(map(str, space_ids))}}}'"


def _quote(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


class _TransactionContext:
    """Begins and ends one transaction around a block. A class is faster than a generator, and every call uses it."""

    __slots__ = ("_connection", "_database", "_has_revision", "_read_only", "_settings", "_transaction")

    def __init__(
        self, database: Database, settings: str, *, has_revision: bool = True, read_only: bool = False
    ) -> None:
        self._database = database
        self._settings = settings
        self._has_revision = has_revision and database.reports_revision
        self._read_only = read_only
        self._connection: Any = None
        self._transaction: Transaction

    async def __aenter__(self) -> Transaction:
        try:
            self._connection = await self._database.connections.begin(self._settings, read_only=self._read_only)
        except Exception as error:
            raise_rpc_error(error)
            raise
        transaction = self._transaction = Transaction(self._connection, self._database)
        return transaction

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._transaction.close()
        try:
            await self._end(error)
        except Exception as end_error:
            raise_rpc_error(end_error)
            raise
        if error is not None:
            raise_rpc_error(error)

    async def _end(self, error: BaseException | None) -> None:
        connections, connection = self._database.connections, self._connection
        has_ended = False
        try:
            if error is None:
                await connection.execute(f"{self._transaction.commit_prefix}COMMIT")
                has_ended = True
                if self._has_revision:
                    await _record_revision(connection)
            elif self._has_revision and isinstance(error, RpcError):
                # An error may show rows too, and the caller's next read must show them.
                await connection.execute("ROLLBACK", timeout=ANSWER_SECONDS)
                has_ended = True
                await _record_revision(connection)
        finally:
            if has_ended:
                # The pool completes the release even when the call is cancelled.
                await connections.release(connection)
            else:
                await connections.rollback_and_release(connection)


async def retry_conflicts(change: Callable[[], Awaitable[_Result]], *, attempts: int, pause_seconds: float) -> _Result:
    """Make a change in transactions of its own, and again after a pause while it raises TransactionConflict.

    The last of the attempts raises it. The pause is random, half or one and a half times as long.
    """
    for _ in range(attempts - 1):
        try:
            return await change()
        except TransactionConflict:
            await asyncio.sleep(pause_seconds * (0.5 + random.random()))  # noqa: S311 - not a secret.
    return await change()


class Replica:
    """Reads of one service from its replica; the primary answers what the replica cannot.

    How far the replica was is not remembered: its address may lead to several servers, one of them just restarted.
    """

    def __init__(self, database: Database) -> None:
        """`database` only reads."""
        self._database = database
        self._retry_at = 0.0
        self._served_count, self._behind_count, self._unavailable_count = (
            REPLICA_READ_COUNT.labels(database.service, outcome) for outcome in ("served", "behind", "unavailable")
        )

    async def begin(self, stack: AsyncExitStack, settings: str, call: Call) -> Transaction | None:
        """Begin a transaction for a read; return None when the primary must answer it."""
        if call.min_revision is None or call.min_revision == UNREACHABLE_REVISION or time.monotonic() < self._retry_at:
            return None
        # This transaction shows at min_revision the state that an earlier one of the call has shown.
        min_revision = max(call.min_revision, call.revision)
        try:
            async with AsyncExitStack() as attempt_stack:
                transaction = await attempt_stack.enter_async_context(self._database.begin_with_settings(settings))
                if await _wait_for_revision(transaction, min_revision):
                    stack.push_async_exit(attempt_stack.pop_all())
                    self._served_count.inc()
                    return transaction
        # The primary can answer, whatever the error is: a wrong password, for example.
        except (DatabaseBusy, DatabaseUnavailable, asyncpg.PostgresError):
            self._retry_at = time.monotonic() + _RETRY_SECONDS
            self._unavailable_count.inc()
            return None
        self._behind_count.inc()
        return None


async def _wait_for_revision(transaction: Transaction, min_revision: int) -> bool:
    """Return whether the transaction's reads from now on show this revision."""
    if min_revision == 0:
        return True
    for attempt in range(_ATTEMPTS):
        if attempt:
            await asyncio.sleep(_PAUSE_SECONDS)
        lag_bytes = min_revision - await transaction.value(_LOG_POSITION)
        if lag_bytes <= 0:
            return True
        if lag_bytes > _MAX_LAG_BYTES:
            break
    return False


@asynccontextmanager
async def _by_replica(
    replica: Replica, settings: str, call: Call, primary: _TransactionContext
) -> AsyncIterator[Transaction]:
    """Run a transaction on a replica that shows what the call must show; without one, on the primary."""
    async with AsyncExitStack() as stack:
        transaction = await replica.begin(stack, settings, call)
        if transaction is None:
            transaction = await stack.enter_async_context(primary)
        yield transaction


async def _record_revision(connection: asyncpg.pool.PoolConnectionProxy[asyncpg.Record]) -> None:
    """Record the present revision on the call: its response shows nothing newer.

    If the connection breaks here, the call fails, as with a failed commit. Without a revision the caller's next read
    could be older than the response.
    """
    call = current_call()
    if call is not None and call.reports_revision:
        call.observe_revision(await connection.fetchval(_LOG_POSITION.text, timeout=ANSWER_SECONDS))


@contextmanager
def translate_constraint_errors(rpc_errors: Mapping[str, RpcError | Callable[[], RpcError]]) -> Iterator[None]:
    """Turn violations of named constraints into their RpcErrors; other violations are bugs and pass through."""
    try:
        yield
    except asyncpg.IntegrityConstraintViolationError as error:
        rpc_error = rpc_errors.get(violated_constraint(error))
        if rpc_error is None:
            raise
        raise (rpc_error if isinstance(rpc_error, RpcError) else rpc_error()) from None


def _count(status: str) -> int:
    """Return the number of rows in the status of a command, such as "INSERT 0 3"; 0 without one."""
    count = status.rsplit(" ", 1)[-1]
    return int(count) if count.isdigit() else 0


async def _skip_reset(_connection: object) -> None:
    """Leave a released connection as it is."""
