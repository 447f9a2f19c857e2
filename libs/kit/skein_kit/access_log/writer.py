"""The access log: records the calls of servicers, and writes their access events in batches within seconds.

For a tenant with `audit_strict` an event is written before the call begins, and the call is refused if that fails. For
other tenants events are written after the answer; lost ones are counted. The statements are few, and of few forms,
because each connection prepares each form.
"""

from __future__ import annotations

import asyncio
import functools
import secrets
from collections import Counter as Tally
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self, cast
from uuid import UUID

import asyncpg
from google.protobuf.message import Message
from grpc import aio
from prometheus_client import Counter

from skein_kit.access_log.event import AccessEvent, access_event, has_query_field
from skein_kit.access_log.refusals import Refusal, RefusalRecorder, code_and_reason, is_probe
from skein_kit.background import background_tasks
from skein_kit.calls.call import Call
from skein_kit.database.named_queries import Queries, Query, grouped_insert, inline_rows
from skein_kit.database.transactions import Database, Transaction
from skein_kit.database.tx_options import TxOptions
from skein_kit.errors import AccessLogUnavailable, RpcError
from skein_kit.ids import min_id_at, new_ids, now, sequential_id_texts
from skein_kit.policies.store import Policy, PolicyCache
from skein_kit.rpc.plain_names import make_names_plain
from skein_kit.telemetry import logs

if TYPE_CHECKING:
    from skein_kit.rpc.streaming import Messages


# Pause between two writes: this multiple of the duration of the last one, within two limits.
FLUSH_SECONDS = 1.0
_PAUSE_FACTOR = 20
_MAX_FLUSH_SECONDS = 5.0
# Most waiting events; further ones are lost, and counted.
MAX_PENDING_EVENTS = 20_000
# This number of waiting events is written without a pause.
_FLUSH_AT_EVENTS = 2000
# Events of one transaction. A longer transaction would delay the change notifications of other writes.
_MAX_EVENTS_PER_WRITE = 96
_STOP_SECONDS = 5.0
KEY_BYTES = 32
# A process uses a cached key for this long after the key was deleted.
KEY_CACHE_SECONDS = 5.0
RECORDED = Counter("skein_access_log_events_total", "Access events that were written.", ["service"])
DROPPED = Counter(
    "skein_access_log_lost_events_total",
    "Access events that could not be written, of tenants without audit_strict.",
    ["service"],
)

log = logs.get("skein")


