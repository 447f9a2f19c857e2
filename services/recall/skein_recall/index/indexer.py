"""Computes and stores the vectors of items: embeds without a transaction, then stores in a short one.

An item that cannot be embedded holds up no other: the backlog skips it for a while, then tries it again alone.
"""

from __future__ import annotations

import itertools
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from skein_kit.errors import RpcError
from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import EMBEDDER_FAILURES
from skein_recall.errors import ModelResponseInvalid, ModelUnavailable
from skein_recall.index.model import Backlog
from skein_recall.index.store import IndexStore
from skein_recall.index.term_counts import TermCountStore
from skein_recall.index.vector_store import VectorStore
from skein_recall.models.model import EmbeddingModel, ModelRegistry
from skein_recall.providers.text_embedder import IndexItem, TextEmbedder

# Items that are embedded and stored together: a call that runs out of time keeps the batches before.
BATCH_ITEMS = 32
BATCH_CHARACTERS = 50_000
# Documents that one call adds to the counts of terms. Up to the second number may wait for a later call: queries read
# uncounted documents themselves.
_COUNTED_ITEMS, _FEW_COUNTED = 1000, 100
# The size of a backlog is counted up to this.
MAX_COUNTED = 10_000
# The backlog skips a failed item for this long.
RETRY_AFTER_SECONDS = 600.0
# Failed items that a process knows; with more of them something else is broken.
MAX_FAILED = 1000

log = logs.get("recall")


class FailedItems:
    """Items that this process could not embed."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Time of the latest failure, the oldest first.
        self._items: OrderedDict[tuple[UUID, UUID], float] = OrderedDict()

    def add(self, tenant_id: UUID, item_id: UUID, error: Exception) -> None:
        """Record a failure; the first one of an item is logged."""
        EMBEDDER_FAILURES.inc()
        key = (tenant_id, item_id)
        if key not in self._items:
            log.error("item_embedding_failed", tenant_id=str(tenant_id), item_id=str(item_id), exc_info=error)
        self._items[key] = self._clock()
        self._items.move_to_end(key)
        while len(self._items) > MAX_FAILED:
            self._items.popitem(last=False)

    def remove(self, tenant_id: UUID, item_id: UUID) -> None:
        """Treat an item like any other again."""
        self._items.pop((tenant_id, item_id), None)

    def has(self, tenant_id: UUID, item_id: UUID) -> bool:
        """Return whether an item failed the last time."""
        return (tenant_id, item_id) in self._items

    def skipped(self, tenant_id: UUID) -> list[UUID]:
        """Return the tenant's items that failed less than RETRY_AFTER_SECONDS ago."""
        since = self._clock() - RETRY_AFTER_SECONDS
        return [item for (tenant, item), failed in self._items.items() if tenant == tenant_id and failed > since]


