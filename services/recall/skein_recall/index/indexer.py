"""Makes the vectors of items: embeds them without a transaction, then stores them in a short one.

An item whose vectors cannot be made holds up no other: it is passed over for a while, then tried again, alone.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein_kit.errors import RpcError
from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import EMBEDDER_FAILURES
from skein_recall.errors import ModelResponseInvalid, ModelUnavailable
from skein_recall.providers.text_embedder import IndexItem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from uuid import UUID

    from skein_recall.index.store import IndexStore
    from skein_recall.index.vector_store import VectorStore
    from skein_recall.models.model import EmbeddingModel, ModelRegistry
    from skein_recall.providers.text_embedder import TextEmbedder

# What is embedded and stored together, so that a call that runs out of time leaves the work done so far behind.
PORTION_ITEMS = 32
PORTION_CHARACTERS = 50_000
# Documents whose terms are counted with one call for the backlog; and how many new ones are so few that the next may be
# counted with others, later. A search reads what is not counted yet.
COUNTED_ITEMS, _FEW_COUNTED = 1000, 100
# Waiting items are counted up to this.
MOST_COUNTED = 10_000
# Until an item that failed is tried again by the backlog.
PASSED_OVER_SECONDS = 600.0
# Failed items that are remembered; more than these would be a failure of something else.
REMEMBERED = 1000

log = logs.get("recall")


class FailedItems:
    """The items whose vectors could not be made, as this process remembers them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # When each failed last, the oldest first.
        self._items: OrderedDict[tuple[UUID, UUID], float] = OrderedDict()

    def add(self, tenant_id: UUID, item_id: UUID, error: Exception) -> None:
        """Remember an item. The first time its id is logged."""
        EMBEDDER_FAILURES.inc()
        key = (tenant_id, item_id)
        if key not in self._items:
            log.error("item_not_embedded", tenant_id=str(tenant_id), item_id=str(item_id), exc_info=error)
        self._items[key] = self._clock()
        self._items.move_to_end(key)
        while len(self._items) > REMEMBERED:
            self._items.popitem(last=False)

    def forget(self, tenant_id: UUID, item_id: UUID) -> None:
        """Treat an item like any other again."""
        self._items.pop((tenant_id, item_id), None)

    def holds(self, tenant_id: UUID, item_id: UUID) -> bool:
        """Say whether an item failed the last time."""
        return (tenant_id, item_id) in self._items

    def passed_over(self, tenant_id: UUID) -> list[UUID]:
        """Return the tenant's items that are not to be tried yet."""
        since = self._clock() - PASSED_OVER_SECONDS
        return [item for (tenant, item), failed in self._items.items() if tenant == tenant_id and failed > since]


