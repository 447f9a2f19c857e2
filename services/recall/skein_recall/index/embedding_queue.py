"""Items that are embedded after the reply: queued in memory, embedded in batches, awaited by the tenant's next search.

The database's backlog has all of them too, so the worker finds what does not fit here or is lost with the process.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from uuid import UUID

from skein_kit.telemetry import logs
from skein_recall.embedded_model.embedder import is_small
from skein_recall.index.indexer import batches
from skein_recall.providers.text_embedder import IndexItem

# Some seconds' work; the rest is left to the backlog.
MAX_ITEMS = 2000
MAX_CHARACTERS = 2_000_000
# A longer text can keep the model busy for seconds, the longest for a minute.
SHORT_CHARACTERS = 4000
# Characters of a batch of several items, because a search may wait for the next batch.
BATCH_CHARACTERS = 8000

log = logs.get("recall")


class EmbeddingQueue:
    """Two queues, so that short items do not wait for long ones. In each of them tenants take turns."""

    def __init__(self, index: Callable[[UUID, Sequence[IndexItem]], Awaitable[int]]) -> None:
        """Embed with `index`: one batch of one tenant's items at a time in each queue."""
        self._short, self._long = _TenantQueues(index), _TenantQueues(index)

    @property
    def depth(self) -> int:
        """The number of items in the queue."""
        return self._short.items + self._long.items

    def put(self, tenant_id: UUID, items: Sequence[IndexItem]) -> bool:
        """Queue items, or none of them when there is no room. The newer text of an item replaces the older one."""
        characters = self._short.characters + self._long.characters + sum(len(item.text) for item in items)
        if self.depth + len(items) > MAX_ITEMS or characters > MAX_CHARACTERS:
            return False
        for item in items:
            for queues in (self._short, self._long):
                queues.drop(tenant_id, item.item_id)
            (self._short if len(item.text) <= SHORT_CHARACTERS else self._long).put(tenant_id, item)
        return True

    def item_ids(self, tenant_id: UUID) -> set[UUID]:
        """Return the tenant's items that are queued or being embedded."""
        return self._short.item_ids(tenant_id) | self._long.item_ids(tenant_id)

    async def wait_drained(self, tenant_id: UUID, seconds: float) -> None:
        """Wait until the tenant's present items are done, at most `seconds`; the tenant is prioritized meanwhile."""
        queues = [(each, ids) for each in (self._short, self._long) if (ids := each.item_ids(tenant_id))]
        if not queues:
            return
        with ExitStack() as stack, suppress(TimeoutError):
            for each, _ in queues:
                stack.enter_context(each.prioritized(tenant_id))
            async with asyncio.timeout(seconds):
                for each, ids in queues:
                    await each.wait_done(tenant_id, ids)

    async def run(self) -> None:
        """Embed until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._short.run())
            group.create_task(self._long.run())


class _TenantQueues:
    """A queue per tenant. Tenants take turns; one that a search waits for comes sooner."""

    def __init__(self, index: Callable[[UUID, Sequence[IndexItem]], Awaitable[int]]) -> None:
        self._index = index
        # Tenants in the order of their turns, with their items by id.
        self._queues: OrderedDict[UUID, OrderedDict[UUID, IndexItem]] = OrderedDict()
        # The batch that is being embedded, with its tenant.
        self._running: tuple[UUID | None, list[IndexItem]] = (None, [])
        # Sums over the queues.
        self.items = 0
        self.characters = 0
        self._has_items = asyncio.Event()
        # Replaced after each batch.
        self._batch_done = asyncio.Event()
        # Tenants that a search waits for, in order, and whether the last turn was one of theirs.
        self._prioritized: dict[UUID, None] = {}
        self._was_prioritized = False
        # Number of waiting searches; the event is set when one arrives.
        self._waiters = 0
        self._has_waiter = asyncio.Event()

    def put(self, tenant_id: UUID, item: IndexItem) -> None:
        """Queue an item."""
        self._queues.setdefault(tenant_id, OrderedDict())[item.item_id] = item
        self.items += 1
        self.characters += len(item.text)
        self._has_items.set()

    def drop(self, tenant_id: UUID, item_id: UUID) -> None:
        """Remove an item, if it is queued."""
        queue = self._queues.get(tenant_id)
        if queue is None or (item := queue.pop(item_id, None)) is None:
            return
        self._subtract([item])
        if not queue:
            del self._queues[tenant_id]
            self._prioritized.pop(tenant_id, None)

    def item_ids(self, tenant_id: UUID) -> set[UUID]:
        """Return the tenant's items that are queued or being embedded."""
        ids = set(self._queues.get(tenant_id, ()))
        running_tenant_id, batch = self._running
        if running_tenant_id == tenant_id:
            ids.update(item.item_id for item in batch)
        return ids

    @contextmanager
    def prioritized(self, tenant_id: UUID) -> Iterator[None]:
        """Give a tenant a turn sooner, and leave no pauses between batches, while the block runs."""
        if tenant_id in self._queues:
            self._prioritized[tenant_id] = None
        self._waiters += 1
        self._has_waiter.set()
        try:
            yield
        finally:
            self._waiters -= 1

    async def wait_done(self, tenant_id: UUID, item_ids: set[UUID]) -> None:
        """Return when these items of a tenant are neither queued nor being embedded."""
        while not item_ids.isdisjoint(self.item_ids(tenant_id)):
            await self._batch_done.wait()

    async def run(self) -> None:
        """Embed batch by batch, until cancelled."""
        while True:
            await self._has_items.wait()
            self._has_items.clear()
            while self._queues:
                started = time.monotonic()
                batch = await self._run_batch()
                if is_small([item.text for item in batch]):
                    await self._yield_time(time.monotonic() - started)

    async def _yield_time(self, seconds: float) -> None:
        """Leave as much time to other calls as a small batch took, unless a search waits.

        Larger ones yield by the priority of their threads.
        """
        if self._waiters:
            return
        self._has_waiter.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._has_waiter.wait()

    async def _run_batch(self) -> Sequence[IndexItem]:
        tenant_id = self._next_tenant()
        queue = self._queues[tenant_id]
        batch = next(batches(queue.values(), max_characters=BATCH_CHARACTERS))
        for item in batch:
            del queue[item.item_id]
        self._subtract(batch)
        if queue:
            self._queues.move_to_end(tenant_id)
        else:
            del self._queues[tenant_id]
        self._running = (tenant_id, batch)
        try:
            await self._index(tenant_id, batch)
        except Exception as error:  # noqa: BLE001 - the backlog has these items too.
            log.warning("embedding_deferred", items=len(batch), error=type(error).__name__)
        finally:
            self._running = (None, [])
            self._batch_done.set()
            self._batch_done = asyncio.Event()
        return batch

    def _next_tenant(self) -> UUID:
        """Return the next tenant. Prioritized ones have every other turn, so that the others are not starved."""
        first = next(iter(self._queues))
        tenant_id = first if self._was_prioritized else next(iter(self._prioritized), first)
        self._was_prioritized = tenant_id in self._prioritized and not self._was_prioritized
        self._prioritized.pop(tenant_id, None)
        return tenant_id

    def _subtract(self, items: Sequence[IndexItem]) -> None:
        self.items -= len(items)
        self.characters -= sum(len(item.text) for item in items)