class Indexer:
    """Gives items the vectors of the active model and of those that are followed."""

    def __init__(
        self,
        store: IndexStore,
        vector_store: VectorStore,
        term_counts: TermCountStore,
        registry: ModelRegistry,
        embedder: TextEmbedder,
    ) -> None:
        self._store = store
        self._vector_store = vector_store
        self._term_counts = term_counts
        self._registry = registry
        self._embedder = embedder
        self._failures = FailedItems()

    async def index(self, tenant_id: UUID, items: Iterable[IndexItem]) -> int:
        """Embed items with the active model; return how many were still at their revision.

        They stay in the backlog while other models are followed, so that no caller waits for two models.
        """
        models = await self._registry.models(tenant_id)
        if not models.active.can_embed:
            # Callers bring its vectors.
            return 0
        latest = {item.item_id: item for item in items}
        task = _IndexTask(tenant_id, models.active, pending=bool(models.followed_in(tenant_id)))
        return await self._index(task, latest.values())

    async def index_deferred(self, tenant_id: UUID, items: Iterable[IndexItem]) -> int:
        """Do as `index` for items that were queued: what was deleted, changed or embedded meanwhile is skipped."""
        return await self.index(tenant_id, await self._store.filter_pending(tenant_id, list(items)))

    async def index_backlog(
        self, tenant_id: UUID, limit: int, *, max_characters: int, exclude: Iterable[UUID] = ()
    ) -> Backlog:
        """Embed the oldest items of the backlog, except some, and add new documents to the counts of terms.

        The embedded texts have at most `max_characters` together. While the active model does not answer, and with a
        `limit` of 0, only the counts are updated.
        """
        models = await self._registry.models(tenant_id)
        task = _IndexTask(tenant_id, models.active, followed=tuple(models.followed_in(tenant_id)))
        indexed, has_more, has_pending, has_backlog = 0, False, False, False
        if models.active.can_embed or task.followed:
            skipped = [*self._failures.skipped(tenant_id), *exclude]
            pending = await self._store.list_pending(tenant_id, limit + 1, exclude=skipped)
            has_more, has_pending, has_backlog = len(pending) > limit, bool(pending), bool(pending or skipped)
            try:
                for start in range(0, min(limit, len(pending)), BATCH_ITEMS):
                    batch = pending[start : min(limit, start + BATCH_ITEMS)]
                    texts = await self._store.read_texts(tenant_id, batch)
                    ends = itertools.accumulate(len(item.text) for item in texts)
                    fitting = [item for item, end in zip(texts, ends, strict=True) if end <= max_characters]
                    indexed += await self._index(task, fitting)
                    max_characters -= sum(len(item.text) for item in fitting)
                    if len(fitting) < len(texts):
                        has_more = True
                        break
            except (ModelUnavailable, ModelResponseInvalid):
                has_more = False
        counted, has_uncounted = await self._term_counts.count(tenant_id, _COUNTED_ITEMS)
        # Most tenants have no backlog: for them the second statement is saved.
        pending_count, oldest_id = (
            await self._store.pending_backlog(tenant_id, MAX_COUNTED) if has_backlog else (0, None)
        )
        return Backlog(
            indexed_count=indexed,
            has_more=has_more or has_uncounted,
            is_active=has_pending or has_uncounted or counted > _FEW_COUNTED,
            pending_count=pending_count,
            oldest_id=oldest_id,
        )

    async def backlog_size(self, tenant_id: UUID) -> Backlog:
        """Measure the backlog without working on it."""
        count, oldest_id = await self._store.pending_backlog(tenant_id, MAX_COUNTED)
        return Backlog(
            indexed_count=0, has_more=count > 0, is_active=count > 0, pending_count=count, oldest_id=oldest_id
        )

    async def _index(self, task: _IndexTask, items: Iterable[IndexItem]) -> int:
        suspects: list[IndexItem] = []
        others: list[IndexItem] = []
        for item in items:
            (suspects if self._failures.has(task.tenant_id, item.item_id) else others).append(item)
        indexed = 0
        for batch in batches(others):
            try:
                indexed += await self._store_batch(task, batch)
            except RpcError:
                # The database or the model failed, not an item.
                raise
            except Exception:  # noqa: BLE001 - one item may be the cause: alone, each shows whether it is.
                suspects += batch
        for item in suspects:
            indexed += await self._index_single(task, item)
        return indexed

    async def _index_single(self, task: _IndexTask, item: IndexItem) -> int:
        try:
            indexed = await self._store_batch(task, [item])
        except RpcError:
            raise
        except Exception as error:  # noqa: BLE001 - this item is the cause, and the others wait.
            self._failures.add(task.tenant_id, item.item_id, error)
            return 0
        self._failures.remove(task.tenant_id, item.item_id)
        return indexed

    async def _store_batch(self, task: _IndexTask, batch: list[IndexItem]) -> int:
        embeddings = []
        if task.active.can_embed:
            items = batch
            if task.followed:
                # Some are in the backlog for a followed model alone, and have vectors of the active one.
                items = await self._vector_store.items_without_vectors(task.tenant_id, task.active, batch)
            embeddings.append((task.active, await self._embedder.embed_items(task.active, items)))
        failed = []
        for model in task.followed:
            try:
                items = await self._vector_store.items_without_vectors(task.tenant_id, model, batch)
                embeddings.append((model, await self._embedder.embed_items(model, items)))
            except Exception as error:  # noqa: BLE001 - no search needs this model yet; its reindex scans again.
                log.warning("followed_model_failed", model=model.model, error=type(error).__name__)
                failed.append(model)
        return await self._vector_store.put(task.tenant_id, batch, embeddings, pending=task.pending, failed=failed)


@dataclass(frozen=True, slots=True)
class _IndexTask:
    """The tenant and the models of one call, and whether its items stay in the backlog."""

    tenant_id: UUID
    active: EmbeddingModel
    followed: tuple[EmbeddingModel, ...] = ()
    pending: bool = False


def batches(items: Iterable[IndexItem], *, max_characters: int = BATCH_CHARACTERS) -> Iterator[list[IndexItem]]:
    """Cut items, in order, into batches of up to BATCH_ITEMS items and `max_characters`; a longer item is alone."""
    batch: list[IndexItem] = []
    characters = 0
    for item in items:
        is_full = len(batch) >= BATCH_ITEMS or characters + len(item.text) > max_characters
        if batch and is_full:
            yield batch
            batch, characters = [], 0
        batch.append(item)
        characters += len(item.text)
    if batch:
        yield batch
