"""Makes the vectors of items: embeds them without a transaction, then stores them in a short one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_recall.vectors import Item

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from uuid import UUID

    from skein_recall.models import EmbeddingModel, Registry
    from skein_recall.store import Store
    from skein_recall.vectors import Vectors

# What is embedded and stored together, so that a call that runs out of time leaves the work done so far behind.
PORTION_ITEMS = 32
PORTION_CHARACTERS = 50_000


class Indexer:
    """Keeps the active model's vectors up with the items."""

    def __init__(self, store: Store, registry: Registry, vectors: Vectors) -> None:
        self._store = store
        self._registry = registry
        self._vectors = vectors

    async def index(self, tenant_id: UUID, items: Iterable[Item]) -> int:
        """Index items whose text is at hand; return how many were still as given."""
        model = await self._registry.active()
        latest = {item.item_id: item for item in items}
        return await self._index(tenant_id, model, latest.values())

    async def backlog(self, tenant_id: UUID, limit: int) -> tuple[int, bool]:
        """Index the oldest items without vectors; return how many, and whether there are more."""
        model = await self._registry.active()
        pending = await self._store.list_pending(tenant_id, limit + 1)
        done = 0
        for start in range(0, min(limit, len(pending)), PORTION_ITEMS):
            portion = pending[start : min(limit, start + PORTION_ITEMS)]
            done += await self._index(tenant_id, model, await self._store.read_texts(tenant_id, portion))
        return done, len(pending) > limit

    async def _index(self, tenant_id: UUID, model: EmbeddingModel, items: Iterable[Item]) -> int:
        if not model.embeds:
            # Its vectors are given by callers; there is nothing that could be made here.
            return 0
        done = 0
        for portion in portions(items):
            vectors = await self._vectors.of_items(portion)
            done += await self._store.put_vectors(tenant_id, model, portion, vectors)
        return done


def portions(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Cut items, in order, into portions that neither hold too many of them nor too much text."""
    portion: list[Item] = []
    characters = 0
    for item in items:
        full = len(portion) >= PORTION_ITEMS or characters + len(item.text) > PORTION_CHARACTERS
        if portion and full:
            yield portion
            portion, characters = [], 0
        portion.append(item)
        characters += len(item.text)
    if portion:
        yield portion
