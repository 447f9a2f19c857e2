"""Items that are like a stored one: its text and its vectors are the question."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.ids import now
from skein_recall.errors import DocumentNotFound
from skein_recall.query.model import Query

if TYPE_CHECKING:
    from skein_recall.index.embedding_queue import EmbeddingQueue
    from skein_recall.models.model import ModelRegistry
    from skein_recall.search.result import RecallResult
    from skein_recall.search.searcher import RecallSearcher
    from skein_recall.store import Store

# What an item that was written just before may take to get its vectors.
_WAIT_SECONDS = 1.0


class SimilarItems:
    """Finds what is like a stored memory or message."""

    def __init__(
        self, store: Store, registry: ModelRegistry, deferred: EmbeddingQueue, searcher: RecallSearcher
    ) -> None:
        self._store = store
        self._registry = registry
        self._deferred = deferred
        self._searcher = searcher

    async def find(self, tenant_id: UUID, request: pb.FindSimilarRequest, *, seconds: float) -> RecallResult:
        """Return the items most like one, without it. No connection is held while a text is embedded.

        Raises DocumentNotFound for an item that may not be recalled, and QueryEmpty for one without words and vector.
        """
        model = await self._registry.active()
        await self._deferred.settled(tenant_id, min(_WAIT_SECONDS, seconds / 4))
        async with self._store.reading(tenant_id, filtered=False) as reading:
            item_id = UUID(request.item_id) if request.item_id else None
            if item_id is None:
                kind = "message" if request.kind == pb.ITEM_KIND_MESSAGE else "memory"
                item_id = await reading.item_of(request.external_id, kind)
            item = None if item_id is None else await reading.similar_to(model, item_id, now())
        if item is None:
            raise DocumentNotFound
        return await self._searcher.recall(tenant_id, Query.of_item(request, item), seconds=seconds)