class AccessLog:
    """The access log of one service."""

    def __init__(self, database: Database, policies: PolicyCache, *, counts_uses: bool) -> None:
        """Write with the service's role. With `counts_uses`, count the uses of memories that calls return."""
        self._database = database
        self._policies = policies
        self._keys = AccessLogKeys(database)
        self._counts_uses = counts_uses
        queries = Queries.load("skein_kit")
        self._insert, self._finish = queries["insert_accesses"], queries["finish_access"]
        self._count, self._narrow = queries["count_accesses"], queries["narrow_accesses"]
        self._pending_events: list[AccessEvent] = []
        self._uses: dict[UUID, Tally[str]] = {}
        # Set when an event waits, and when enough events wait to write at once.
        self._has_events, self._has_full_batch = asyncio.Event(), asyncio.Event()
        # Records the calls that end before `call_and_record`.
        self.refusals = RefusalRecorder(self.record_refusals, count_lost=self._count_dropped)
        self._recorded_count, self._lost_count = RECORDED.labels(database.service), DROPPED.labels(database.service)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Self]:
        """Write events while the block runs, and the waiting ones when it ends."""
        async with background_tasks(access_log=self._write_forever), self.refusals.open():
            yield self
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await self.flush()
        self._count_dropped(len(self._pending_events))

    def wrap(self, handler: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
        """Return a method's handler, whose calls are recorded."""
        return functools.partial(self.call_and_record, handler)

    def wrap_stream(self, messages: Messages) -> Messages:
        """Return the messages of a streaming method; the begin of each stream is recorded, with its first message."""

        async def recorded(request: Any, call: Call) -> AsyncGenerator[Any, None]:
            async with aclosing(messages(request, call)) as stream:

                async def begin(_request: Message, _call: Call) -> Message:
                    # Every stream of Skein sends its position at once.
                    return cast("Message", await anext(stream))

                yield await self.call_and_record(begin, request, call)
                async for message in stream:
                    yield message

        return recorded

    async def call_and_record(
        self,
        method: Callable[[Any, Any], Awaitable[Message]],
        request: Message,
        context: Call,
        *,
        details: Mapping[str, object] | None = None,
    ) -> Message:
        """Call a method and record the access, with `details` beside what an event keeps of a request.

        Raises the errors of the method, and AccessLogUnavailable.
        """
        tenant_id = context.caller.tenant_id if context.caller is not None else None
        context.is_recorded = True
        if tenant_id is None or is_probe(tenant_id, context):
            return await method(request, context)
        at = now()
        policy = await self._policy(tenant_id)
        query_key = await self._query_key(tenant_id, policy, request)

        def event_of(response: Message | None, failure: tuple[str, str] | None) -> AccessEvent:
            event = access_event(
                context,
                tenant_id,
                request,
                response,
                at=at,
                error=failure,
                with_query=policy.audit_query_text,
                query_key=query_key,
            )
            return event.with_details(details) if details else event

        access_event_ids = await self._begin(event_of(None, None)) if policy.audit_strict else None
        try:
            response = await method(request, context)
        except BaseException as error:
            event = event_of(None, _failure(error))
            if access_event_ids is None:
                self._append(event)
            else:
                # The log has the begin of the access in any case.
                with suppress(AccessLogUnavailable):
                    await self._end(access_event_ids, event)
            raise
        event = event_of(response, None)
        if access_event_ids is None:
            self._append(event)
        else:
            await self._end(access_event_ids, event)
        self._count_uses(event)
        return response

    async def record_refusals(self, refusals: Sequence[Refusal]) -> None:
        """Add calls that ended before a service recorded them."""
        for refusal in refusals:
            caller = refusal.call.caller
            if caller is None or caller.tenant_id is None:
                continue
            if refusal.request is not None:
                # A purge finds a person, and a filter a name, in this form alone.
                make_names_plain(refusal.request)
            try:
                policy = await self._policy(caller.tenant_id)
                query_key = await self._query_key(caller.tenant_id, policy, refusal.request)
            except (RpcError, asyncpg.PostgresError) as error:
                self._count_dropped(1)
                log.warning("access_log_lost", tenant_id=str(caller.tenant_id), count=1, error=type(error).__name__)
                continue
            event = access_event(
                refusal.call,
                caller.tenant_id,
                refusal.request,
                None,
                at=refusal.at,
                error=(refusal.error_code, refusal.error_reason),
                with_query=policy.audit_query_text,
                query_key=query_key,
            )
            self._append(replace(event, call_count=refusal.count))

    async def flush(self) -> None:
        """Write all waiting events, tenant by tenant; events that the database refuses are lost.

        Events that are not written when this task is cancelled wait again.
        """
        pending_events, self._pending_events = self._pending_events, []
        uses, self._uses = self._uses, {}
        tenants: dict[UUID, list[AccessEvent]] = {}
        for access in pending_events:
            tenants.setdefault(access.tenant_id, []).append(access)
        try:
            for tenant_id in tenants.keys() | uses.keys():
                await self._write(tenant_id, tenants.get(tenant_id, []), uses.get(tenant_id, Tally()))
                tenants.pop(tenant_id, None)
        finally:
            self._pending_events += [access for events in tenants.values() for access in events]
            if self._pending_events:
                self._has_events.set()

    async def _write_forever(self) -> None:
        loop = asyncio.get_running_loop()
        pause = FLUSH_SECONDS
        while True:
            await self._has_events.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._has_full_batch.wait()
            self._has_events.clear()
            self._has_full_batch.clear()
            started = loop.time()
            await self.flush()
            pause = min(max(FLUSH_SECONDS, _PAUSE_FACTOR * (loop.time() - started)), _MAX_FLUSH_SECONDS)

    async def _write(self, tenant_id: UUID, accesses: list[AccessEvent], uses: Tally[str]) -> None:
        """Write the events of one tenant in batches, and remove the written ones from the list."""
        while len(accesses) > _MAX_EVENTS_PER_WRITE:
            await self._write_batch(tenant_id, accesses[:_MAX_EVENTS_PER_WRITE], Tally())
            del accesses[:_MAX_EVENTS_PER_WRITE]
        await self._write_batch(tenant_id, accesses, uses)

    async def _write_batch(self, tenant_id: UUID, accesses: list[AccessEvent], uses: Tally[str]) -> None:
        try:
            try:
                await self._insert_all(tenant_id, accesses, uses)
            except asyncpg.ForeignKeyViolationError:
                # A purge has removed some of the memories: their uses are not counted.
                await self._insert_all(tenant_id, accesses, Tally())
                await self._count_each(tenant_id, uses)
            self._recorded_count.inc(len(accesses))
        except (RpcError, asyncpg.PostgresError) as error:
            self._count_dropped(len(accesses))
            log.warning("access_log_lost", tenant_id=str(tenant_id), count=len(accesses), error=type(error).__name__)

    async def _insert_all(self, tenant_id: UUID, accesses: list[AccessEvent], uses: Tally[str]) -> None:
        # Events of all spaces are written together.
        async with self._database.for_all_spaces().transaction(
            tenant_id, TxOptions(durable=False, plan_once=True)
        ) as tx:
            for query, values in insert_statements(tenant_id, accesses):
                await tx.execute(query, **values)
            await self._narrow_spaces(tx, tenant_id, accesses)
            for statement in use_count_statements(tenant_id, uses):
                tx.commit_prefix += f"{statement}; "

    async def _count_each(self, tenant_id: UUID, uses: Tally[str]) -> None:
        at = now()
        try:
            for memory_id, count in sorted(uses.items()):
                with suppress(asyncpg.ForeignKeyViolationError):
                    async with self._database.transaction(tenant_id, TxOptions(durable=False)) as tx:
                        await tx.execute(
                            self._count,
                            tenant_id=tenant_id,
                            memory_id=memory_id,
                            access_count=count,
                            last_access_time=at,
                        )
        except (RpcError, asyncpg.PostgresError) as error:
            log.warning("use_counts_lost", tenant_id=str(tenant_id), count=len(uses), error=type(error).__name__)

    async def _begin(self, access: AccessEvent) -> dict[str | None, UUID]:
        """Write the begin of an access; return the ids of its rows by memory id."""
        ids = new_ids(access.create_time, access.row_count)
        try:
            async with self._database.transaction(access.tenant_id, TxOptions(skip_replica=True)) as tx:
                await tx.insert(self._insert, access.tenant_id, access.rows(ids))
        except (RpcError, asyncpg.PostgresError) as error:
            raise AccessLogUnavailable from error
        return dict(zip(access.memory_ids_or_none, ids, strict=True))

    async def _end(self, access_event_ids: dict[str | None, UUID], access: AccessEvent) -> None:
        """Write the result of an access, and rows for the memories of its response. Call it before the answer."""
        new_rows = access.with_memory_ids(tuple(id_ for id_ in access.memory_ids if id_ not in access_event_ids))
        try:
            async with self._database.transaction(access.tenant_id, TxOptions(skip_replica=True)) as tx:
                await tx.execute(
                    self._finish,
                    tenant_id=access.tenant_id,
                    access_event_ids=list(access_event_ids.values()),
                    success=access.success,
                    error_code=access.error_code,
                    error_reason=access.error_reason,
                    item_count=access.item_count,
                    found_nothing=access.found_nothing,
                )
                if new_rows.memory_ids:
                    await tx.insert(self._insert, access.tenant_id, new_rows.rows(new_ids(now(), new_rows.row_count)))
                await self._narrow_spaces(tx, access.tenant_id, [access])
        except (RpcError, asyncpg.PostgresError) as error:
            raise AccessLogUnavailable from error
        self._recorded_count.inc()

    async def _narrow_spaces(self, tx: Transaction, tenant_id: UUID, accesses: Sequence[AccessEvent]) -> None:
        """Store of the rows of memories in which of the reached spaces each memory lies."""
        several = [access for access in accesses if access.memory_ids and len(access.space_ids or ()) > 1]
        # The session service reads no memories, and its calls return none.
        if several and self._counts_uses:
            await tx.execute(
                self._narrow,
                tenant_id=tenant_id,
                first_id=min_id_at(min(access.create_time for access in several)),
                request_ids=[access.request_id for access in several],
            )

    def _append(self, access: AccessEvent) -> None:
        if len(self._pending_events) >= MAX_PENDING_EVENTS:
            self._count_dropped(1)
            return
        self._pending_events.append(access)
        self._has_events.set()
        if len(self._pending_events) >= _FLUSH_AT_EVENTS:
            self._has_full_batch.set()

    def _count_uses(self, access: AccessEvent) -> None:
        if self._counts_uses and access.used_memory_ids:
            self._uses.setdefault(access.tenant_id, Tally()).update(access.used_memory_ids)
            self._has_events.set()

    def _count_dropped(self, count: int) -> None:
        if count:
            self._lost_count.inc(count)

    async def _query_key(self, tenant_id: UUID, policy: Policy, request: Message | None) -> bytes:
        """Return the key for the hash of a request's query; empty when it needs none."""
        is_hashed = not policy.audit_query_text and request is not None and has_query_field(request.DESCRIPTOR)
        return await self._keys.get(tenant_id) if is_hashed else b""

    async def _policy(self, tenant_id: UUID) -> Policy:
        cached = self._policies.get_cached(tenant_id)
        if cached is not None:
            return cached
        async with self._database.transaction(
            tenant_id, TxOptions(plan_once=True, skip_replica=True, read_only=True)
        ) as tx:
            return await self._policies.get(tx, tenant_id)


def _failure(error: BaseException) -> tuple[str, str]:
    """Return the gRPC status and the documented reason of the exception that ended a call."""
    if isinstance(error, RpcError):
        return code_and_reason(error)
    name = "CANCELLED" if isinstance(error, asyncio.CancelledError) else "INTERNAL"
    if isinstance(error, aio.AioRpcError):
        name = error.code().name
    return name, name


class AccessLogKeys:
    """The key of each tenant for the hashes of its access log, cached for a few seconds.

    Erasing a person deletes the key, so that the hashes of their queries cannot be recomputed.
    """

    def __init__(self, database: Database) -> None:
        """Read and create keys with the database's role."""
        queries = Queries.load("skein_kit")
        self._read, self._create = queries["read_access_key"], queries["create_access_key"]
        self._database = database
        self._cached: dict[UUID, bytes] = {}

    async def get(self, tenant_id: UUID) -> bytes:
        """Return the tenant's key; create it when the tenant has none."""
        key: bytes | None = self._cached.get(tenant_id)
        if key is not None:
            return key
        async with self._database.transaction(tenant_id, TxOptions(plan_once=True, skip_replica=True)) as tx:
            key = await tx.value(self._read, tenant_id=tenant_id)
            if key is None:
                new_key = secrets.token_bytes(KEY_BYTES)
                await tx.execute(self._create, tenant_id=tenant_id, secret=new_key)
                # Another process may have been first.
                key = await tx.value(self._read, tenant_id=tenant_id) or new_key
        self._cached[tenant_id] = key
        asyncio.get_running_loop().call_later(KEY_CACHE_SECONDS, self._cached.pop, tenant_id, None)
        return key


_QUERIES = Queries.load("skein_kit")
_INSERT, _COUNT = _QUERIES["insert_accesses"], _QUERIES["count_accesses"]
# The access id and the memory id.
_ROW_COLUMNS = 2
_shared = attrgetter(*_INSERT.parameters[1 + _ROW_COLUMNS :])
# Rows of one call form groups: a group has any number of rows up to _FEW_ROWS, or one of _MANY_ROWS. A statement
# has one of _GROUPS groups. Each connection prepares a statement for each pair that occurs.
_FEW_ROWS, _MANY_ROWS = 16, (50, 20, 16)
_GROUPS = (16, 8, 4, 3, 2, 1)
_ROWS_AT_ONCE = 160
_USES_AT_ONCE = 500


def insert_statements(tenant_id: UUID, accesses: Sequence[AccessEvent]) -> Iterator[tuple[Query, dict[str, object]]]:
    """Yield the statements, with their values, that insert the access events of a tenant."""
    groups: dict[int, list[list[object]]] = {}
    for access in accesses:
        shared, memory_ids = _shared(access), access.memory_ids_or_none
        ids, start = sequential_id_texts(access.create_time, len(memory_ids)), 0
        while start < len(memory_ids):
            size = _group_size(len(memory_ids) - start)
            row_values = [value for index in range(start, start + size) for value in (ids[index], memory_ids[index])]
            groups.setdefault(size, []).append([*row_values, *shared])
            start += size
    for size, groups_of_size in groups.items():
        start, max_rows = 0, max(size, _ROWS_AT_ONCE)
        while start < len(groups_of_size):
            count = next(
                count for count in _GROUPS if count <= len(groups_of_size) - start and count * size <= max_rows
            )
            values = [value for group in groups_of_size[start : start + count] for value in group]
            query = grouped_insert(_INSERT, _ROW_COLUMNS, count, size)
            yield query, dict(zip(query.parameters, (tenant_id, *values), strict=True))
            start += count


def use_count_statements(tenant_id: UUID, uses: Tally[str]) -> Iterator[str]:
    """Yield the statements that count uses of a tenant's memories, with their values inlined: ids and numbers.

    The rows are in the order of ids, so that two services do not deadlock.
    """
    shared, rows = (tenant_id, now().isoformat()), sorted(uses.items())
    for start in range(0, len(rows), _USES_AT_ONCE):
        yield inline_rows(_COUNT, shared, rows[start : start + _USES_AT_ONCE])


def _group_size(rows: int) -> int:
    return rows if rows <= _FEW_ROWS else next(size for size in _MANY_ROWS if size <= rows)
