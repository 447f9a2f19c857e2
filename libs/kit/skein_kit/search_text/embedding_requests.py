"""Vectors of items that were just committed: made at once when they are few and short, left to the worker otherwise.

Recall is asked after the commit, so no transaction waits for the model. What goes wrong here costs nothing but time:
the search index remembers which items lack vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpc import aio

from skein.recall.v1 import recall_pb2
from skein_kit.telemetry import logs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skein.recall.v1 import recall_pb2_grpc
    from skein_kit.search_text.postings import Document

# What is kept back of the caller's time, to answer in.
MARGIN_SECONDS = 0.25
# The most that a caller waits for vectors: what it wrote is found by its words already.
MAX_SECONDS = 2.0
# Characters whose vectors are made well within that on one core; a batch of more text is left to the worker whole.
MAX_CHARACTERS = 20_000


class EmbeddingClient:
    """Asks recall for vectors in the name of one service."""

    def __init__(self, index: recall_pb2_grpc.RecallInternalServiceAsyncStub, *, service: str, at_once: int) -> None:
        """Make up to `at_once` items' vectors while the caller waits."""
        self._index = index
        self._at_once = at_once
        self._log = logs.get(service)

    def has_pending_embeddings(self, documents: Sequence[Document], *, deferred: bool = False) -> int:
        """Return how many will lack vectors if all goes well."""
        documents = [document for document in documents if document.embedding is None]
        return 0 if self._is_small(documents) and not deferred else len(documents)

    async def request_embeddings(
        self, documents: Sequence[Document], *, remaining: float, deferred: bool = False
    ) -> int:
        """Make vectors within the caller's `remaining` seconds; return how many items still lack theirs.

        `deferred` has recall make them afterwards: all of them are lacking then.
        """
        documents = [document for document in documents if document.embedding is None]
        if not documents or not (deferred or self._is_small(documents)):
            return len(documents)
        seconds = min(remaining - MARGIN_SECONDS, MAX_SECONDS)
        if seconds <= 0:
            return len(documents)
        items = [
            recall_pb2.IndexItem(item_id=str(document.item_id), revision=document.revision, text=document.text)
            for document in documents
        ]
        try:
            request = recall_pb2.IndexItemsRequest(items=items, deferred=deferred)
            response = await self._index.IndexItems(request, timeout=seconds)
        except aio.AioRpcError as error:
            self._log.warning("embedding_deferred", items=len(items), code=error.code().name)
            return len(items)
        return max(0, len(items) - response.indexed_count)

    def _is_small(self, documents: Sequence[Document]) -> bool:
        return len(documents) <= self._at_once and sum(len(document.text) for document in documents) <= MAX_CHARACTERS
