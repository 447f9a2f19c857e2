"""Searching messages in every way: by words and as they are written here, by meaning with recall's help."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import grpc
from grpc import aio

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2 as pb
from skein_session.search.store import DEFAULT_LIMIT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from skein.recall.v1 import recall_pb2_grpc
    from skein_session.search.store import SearchStore

# What is kept back of the caller's time, to show what was found, or to search by words after all.
MARGIN_SECONDS = 1.0
_UNAVAILABLE_CODES = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.INTERNAL}
)


class MessageSearcher:
    """Answers SearchMessages."""

    def __init__(self, store: SearchStore, recall: recall_pb2_grpc.RecallServiceAsyncStub) -> None:
        self._store = store
        self._recall = recall

    async def search(
        self, tenant_id: UUID, request: pb.SearchMessagesRequest, *, at: datetime, remaining: float
    ) -> pb.SearchMessagesResponse:
        """Search in the mode asked for, within the caller's `remaining` seconds."""
        if request.mode == pb.SEARCH_MODE_LITERAL:
            return await self._store.by_literal(tenant_id, request, at)
        if request.mode == pb.SEARCH_MODE_MEANING:
            await self._store.must_exist(tenant_id, request.session_id)
            texts = recall_pb2.EmbedTextRequest(texts=[request.query])
            embedded = await self._recall.EmbedText(texts, timeout=remaining)
            scores, _ = await self._ask(request, embedding=embedded.embeddings[0].values, seconds=remaining)
            return await self._store.shown(tenant_id, request, scores)
        if request.mode == pb.SEARCH_MODE_HYBRID:
            return await self._hybrid(tenant_id, request, remaining)
        return await self._store.by_words(tenant_id, request)

    async def _hybrid(
        self, tenant_id: UUID, request: pb.SearchMessagesRequest, remaining: float
    ) -> pb.SearchMessagesResponse:
        await self._store.must_exist(tenant_id, request.session_id)
        try:
            scores, is_lexical = await self._ask(request, seconds=max(remaining - MARGIN_SECONDS, remaining / 2))
        except aio.AioRpcError as error:
            if error.code() not in _UNAVAILABLE_CODES:
                raise
            response = await self._store.by_words(tenant_id, request)
            is_lexical = True
        else:
            response = await self._store.shown(tenant_id, request, scores)
        response.meaning_unavailable = is_lexical
        return response

    async def _ask(
        self, request: pb.SearchMessagesRequest, *, seconds: float, embedding: Sequence[float] = ()
    ) -> tuple[Mapping[UUID, float], bool]:
        """Return recall's hits with their scores, best first, and whether they are by words alone."""
        question = recall_pb2.RecallRequest(
            query="" if embedding else request.query,
            embedding=embedding,
            limit=request.limit or DEFAULT_LIMIT,
            kinds=[recall_pb2.ITEM_KIND_MESSAGE],
            filter=memory_pb2.MemoryFilter(session_id=request.session_id),
        )
        for bound in ("start_time", "end_time"):
            if request.HasField(bound):
                getattr(question.filter, bound).CopyFrom(getattr(request, bound))
        answer = await self._recall.Recall(question, timeout=seconds)
        return {UUID(hit.item_id): hit.score for hit in answer.hits}, answer.dense_unavailable
