"""Requests for the vectors of documents that were just committed: at once for few and short ones, else later.

Recall is called after the commit, so that no transaction waits for the model. A failure costs only time: the search
index knows the documents without vectors, and the worker embeds them.
"""

from __future__ import annotations

from collections.abc import Sequence

from grpc import aio

from skein.recall.v1 import recall_pb2, recall_pb2_grpc
from skein_kit.search_text.postings import Document
from skein_kit.telemetry import logs

# Part of the caller's remaining time that is reserved for the reply.
MARGIN_SECONDS = 0.25
# The longest wait of a caller for vectors; recall finds the documents by their words already.
MAX_SECONDS = 2.0
# Documents of one write that are embedded before the reply: one batch of the embedded model, some 50 ms. The vectors of
# larger writes follow after it.
MAX_IMMEDIATE = 16
# Characters that one core embeds well within MAX_SECONDS; the worker embeds larger batches.
MAX_CHARACTERS = 20_000


class EmbeddingClient:
    """Requests vectors from recall for one service."""

    def __init__(self, index: recall_pb2_grpc.RecallInternalServiceAsyncStub, *, service: str) -> None:
        self._index = index
        self._log = logs.get(service)

    def has_pending_embeddings(self, documents: Sequence[Document], *, should_defer: bool = False) -> int:
        """Return the number of documents that will have no vectors at the reply, if no request fails."""
        documents = [document for document in documents if document.embedding is None]
        return 0 if self._is_small(documents) and not should_defer else len(documents)

    async def request_embeddings(
        self, documents: Sequence[Document], *, remaining: float, should_defer: bool = False
    ) -> int:
        """Embed documents within the caller's `remaining` seconds; return how many have no vectors yet.

        With `should_defer` recall embeds them after its reply, so that all of them count.
        """
        documents = [document for document in documents if document.embedding is None]
        if not documents or not (should_defer or self._is_small(documents)):
            return len(documents)
        seconds = min(remaining - MARGIN_SECONDS, MAX_SECONDS)
        if seconds <= 0:
            return len(documents)
        items = [
            recall_pb2.IndexItem(
                item_id=str(document.item_id),
                revision=document.revision,
                text=document.embedded_text or document.text,
            )
            for document in documents
        ]
        try:
            request = recall_pb2.IndexItemsRequest(items=items, defer_embedding=should_defer)
            response = await self._index.IndexItems(request, timeout=seconds)
        except aio.AioRpcError as error:
            self._log.warning("embedding_deferred", items=len(items), code=error.code().name)
            return len(items)
        return max(0, len(items) - response.indexed_count)

    def _is_small(self, documents: Sequence[Document]) -> bool:
        return len(documents) <= MAX_IMMEDIATE and sum(len(document.text) for document in documents) <= MAX_CHARACTERS
