"""The access log's writer: every call of some servicers is recorded, in batches, seconds after it at the latest.

A tenant with `audit_strict` has each access recorded before it begins, and refused when that cannot be done. Everybody
else's is written behind the answer; what is lost on the way is counted.
"""

from __future__ import annotations

import asyncio
import inspect
import secrets
from collections import Counter as Tally
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

import asyncpg
from grpc import aio
from prometheus_client import Counter

from skein_kit import canary
from skein_kit.access_log import batch
from skein_kit.access_log.event import AccessEvent, access_event, has_query_field
from skein_kit.background import background_tasks
from skein_kit.database.named_queries import Queries
from skein_kit.database.tx_options import TxOptions
from skein_kit.errors import AccessLogUnavailable, RpcError
from skein_kit.identity.permissions import ACCESS_RULES
from skein_kit.ids import new_ids, now
from skein_kit.telemetry import logs

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
    from uuid import UUID

    from google.protobuf.message import Message

    from skein_kit.calls.call import Call
    from skein_kit.database.transactions import Database
    from skein_kit.policies.store import Policy, PolicyCache

# How long a record waits for others to be written with it; where writing takes long, for so many times that, up to a
# longest time.
FLUSH_SECONDS = 1.0
_PAUSES = 20
_MAX_FLUSH_SECONDS = 5.0
# Records that wait at most; what comes beyond is lost, and counted.
MAX_WAITING = 20_000
# Records that are written at once, whenever the last ones were; and those of one tenant that one transaction takes:
# a longer one would keep watchers from what others do meanwhile.
_FLUSH_AT_EVENTS = 2000
_MAX_CONCURRENT_WRITES = 96
_STOP_SECONDS = 5.0
KEY_BYTES = 32
# A process uses a cached key for this long after the key was deleted.
KEY_CACHE_SECONDS = 5.0
# What touches nothing of a tenant, and reading the log itself, which would grow by being read.
_UNLOGGED_METHODS = frozenset(
    {"EmbedText", "ListEmbeddingModels", "RegisterEmbeddingModel", "ListMemoryTypes", "ListAccessLog"}
)

RECORDED = Counter("skein_access_log_events_total", "Access events that were written.", ["service"])
DROPPED = Counter(
    "skein_access_log_lost_events_total",
    "Access events that could not be written, of tenants without audit_strict.",
    ["service"],
)

log = logs.get("skein")


