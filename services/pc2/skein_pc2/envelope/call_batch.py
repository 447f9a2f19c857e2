"""Batches of calls: messages that arrive at the same time share one call.

A message never waits for others. While few calls are in flight, each message has its own call. Later messages are
queued, and the queue becomes one call as soon as a call returns. Replies stay fast, and load makes messages cheaper.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from grpc import aio

from skein_pc2.protocol.concurrency import RequestContext
from skein_pc2.protocol.errors import RequestError

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _PendingItem(Generic[Item, Result]):
    item: Item
    context: RequestContext
    future: asyncio.Future[Result | None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class CallBatcher(Generic[Item, Result]):
    """Batches one kind of call of one API key."""

    def __init__(
        self,
        call_one: Callable[[Item, RequestContext], Awaitable[Result]],
        call_many: Callable[[Sequence[Item], RequestContext], Awaitable[Sequence[Result | None]]],
        *,
        max_calls: int = 2,
        max_items: int = 32,
    ) -> None:
        """Run up to `max_calls` calls at the same time, each for one item or for a batch.

        `call_many` handles up to `max_items` items, all or none. It returns None for an item that needs its own call.
        """
        self._call_one = call_one
        self._call_many = call_many
        self._free_slots = max_calls
        self._max_items = max_items
        self._queue: deque[_PendingItem[Item, Result]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, item: Item, context: RequestContext) -> Result:
        """Return the item's result, from a call of its own or from a batch. Raises what `call_one` raises."""
        if not self._free_slots:
            pending: _PendingItem[Item, Result] = _PendingItem(item, context)
            self._queue.append(pending)
            result = await pending.future
            return await self._call_one(item, context) if result is None else result
        self._free_slots -= 1
        try:
            return await self._call_one(item, context)
        finally:
            self._release()

    def _release(self) -> None:
        """Start a batch of the queued items of one agent, or free the slot."""
        batch: list[_PendingItem[Item, Result]] = []
        others: list[_PendingItem[Item, Result]] = []
        while self._queue and len(batch) < self._max_items:
            pending = self._queue.popleft()
            # A cancelled caller needs no result.
            if pending.future.done():
                continue
            # A call claims one agent, by which memories wait for approval and are rated.
            same_agent = not batch or pending.context.sender.agent_id == batch[0].context.sender.agent_id
            (batch if same_agent else others).append(pending)
        self._queue.extendleft(reversed(others))
        if not batch:
            self._free_slots += 1
            return
        task = asyncio.create_task(self._run_batch(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_batch(self, batch: Sequence[_PendingItem[Item, Result]]) -> None:
        results: Sequence[Result | None] = [None] * len(batch)
        try:
            if len(batch) == 1:
                results = [await self._call_one(batch[0].item, batch[0].context)]
            else:
                # The batch has the deadline of its oldest item.
                results = await self._call_many([pending.item for pending in batch], batch[0].context)
        except (aio.AioRpcError, RequestError) as error:
            if len(batch) == 1 and not batch[0].future.done():
                batch[0].future.set_exception(error)
            # One item of several may be invalid, so each gets its own call.
        finally:
            for pending, result in zip(batch, results, strict=True):
                if not pending.future.done():
                    pending.future.set_result(result)
            self._release()
