"""The RPC that searches messages: by terms and literal text here, by meaning through the recall service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

import grpc
from grpc import aio

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2, recall_pb2_grpc
from skein.session.v1 import session_pb2 as pb
from skein_kit import message_rows
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.ids import now
from skein_kit.rpc.pagination import fit_items, read_id, write_token
from skein_kit.rpc.well_known_types import read_time
from skein_session.search.model import MessageHit, SearchQuery
from skein_session.search.store import SearchStore

DEFAULT_LIMIT = 10
# Part of the caller's time that is reserved for reading the hits, or for searching by terms instead.
MARGIN_SECONDS = 1.0
_UNAVAILABLE_CODES = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.INTERNAL}
)


class SearchHandlers:
    """Searches messages in the mode of the request."""

    def __init__(self, store: SearchStore, recall: recall_pb2_grpc.RecallServiceAsyncStub) -> None:
        self._store = store
        self._recall = recall

    async def SearchMessages(self, request: pb.SearchMessagesRequest, context: Context) -> pb.SearchMessagesResponse:
        tenant_id, remaining = caller_of(context).require_tenant(), context.time_remaining()
        query = SearchQuery(
            text=request.query,
            session_id=request.session_id,
            start_time=read_time(request, "start_time"),
            end_time=read_time(request, "end_time"),
            limit=request.limit or DEFAULT_LIMIT,
            context_size=request.context_size,
            after_id=read_id(tenant_id, request),
        )
        if request.mode == pb.SEARCH_MODE_LITERAL:
            found, after_id = await self._store.search_literal(tenant_id, query, now())
            page = _hits(found)
            if len(page) < len(found):
                after_id = UUID(page[-1].message.message_id)
            token = "" if after_id is None else write_token([str(after_id)], tenant_id, request)
            return pb.SearchMessagesResponse(hits=page, truncated=bool(token), next_page_token=token)
        if request.mode == pb.SEARCH_MODE_SEMANTIC:
            hits = await self._search_meaning(tenant_id, request, query, remaining)
            return pb.SearchMessagesResponse(hits=_hits(hits))
        if request.mode == pb.SEARCH_MODE_HYBRID:
            hits, is_lexical = await self._search_hybrid(tenant_id, request, query, remaining)
            return pb.SearchMessagesResponse(hits=_hits(hits), dense_unavailable=is_lexical)
        return pb.SearchMessagesResponse(hits=_hits(await self._store.search_terms(tenant_id, query)))

    async def _search_meaning(
        self, tenant_id: UUID, request: pb.SearchMessagesRequest, query: SearchQuery, remaining: float
    ) -> list[MessageHit]:
        await self._store.require_session(tenant_id, query.session_id)
        embed_response = await self._recall.EmbedText(
            recall_pb2.EmbedTextRequest(texts=[query.text], purpose=recall_pb2.EMBED_PURPOSE_QUERY), timeout=remaining
        )
        scores, _ = await self._recall_scores(
            request, query, embedding=embed_response.embeddings[0].values, seconds=remaining
        )
        return await self._store.read_hits(tenant_id, query, scores)

    async def _search_hybrid(
        self, tenant_id: UUID, request: pb.SearchMessagesRequest, query: SearchQuery, remaining: float
    ) -> tuple[list[MessageHit], bool]:
        """Return the hits, and whether their signals are lexical alone."""
        await self._store.require_session(tenant_id, query.session_id)
        try:
            scores, is_lexical = await self._recall_scores(
                request, query, seconds=max(remaining - MARGIN_SECONDS, remaining / 2)
            )
        except aio.AioRpcError as error:
            if error.code() not in _UNAVAILABLE_CODES:
                raise
            return await self._store.search_terms(tenant_id, query), True
        return await self._store.read_hits(tenant_id, query, scores), is_lexical

    async def _recall_scores(
        self,
        request: pb.SearchMessagesRequest,
        query: SearchQuery,
        *,
        seconds: float,
        embedding: Sequence[float] = (),
    ) -> tuple[Mapping[UUID, float], bool]:
        """Return recall's hits with their scores, best first, and whether the signals are lexical alone."""
        recall_request = recall_pb2.RecallRequest(
            query="" if embedding else query.text,
            embedding=embedding,
            limit=query.limit,
            kinds=[recall_pb2.ITEM_KIND_MESSAGE],
            min_relevance=0,
            show_duplicates=True,
            filter=memory_pb2.MemoryFilter(session_id=query.session_id),
        )
        for field in ("start_time", "end_time"):
            if request.HasField(field):
                getattr(recall_request.filter, field).CopyFrom(getattr(request, field))
        response = await self._recall.Recall(recall_request, timeout=seconds)
        return {UUID(hit.item_id): hit.score for hit in response.hits}, response.dense_unavailable


def _hits(hits: Iterable[MessageHit]) -> list[pb.MessageHit]:
    """Convert hits; the last ones are left out of a response that is too large."""
    return fit_items(
        pb.MessageHit(
            message=message_rows.message(hit.row),
            score=hit.score,
            before=map(message_rows.message, hit.before),
            after=map(message_rows.message, hit.after),
        )
        for hit in hits
    )
