"""Vectors for what was just committed: asked of recall at once for small writes, left to the worker otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpc import aio

from skein.recall.v1 import recall_pb2
from skein_kit import logs
from skein_kit.call import current

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skein.recall.v1 import recall_pb2_grpc
    from skein_kit.postings import Document

# What is written is found by its words already; a caller does not wait longer than this for the meaning.
MAX_SECONDS = 2.0
# Kept back from the caller's time, so that the answer still arrives.
MARGIN_SECONDS = 0.25

log = logs.get("memory")


class Vectors:
    """Has vectors made within the call that wrote, when that is worth it."""

    def __init__(self, index: recall_pb2_grpc.IndexServiceAsyncStub, *, at_most: int) -> None:
        """Ask `index`, for writes of up to `at_most` documents."""
        self._index = index
        self._at_most = at_most

    async def make(self, documents: Sequence[Document]) -> int:
        """Make vectors of committed documents; return how many are left to the worker, which finds them by itself."""
        if not documents or len(documents) > self._at_most:
            return len(documents)
        seconds = _seconds()
        if seconds <= 0:
            return len(documents)
        items = [
            recall_pb2.IndexItem(item_id=str(document.item_id), revision=document.revision, text=document.text)
            for document in documents
        ]
        try:
            response = await self._index.IndexItems(recall_pb2.IndexItemsRequest(items=items), timeout=seconds)
        except aio.AioRpcError as error:
            log.warning("vectors_left_to_worker", code=error.code().name, count=len(documents))
            return len(documents)
        return max(0, len(documents) - response.indexed_count)

    def left(self, count: int) -> int:
        """Return how many of `count` documents are left to the worker if all goes well."""
        return count if count > self._at_most else 0


def _seconds() -> float:
    call = current()
    left = None if call is None else call.remaining()
    return MAX_SECONDS if left is None else min(MAX_SECONDS, left - MARGIN_SECONDS)
