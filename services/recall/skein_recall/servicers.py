"""The RPCs of RecallService and IndexService: parse, one call, reply."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from skein.recall.v1 import recall_pb2 as pb
from skein.recall.v1 import recall_pb2_grpc as rpc
from skein_kit.calls.call import Context, caller
from skein_kit.database.transactions import NO_TENANT
from skein_kit.errors import FieldInvalid
from skein_kit.ids import id_time
from skein_kit.rpc import pagination
from skein_kit.rpc.well_known_types import to_timestamp
from skein_recall import convert as wire
from skein_recall.model_servicer import ModelServicer
from skein_recall.providers.provider import TextRejected
from skein_recall.providers.text_embedder import IndexItem
from skein_recall.query.model import Query

if TYPE_CHECKING:
    from skein_recall.index.embedding_queue import EmbeddingQueue
    from skein_recall.index.indexer import Backlog, Indexer
    from skein_recall.index.reindexer import Reindexer
    from skein_recall.model_servicer import ModelParts
    from skein_recall.quality.recent_queries import RecentQueries
    from skein_recall.search.searcher import RecallSearcher
    from skein_recall.search.similar import SimilarItems
    from skein_recall.store import Store

DEFAULT_BACKLOG = 256
# What one call of a reindex takes, and no more than this share of its time: what is under way is ended.
REINDEX_SECONDS = 5.0
REINDEX_SHARE = 0.3
# Of one EmbedText, all texts together; the protos say so.
MAX_EMBED_CHARACTERS = 200_000


class RecallServicer(ModelServicer):
    """Recall, vectors of texts, and the registry of models."""

    def __init__(
        self, searcher: RecallSearcher, similar_items: SimilarItems, recent: RecentQueries, parts: ModelParts
    ) -> None:
        super().__init__(parts)
        self._searcher = searcher
        self._similar_items = similar_items
        self._recent = recent

    async def Recall(self, request: pb.RecallRequest, context: Context) -> pb.RecallResponse:
        question = Query.of(request)
        seconds = context.time_remaining()
        tenant_id = caller(context).tenant()
        self._recent.note(tenant_id, question.text)
        return wire.answer(await self._searcher.recall(tenant_id, question, seconds=seconds))

    async def FindSimilar(self, request: pb.FindSimilarRequest, context: Context) -> pb.FindSimilarResponse:
        seconds = context.time_remaining()
        return wire.similar(await self._similar_items.find(caller(context).tenant(), request, seconds=seconds))

    async def EmbedText(self, request: pb.EmbedTextRequest, context: Context) -> pb.EmbedTextResponse:
        if sum(map(len, request.texts)) > MAX_EMBED_CHARACTERS:
            raise FieldInvalid(violations=[("texts", f"hold more than {MAX_EMBED_CHARACTERS} characters together")])
        model = await self._parts.registry.active()
        try:
            made = await self._parts.vectors.of_texts(model, request.texts)
        except TextRejected:
            what = "hold something that the model's endpoint does not take"
            raise FieldInvalid(violations=[("texts", what)]) from None
        return pb.EmbedTextResponse(model=model.model, embeddings=wire.embeddings(made))


class IndexServicer(rpc.IndexServiceServicer):
    """What memory, session and the worker ask of the index."""

    def __init__(self, indexer: Indexer, deferred: EmbeddingQueue, reindexer: Reindexer, store: Store) -> None:
        self._indexer = indexer
        self._deferred = deferred
        self._reindexer = reindexer
        self._store = store

    async def IndexItems(self, request: pb.IndexItemsRequest, context: Context) -> pb.IndexItemsResponse:
        items = [IndexItem(UUID(item.item_id), item.revision, item.text) for item in request.items]
        tenant_id = caller(context).tenant()
        if request.deferred:
            # Without room, the worker finds them in its backlog.
            self._deferred.put(tenant_id, items)
            return pb.IndexItemsResponse()
        count = await self._indexer.index(tenant_id, items)
        return pb.IndexItemsResponse(indexed_count=count)

    async def IndexBacklog(self, request: pb.IndexBacklogRequest, context: Context) -> pb.IndexBacklogResponse:
        tenant_id = caller(context).tenant()
        if request.look:
            return _backlog(await self._indexer.waiting(tenant_id))
        under_way = self._deferred.of(tenant_id)
        return _backlog(await self._indexer.backlog(tenant_id, request.limit or DEFAULT_BACKLOG, but=under_way))

    async def ListDueReindexes(
        self, request: pb.ListDueReindexesRequest, context: Context
    ) -> pb.ListDueReindexesResponse:
        size = pagination.resolve_page_size(request.page_size)
        after = wire.place_of(pagination.read_token(request.page_token, None, request)) or NO_TENANT
        found = await self._store.reindexes.list_due_tenants(after, size + 1)
        response = pb.ListDueReindexesResponse(tenant_ids=map(str, found[:size]))
        if len(found) > size:
            response.next_page_token = pagination.write_token([str(found[size - 1])], None, request)
        return response

    async def ContinueReindex(self, request: pb.ContinueReindexRequest, context: Context) -> pb.ContinueReindexResponse:
        seconds = min(REINDEX_SECONDS, context.time_remaining() * REINDEX_SHARE)
        count, more = await self._reindexer.go_on(caller(context).tenant(), seconds)
        return pb.ContinueReindexResponse(embedded_count=count, more=more)

    async def PurgeTenant(self, request: pb.PurgeTenantRequest, context: Context) -> pb.PurgeTenantResponse:
        counts, more = await self._store.purge_tenant(caller(context).tenant(), request.limit)
        return pb.PurgeTenantResponse(deleted_counts=counts, more=more)


def _backlog(found: Backlog) -> pb.IndexBacklogResponse:
    return pb.IndexBacklogResponse(
        indexed_count=found.indexed,
        more=found.more,
        active=found.active,
        pending_count=found.waiting,
        oldest_pending_time=None if found.oldest is None else to_timestamp(id_time(found.oldest)),
    )