class AccessLog:
    """Records what the calls of one service touch."""

    def __init__(self, database: Database, policies: PolicyCache, *, counts_uses: bool) -> None:
        """Write with the service's role; with `counts_uses` memories that are handed out are counted as used."""
        self._database = database
        self._policies = policies
        self._keys = AccessLogKeys(database)
        self._counts_uses = counts_uses
        queries = Queries.load("skein_kit")
        self._insert, self._finish = queries["insert_accesses"], queries["finish_access"]
        self._count = queries["count_accesses"]
        self._waiting: list[AccessEvent] = []
        self._uses: dict[UUID, Tally[str]] = {}
        # Something waits; and so much that it is written at once.
        self._has_events, self._has_full_batch = asyncio.Event(), asyncio.Event()
        self._recorded, self._lost = RECORDED.labels(database.service), DROPPED.labels(database.service)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Self]:
        """Write while the block runs, and what still waits when it ends."""
        async with background_tasks(access_log=self._keep_writing):
            yield self
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await self.flush()
        self._count_dropped(len(self._waiting))

    def wrap(self, servicer: object) -> LoggedServicer:
        """Return a servicer that answers the same, and has every call recorded."""
        return LoggedServicer(servicer, self)

    async def call_and_record(
        self, method: Callable[[Any, Any], Awaitable[Message]], request: Message, context: Call
    ) -> Message:
        """Have a method answer, and record what came of it. Raises AccessLogUnavailable."""
        tenant_id = context.caller.tenant_id if context.caller is not None else None
        if tenant_id is None or _is_probe(tenant_id, context):
            return await method(request, context)
        at = now()
        policy = await self._policy(tenant_id)
        is_hashed = not policy.audit_query_text and has_query_field(request.DESCRIPTOR)
        query_key = await self._keys.get(tenant_id) if is_hashed else b""

        def access(response: Message | None, reason: str | None) -> AccessEvent:
            return access_event(
                context,
                tenant_id,
                request,
                response,
                at=at,
                error_reason=reason,
                with_query=policy.audit_query_text,
                query_key=query_key,
            )

        begun = await self._begin(access(None, None)) if policy.audit_strict else None
        try:
            response = await method(request, context)
        except BaseException as error:
            ended = access(None, _reason(error))
            if begun is None:
                self._append(ended)
            else:
                # It is recorded as begun in any case.
                with suppress(AccessLogUnavailable):
                    await self._end(begun, ended)
            raise
        ended = access(response, None)
        if begun is None:
            self._append(ended)
        else:
            await self._end(begun, ended)
        self._count_uses(ended)
        return response

    async def flush(self) -> None:
        """Write everything that waits, tenant by tenant; what the database does not take is lost.

        What is not written when it is cut off waits again.
        """
        waiting, self._waiting = self._waiting, []
        uses, self._uses = self._uses, {}
        tenants: dict[UUID, list[AccessEvent]] = {}
        for access in waiting:
            tenants.setdefault(access.tenant_id, []).append(access)
        try:
            for tenant_id in tenants.keys() | uses.keys():
                await self._write(tenant_id, tenants.get(tenant_id, []), uses.get(tenant_id, Tally()))
                tenants.pop(tenant_id, None)
        finally:
            self._waiting += [access for left in tenants.values() for access in left]
            if self._waiting:
                self._has_events.set()

    async def _keep_writing(self) -> None:
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
            pause = min(max(FLUSH_SECONDS, _PAUSES * (loop.time() - started)), _MAX_FLUSH_SECONDS)

    async def _write(self, tenant_id: UUID, accesses: list[AccessEvent], uses: Tally[str]) -> None:
        """Write one tenant's, part by part; what is done with leaves the list."""
        while len(accesses) > _MAX_CONCURRENT_WRITES:
            await self._write_part(tenant_id, accesses[:_MAX_CONCURRENT_WRITES], Tally())
            del accesses[:_MAX_CONCURRENT_WRITES]
        await self._write_part(tenant_id, accesses, uses)

    async def _write_part(self, tenant_id: UUID, accesses: list[AccessEvent], uses: Tally[str]) -> None:
        try:
            try:
                await self._insert_all(tenant_id, accesses, uses)
            except asyncpg.ForeignKeyViolationError:
                # Memories that were purged meanwhile are counted no more.
                await self._insert_all(tenant_id, accesses, Tally())
                await self._count_each(tenant_id, uses)
            self._recorded.inc(len(accesses))
        except (RpcError, asyncpg.PostgresError) as error:
            self._count_dropped(len(accesses))
            log.warning("access_log_lost", tenant_id=str(tenant_id), count=len(accesses), error=type(error).__name__)

    async def _insert_all(self, tenant_id: UUID, accesses: list[AccessEvent], uses: Tally[str]) -> None:
        async with self._database.transaction(tenant_id, TxOptions(durable=False, plan_once=True)) as tx:
            for query, values in batch.insert_statements(tenant_id, accesses):
                await tx.execute(query, **values)
            for counted in batch.use_count_statements(tenant_id, uses):
                tx.commit_prefix += f"{counted}; "

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
            log.warning("uses_lost", tenant_id=str(tenant_id), count=len(uses), error=type(error).__name__)

    async def _begin(self, access: AccessEvent) -> dict[str | None, UUID]:
        """Record an access before it begins; return its rows by the memories that they name."""
        ids = new_ids(access.create_time, access.row_count)
        try:
            async with self._database.transaction(access.tenant_id, TxOptions(skip_replica=True)) as tx:
                await tx.insert(self._insert, access.tenant_id, access.rows(ids))
        except (RpcError, asyncpg.PostgresError) as error:
            raise AccessLogUnavailable from error
        return dict(zip(access.memory_ids_or_none, ids, strict=True))

    async def _end(self, begun: dict[str | None, UUID], access: AccessEvent) -> None:
        """Say how a recorded access ended, and which other memories it touched; no answer leaves before that."""
        rest = access.with_memory_ids(tuple(id_ for id_ in access.memory_ids if id_ not in begun))
        try:
            async with self._database.transaction(access.tenant_id, TxOptions(skip_replica=True)) as tx:
                await tx.execute(
                    self._finish,
                    tenant_id=access.tenant_id,
                    access_ids=list(begun.values()),
                    success=access.success,
                    error_reason=access.error_reason,
                    item_count=access.item_count,
                )
                if rest.memory_ids:
                    await tx.insert(self._insert, access.tenant_id, rest.rows(new_ids(now(), rest.row_count)))
        except (RpcError, asyncpg.PostgresError) as error:
            raise AccessLogUnavailable from error
        self._recorded.inc()

    def _append(self, access: AccessEvent) -> None:
        if len(self._waiting) >= MAX_WAITING:
            self._count_dropped(1)
            return
        self._waiting.append(access)
        self._has_events.set()
        if len(self._waiting) >= _FLUSH_AT_EVENTS:
            self._has_full_batch.set()

    def _count_uses(self, access: AccessEvent) -> None:
        if self._counts_uses and access.used_memory_ids:
            self._uses.setdefault(access.tenant_id, Tally()).update(access.used_memory_ids)
            self._has_events.set()

    def _count_dropped(self, count: int) -> None:
        if count:
            self._lost.inc(count)

    async def _policy(self, tenant_id: UUID) -> Policy:
        known = self._policies.get_cached(tenant_id)
        if known is not None:
            return known
        async with self._database.transaction(
            tenant_id, TxOptions(plan_once=True, skip_replica=True, read_only=True)
        ) as tx:
            return await self._policies.get(tx, tenant_id)