class Indexer:
    """Keeps the vectors of the model in force, and of those that follow it, up with the items."""

    def __init__(
        self,
        store: IndexStore,
        beside: VectorStore,
        registry: ModelRegistry,
        vectors: TextEmbedder,
        failures: FailedItems | None = None,
    ) -> None:
        """Read what is to be done from `store`, put vectors into `beside`."""
        self._store = store
        self._beside = beside
        self._registry = registry
        self._vectors = vectors
        self._failures = failures or FailedItems()

    async def index(self, tenant_id: UUID, items: Iterable[IndexItem]) -> int:
        """Index items whose text is at hand; return how many were still as given.

        While another model follows, they stay the backlog's: nobody waits for the vectors of two.
        """
        models = await self._registry.models()
        if not models.active.embeds:
            # Its vectors are given by callers; there is nothing that could be made here.
            return 0
        latest = {item.item_id: item for item in items}
        work = _IndexTask(tenant_id, models.active, pending=bool(models.following(tenant_id)))
        return await self._index(work, latest.values())

    async def backlog(self, tenant_id: UUID, limit: int, *, but: Iterable[UUID] = ()) -> Backlog:
        """Index the oldest items without vectors, `but` some, and count new ones.

        While the model in force does not answer they wait, and there is nothing to do but to count.
        """
        models = await self._registry.models()
        work = _IndexTask(tenant_id, models.active, following=tuple(models.following(tenant_id)))
        done, more, found, left = 0, False, False, False
        if models.active.embeds or work.following:
            passed_over = [*self._failures.passed_over(tenant_id), *but]
            pending = await self._store.list_pending(tenant_id, limit + 1, but=passed_over)
            more, found, left = len(pending) > limit, bool(pending), bool(pending or passed_over)
            try:
                for start in range(0, min(limit, len(pending)), PORTION_ITEMS):
                    portion = pending[start : min(limit, start + PORTION_ITEMS)]
                    done += await self._index(work, await self._store.read_texts(tenant_id, portion))
            except (ModelUnavailable, ModelResponseInvalid):
                more = False
        counted, uncounted = await self._store.count(tenant_id, COUNTED_ITEMS)
        # Whoever finds nothing, as most tenants do, asks no second time.
        waiting, oldest = await self._store.pending(tenant_id, MOST_COUNTED) if left else (0, None)
        return Backlog(
            indexed=done,
            more=more or uncounted,
            active=found or uncounted or counted > _FEW_COUNTED,
            waiting=waiting,
            oldest=oldest,
        )

    async def waiting(self, tenant_id: UUID) -> Backlog:
        """Say what waits, and do nothing."""
        waiting, oldest = await self._store.pending(tenant_id, MOST_COUNTED)
        return Backlog(indexed=0, more=waiting > 0, active=waiting > 0, waiting=waiting, oldest=oldest)

    async def _index(self, work: _IndexTask, items: Iterable[IndexItem]) -> int:
        suspects: list[IndexItem] = []
        others: list[IndexItem] = []
        for item in items:
            (suspects if self._failures.holds(work.tenant_id, item.item_id) else others).append(item)
        done = 0
        for portion in batches(others):
            try:
                done += await self._store_portion(work, portion)
            except RpcError:
                # The database or the model is at fault, not an item.
                raise
            except Exception:  # noqa: BLE001 - it may be about one item: alone, each shows whether it is.
                suspects += portion
        for item in suspects:
            done += await self._alone(work, item)
        return done

    async def _alone(self, work: _IndexTask, item: IndexItem) -> int:
        try:
            done = await self._store_portion(work, [item])
        except RpcError:
            raise
        except Exception as error:  # noqa: BLE001 - it is about this item, and the others wait.
            self._failures.add(work.tenant_id, item.item_id, error)
            return 0
        self._failures.forget(work.tenant_id, item.item_id)
        return done

    async def _store_portion(self, work: _IndexTask, portion: list[IndexItem]) -> int:
        made = []
        if work.active.embeds:
            items = portion
            if work.following:
                # Some may be here for the sake of another model alone: they have been here before, or brought vectors.
                items = await self._beside.lacking(work.tenant_id, work.active, portion)
            made.append((work.active, await self._vectors.of_items(work.active, items)))
        behind = []
        for model in work.following:
            try:
                items = await self._beside.lacking(work.tenant_id, model, portion)
                made.append((model, await self._vectors.of_items(model, items)))
            except Exception as error:  # noqa: BLE001 - nothing waits for a model that is not in force; it looks again.
                log.warning("model_fell_behind", model=model.model, error=type(error).__name__)
                behind.append(model)
        return await self._beside.put(work.tenant_id, portion, made, pending=work.pending, behind=behind)


@dataclass(frozen=True, kw_only=True, slots=True)
class Backlog:
    """What a look at a tenant's backlog came to: items indexed, whether more waits, and whether to look again soon."""

    indexed: int
    more: bool
    active: bool
    # Items that have no vectors yet, MOST_COUNTED at most, and the oldest one's id.
    waiting: int
    oldest: UUID | None


@dataclass(frozen=True, slots=True)
class _IndexTask:
    """Whose items are indexed with which models, and whether they stay the backlog's afterwards."""

    tenant_id: UUID
    active: EmbeddingModel
    following: tuple[EmbeddingModel, ...] = ()
    pending: bool = False


def batches(items: Iterable[IndexItem], *, characters: int = PORTION_CHARACTERS) -> Iterator[list[IndexItem]]:
    """Cut items, in order, into portions: not too many of them in one, nor more characters than that if several."""
    portion: list[IndexItem] = []
    held = 0
    for item in items:
        full = len(portion) >= PORTION_ITEMS or held + len(item.text) > characters
        if portion and full:
            yield portion
            portion, held = [], 0
        portion.append(item)
        held += len(item.text)
    if portion:
        yield portion
