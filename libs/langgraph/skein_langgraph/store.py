"""LangGraph's BaseStore: batches of operations, run on a synchronous or an asynchronous client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from langgraph.store.base import (
    BaseStore,
    GetOp,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)

from skein_client import sync
from skein_client.client import Client
from skein_client.connection import DEFAULT_TIMEOUT_SECONDS, ClientClosed, Connection
from skein_client.errors import SkeinError
from skein_langgraph.batch_plan import BatchPlanner, Plan, RpcStep, run_together
from skein_langgraph.items import WHOLE, ItemDraft
from skein_langgraph.namespaces import Namespace, StoreRoot

# Concurrent calls of one batch.
_AT_ONCE = 8

# The type of items' memories: their data is not searched, and `index` chooses their content.
_TYPE = "langgraph"


class SkeinStore(BaseStore):
    """A store whose items are memories of a tenant, to be entered with `with` or `async with`.

    Entered with `with`, it blocks, and its asynchronous methods run in threads. Entered with `async with`, its
    asynchronous methods belong to that event loop; its blocking ones may be called from other threads.

    An item is one memory. Its value is the memory's `data`. The texts of the value are the content, which is searched
    by meaning and by words. A tag stands for each namespace of the item. Writing an item again changes that memory,
    whose earlier versions Skein keeps; deleting one purges it with all of them.
    """

    supports_ttl = True

    def __init__(
        self,
        *,
        endpoint: str,
        api_key: str,
        tenant_id: str = "",
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        root: str = "langgraph",
        fields: Sequence[str] = (WHOLE,),
        ttl: TTLConfig | None = None,
        subject_of: Callable[[Namespace], str] | None = None,
    ) -> None:
        """Keep items in the cluster at `endpoint`.

        `root` sets the items of this store apart from those of others in the tenant. `fields` are the paths of a value
        that are searched unless `put` names others ("$": all of it). `ttl` says how long items live by default, in
        minutes, and whether reading one counts as using it. `subject_of` returns the person whom the items of a
        namespace are about, or an empty text: recall for another person does not find them, and Forget erases them.
        """
        self._connection_options: dict[str, Any] = {
            "endpoint": endpoint,
            "api_key": api_key,
            "tenant_id": tenant_id,
            "timeout": timeout,
        }
        self._planner = BatchPlanner(root=StoreRoot(root), kind=_TYPE)
        self._fields = tuple(fields)
        self._subject_of = subject_of
        self.ttl_config = ttl
        self._sync_client: sync.Client | None = None
        self._async_client: Client | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: ExitStack | None = None
        self._open_async: AsyncExitStack | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, **options: Any) -> Self:
        """Use SKEIN_ENDPOINT and SKEIN_API_KEY, or what `skein up` wrote; `options` are the constructor's."""
        found = Connection.from_environment(environment)
        store = cls(endpoint=found.endpoint, api_key=found.api_key, tenant_id=found.tenant_id, **options)
        store._connection_options["ca_file"] = found.ca_file
        return store

    def __enter__(self) -> Self:
        self._open = ExitStack()
        self._sync_client = self._open.enter_context(sync.Client(**self._connection_options))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sync_client = None
        if self._open is not None:
            self._open.close()

    async def __aenter__(self) -> Self:
        self._open_async = AsyncExitStack()
        self._async_client = await self._open_async.enter_async_context(Client(**self._connection_options))
        self._loop = asyncio.get_running_loop()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._async_client = None
        if self._open_async is not None:
            await self._open_async.aclose()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations; reads see the state before the writes. Raises SkeinError."""
        if self._sync_client is not None:
            return _run(self._plan(list(ops)), self._sync_client)
        if self._async_client is None or self._loop is None:
            raise ClientClosed(
                "The store is not open: use it inside `with SkeinStore(...) as store:`, or `async with`."
            )
        if _is_running(self._loop):
            raise asyncio.InvalidStateError(
                "This would block the event loop that it waits for: await store.aget, aput, asearch instead."
            )
        return asyncio.run_coroutine_threadsafe(self.abatch(list(ops)), self._loop).result()

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do as `batch` does, without blocking."""
        if self._async_client is not None and _is_running(self._loop):
            return await _run_async(self._plan(list(ops)), self._async_client)
        return await asyncio.to_thread(self.batch, list(ops))

    def _plan(self, ops: Sequence[Op]) -> Plan[list[Result]]:
        for op in ops:
            validate_op_namespace(op)
        now = datetime.now(UTC)
        results: list[Result] = [None] * len(ops)
        gets = [(at, op) for at, op in enumerate(ops) if isinstance(op, GetOp)]
        others = [(at, op) for at, op in enumerate(ops) if isinstance(op, SearchOp | ListNamespacesOp)]
        reads: list[Plan[Any]] = []
        if gets:
            reads.append(self._planner.get([(op.namespace, op.key, op.refresh_ttl) for _, op in gets], now))
        for _, op in others:
            plan: Plan[Any]
            plan = self._planner.search(op, now) if isinstance(op, SearchOp) else self._planner.namespaces(op)
            reads.append(plan)
        read = yield from run_together(reads)
        for (at, _), item in zip(gets, read.pop(0) if gets else (), strict=True):
            results[at] = item
        for (at, _), found in zip(others, read, strict=True):
            results[at] = found
        # The later of two writes to one item counts.
        puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        drafts = [self._draft(op) for op in puts.values() if op.value is not None]
        deleted = [place for place, op in puts.items() if op.value is None]
        if drafts:
            yield from self._planner.put(drafts, now)
        if deleted:
            # Deletions come last, because they check for empty namespaces.
            yield from self._planner.delete(deleted)
        return results

    def _draft(self, op: PutOp) -> ItemDraft:
        index = self._fields if op.index is None else op.index
        subject_id = self._subject_of(op.namespace) if self._subject_of is not None else ""
        return ItemDraft(
            namespace=op.namespace, key=op.key, value=op.value or {}, index=index, ttl=op.ttl, subject_id=subject_id
        )


def _is_running(loop: asyncio.AbstractEventLoop | None) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _run(plan: Plan[list[Result]], client: sync.Client) -> list[Result]:
    def call_rpc(call: RpcStep) -> Any:
        service, _, method = call.method.partition(".")
        try:
            return getattr(getattr(client, service), method)(call.request)
        except SkeinError as error:
            return error

    try:
        calls = next(plan)
        while True:
            calls = plan.send([call_rpc(call) for call in calls])
    except StopIteration as done:
        result: list[Result] = done.value
        return result


async def _run_async(plan: Plan[list[Result]], client: Client) -> list[Result]:
    slots = asyncio.Semaphore(_AT_ONCE)

    async def call_rpc(call: RpcStep) -> Any:
        service, _, method = call.method.partition(".")
        async with slots:
            try:
                return await getattr(getattr(client, service), method)(call.request)
            except SkeinError as error:
                return error

    try:
        calls = next(plan)
        while True:
            calls = plan.send(await asyncio.gather(*(call_rpc(call) for call in calls)))
    except StopIteration as done:
        result: list[Result] = done.value
        return result