def _is_probe(tenant_id: UUID, context: Call) -> bool:
    """Say whether the canary reads: a record of that, every minute, would be most of the log and tell nothing."""
    if tenant_id not in canary.CANARY_TENANT_IDS:
        return False
    return str(ACCESS_RULES[context.path].permission).endswith(".read") or context.path.endswith("/ExportSubject")


def _reason(error: BaseException) -> str:
    if isinstance(error, RpcError):
        return error.reason
    if isinstance(error, aio.AioRpcError):
        return error.code().name
    return "CANCELLED" if isinstance(error, asyncio.CancelledError) else "INTERNAL"


class LoggedServicer:
    """A servicer whose calls are recorded, streams as they begin."""

    def __init__(self, servicer: object, access_log: AccessLog) -> None:
        """Answer as `servicer` does."""
        self._servicer = servicer
        self._access_log = access_log

    def __getattr__(self, name: str) -> Any:
        """Return the servicer's method, recorded."""
        method = getattr(self._servicer, name)
        if name not in _UNLOGGED_METHODS and inspect.isasyncgenfunction(method):
            return self._stream(method)
        if name in _UNLOGGED_METHODS or not inspect.iscoroutinefunction(method):
            return method

        async def recorded(request: Message, context: Call) -> Message:
            return await self._access_log.call_and_record(method, request, context)

        return recorded

    def _stream(self, method: Callable[[Any, Any], AsyncGenerator[Message, None]]) -> Callable[..., Any]:
        async def recorded(request: Message, context: Call) -> AsyncGenerator[Message, None]:
            async with aclosing(method(request, context)) as messages:

                async def begin(_request: Message, _context: Call) -> Message:
                    # Ours send a message at once, which says where they are.
                    return await anext(messages)

                yield await self._access_log.call_and_record(begin, request, context)
                async for message in messages:
                    yield message

        return recorded


class AccessLogKeys:
    """The key of each tenant for the hashes of its access log, cached for a few seconds.

    Erasing a person deletes the key, so that the hashes of their queries cannot be recomputed.
    """

    def __init__(self, database: Database) -> None:
        """Read and create keys with the database's role."""
        queries = Queries.load("skein_kit")
        self._read, self._make = queries["read_access_key"], queries["make_access_key"]
        self._database = database
        self._known: dict[UUID, bytes] = {}

    async def get(self, tenant_id: UUID) -> bytes:
        """Return the tenant's key; create it when the tenant has none."""
        key = self._known.get(tenant_id)
        if key is not None:
            return key
        async with self._database.transaction(tenant_id, TxOptions(plan_once=True, skip_replica=True)) as tx:
            found: bytes | None = await tx.value(self._read, tenant_id=tenant_id)
            if found is None:
                made = secrets.token_bytes(KEY_BYTES)
                await tx.execute(self._make, tenant_id=tenant_id, secret=made)
                # Another process may have been first.
                found = await tx.value(self._read, tenant_id=tenant_id) or made
        self._known[tenant_id] = found
        asyncio.get_running_loop().call_later(KEY_CACHE_SECONDS, self._known.pop, tenant_id, None)
        return found
