"""Items whose vectors follow the answer: kept in memory, made together, and waited for by whoever searches next.

What does not fit, or is lost with the process, is in the database's backlog all the same: the worker finds it.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from skein_kit.telemetry import logs
from skein_recall.index.indexer import batches

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from uuid import UUID

    from skein_recall.providers.text_embedder import IndexItem

# Seconds' work; more than that is the backlog's.
MOST_ITEMS = 2000
MOST_CHARACTERS = 2_000_000
# One text of more can keep the model busy for seconds, and one of the longest for a minute.
SHORT_CHARACTERS = 4000
# Of a portion of several items: somebody may wait for the next one.
PORTION_CHARACTERS = 8000

log = logs.get("recall")


class EmbeddingQueue:
    """Two lines, so that nobody's short items wait for somebody's long ones. In each of them tenants take turns."""

    def __init__(self, index: Callable[[UUID, Sequence[IndexItem]], Awaitable[int]]) -> None:
        """Make vectors with `index`, a portion of one tenant's items at a time in each line."""
        self._short, self._long = _TenantQueues(index), _TenantQueues(index)

    @property
    def depth(self) -> int:
        """Return how many items wait for their turn."""
        return self._short.items + self._long.items

    def put(self, tenant_id: UUID, items: Sequence[IndexItem]) -> bool:
        """Take items, or none of them when there is no room. Of an item that waits already, the newer text counts."""
        characters = self._short.characters + self._long.characters + sum(len(item.text) for item in items)
        if self.depth + len(items) > MOST_ITEMS or characters > MOST_CHARACTERS:
            return False
        for item in items:
            for line in (self._short, self._long):
                line.drop(tenant_id, item.item_id)
            (self._short if len(item.text) <= SHORT_CHARACTERS else self._long).put(tenant_id, item)
        return True

    def of(self, tenant_id: UUID) -> set[UUID]:
        """Return the tenant's items that wait or are being made."""
        return self._short.of(tenant_id) | self._long.of(tenant_id)

    async def settled(self, tenant_id: UUID, seconds: float) -> None:
        """Wait until the tenant's items of now are done with, but no longer than `seconds`; its turn comes sooner."""
        lines = [(line, waiting) for line in (self._short, self._long) if (waiting := line.of(tenant_id))]
        if not lines:
            return
        with ExitStack() as stack, suppress(TimeoutError):
            for line, _ in lines:
                stack.enter_context(line.hurried(tenant_id))
            async with asyncio.timeout(seconds):
                for line, waiting in lines:
                    await line.ended(tenant_id, waiting)

    async def run(self) -> None:
        """Make vectors for as long as the service runs."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._short.run())
            group.create_task(self._long.run())


class _TenantQueues:
    """A queue for each tenant; they take turns, and one that somebody waits for comes sooner."""

    def __init__(self, index: Callable[[UUID, Sequence[IndexItem]], Awaitable[int]]) -> None:
        self._index = index
        # Tenants in the order of their turns, with their items by id.
        self._queues: OrderedDict[UUID, OrderedDict[UUID, IndexItem]] = OrderedDict()
        # The portion that is being made, and whose it is.
        self._running: tuple[UUID | None, list[IndexItem]] = (None, [])
        # Of the items that wait.
        self.items = 0
        self.characters = 0
        self._came = asyncio.Event()
        self._ended = asyncio.Event()
        # Tenants that somebody waits for, in the order in which they did, and whether the last turn was one of theirs.
        self._hurried: dict[UUID, None] = {}
        self._was_hurried = False
        # Those who wait for their tenant's items, and that there is one more of them.
        self._waiters = 0
        self._hurry = asyncio.Event()

    def put(self, tenant_id: UUID, item: IndexItem) -> None:
        """Take an item."""
        self._queues.setdefault(tenant_id, OrderedDict())[item.item_id] = item
        self.items += 1
        self.characters += len(item.text)
        self._came.set()

    def drop(self, tenant_id: UUID, item_id: UUID) -> None:
        """Forget an item that waits, if it does."""
        queue = self._queues.get(tenant_id)
        if queue is None or (item := queue.pop(item_id, None)) is None:
            return
        self._left([item])
        if not queue:
            del self._queues[tenant_id]
            self._hurried.pop(tenant_id, None)

    def of(self, tenant_id: UUID) -> set[UUID]:
        """Return the tenant's items that wait or are being made."""
        waiting = set(self._queues.get(tenant_id, ()))
        whose, portion = self._running
        if whose == tenant_id:
            waiting.update(item.item_id for item in portion)
        return waiting

    @contextmanager
    def hurried(self, tenant_id: UUID) -> Iterator[None]:
        """Give a tenant a turn sooner, because somebody waits for it while the block runs."""
        if tenant_id in self._queues:
            self._hurried[tenant_id] = None
        self._waiters += 1
        self._hurry.set()
        try:
            yield
        finally:
            self._waiters -= 1

    async def ended(self, tenant_id: UUID, waiting: set[UUID]) -> None:
        """Return when these items of a tenant are done with."""
        while not waiting.isdisjoint(self.of(tenant_id)):
            await self._ended.wait()

    async def run(self) -> None:
        """Make vectors, portion by portion."""
        while True:
            await self._came.wait()
            self._came.clear()
            while self._queues:
                started = time.monotonic()
                await self._turn()
                await self._rest(time.monotonic() - started)

    async def _rest(self, seconds: float) -> None:
        """Leave as much time as was taken to those who are answered meanwhile, unless somebody waits."""
        if self._waiters:
            return
        self._hurry.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()

    async def _turn(self) -> None:
        tenant_id = self._whose_turn()
        queue = self._queues[tenant_id]
        portion = next(batches(queue.values(), characters=PORTION_CHARACTERS))
        for item in portion:
            del queue[item.item_id]
        self._left(portion)
        if queue:
            self._queues.move_to_end(tenant_id)
        else:
            del self._queues[tenant_id]
        self._running = (tenant_id, portion)
        try:
            await self._index(tenant_id, portion)
        except Exception as error:  # noqa: BLE001 - whatever it is, the backlog has these items too.
            log.warning("embedding_deferred", items=len(portion), error=type(error).__name__)
        finally:
            self._running = (None, [])
            self._ended.set()
            self._ended = asyncio.Event()

    def _whose_turn(self) -> UUID:
        """Return the next tenant; those that somebody waits for have every other turn, so that all others have some."""
        first = next(iter(self._queues))
        tenant_id = first if self._was_hurried else next(iter(self._hurried), first)
        self._was_hurried = tenant_id in self._hurried and not self._was_hurried
        self._hurried.pop(tenant_id, None)
        return tenant_id

    def _left(self, items: Sequence[IndexItem]) -> None:
        self.items -= len(items)
        self.characters -= sum(len(item.text) for item in items)
