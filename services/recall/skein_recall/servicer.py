"""The RPCs of RecallService and IndexService: parse, one call, reply."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from skein.recall.v1 import recall_pb2 as pb
from skein.recall.v1 import recall_pb2_grpc as rpc
from skein_kit.call import Context, caller
from skein_kit.errors import FieldInvalid
from skein_kit.ids import now
from skein_kit.requests import Once
from skein_recall import wire
from skein_recall.errors import ModelNotFound
from skein_recall.models import Draft
from skein_recall.search import Question
from skein_recall.vectors import Item

if TYPE_CHECKING:
    from skein_recall.index import Indexer
    from skein_recall.models import Registry
    from skein_recall.search import Searcher
    from skein_recall.store import Store
    from skein_recall.vectors import Vectors

DEFAULT_BACKLOG = 256
# Of one EmbedText, all texts together; the protos say so.
MAX_EMBED_CHARACTERS = 200_000


class RecallServicer(rpc.RecallServiceServicer):
    """Recall, vectors of texts, and the registry of models."""

    def __init__(self, searcher: Searcher, vectors: Vectors, registry: Registry, store: Store) -> None:
        self._searcher = searcher
        self._vectors = vectors
        self._registry = registry
        self._store = store

    async def Recall(self, request: pb.RecallRequest, context: Context) -> pb.RecallResponse:
        question = Question.of(request)
        seconds = context.time_remaining()
        return wire.answer(await self._searcher.recall(caller(context).tenant(), question, seconds=seconds))

    async def EmbedText(self, request: pb.EmbedTextRequest, context: Context) -> pb.EmbedTextResponse:
        if sum(map(len, request.texts)) > MAX_EMBED_CHARACTERS:
            raise FieldInvalid(violations=[("texts", f"hold more than {MAX_EMBED_CHARACTERS} characters together")])
        model = await self._registry.active()
        if not model.embeds:
            raise ModelNotFound(model=model.model)
        made = await self._vectors.of_texts(request.texts)
        return pb.EmbedTextResponse(model=model.model, embeddings=wire.embeddings(made))

    async def ListEmbeddingModels(
        self, request: pb.ListEmbeddingModelsRequest, context: Context
    ) -> pb.ListEmbeddingModelsResponse:
        models = await self._store.list_models()
        return pb.ListEmbeddingModelsResponse(embedding_models=[wire.embedding_model(model) for model in models])

    async def RegisterEmbeddingModel(
        self, request: pb.RegisterEmbeddingModelRequest, context: Context
    ) -> pb.RegisterEmbeddingModelResponse:
        once = Once.of(caller(context), request)
        return await self._store.register_model(Draft.of(request.embedding_model), now(), once)


class IndexServicer(rpc.IndexServiceServicer):
    """What memory, session and the worker ask of the index."""

    def __init__(self, indexer: Indexer, store: Store) -> None:
        self._indexer = indexer
        self._store = store

    async def IndexItems(self, request: pb.IndexItemsRequest, context: Context) -> pb.IndexItemsResponse:
        items = [Item(UUID(item.item_id), item.revision, item.text) for item in request.items]
        count = await self._indexer.index(caller(context).tenant(), items)
        return pb.IndexItemsResponse(indexed_count=count)

    async def IndexBacklog(self, request: pb.IndexBacklogRequest, context: Context) -> pb.IndexBacklogResponse:
        count, more = await self._indexer.backlog(caller(context).tenant(), request.limit or DEFAULT_BACKLOG)
        return pb.IndexBacklogResponse(indexed_count=count, more=more)

    async def PurgeTenant(self, request: pb.PurgeTenantRequest, context: Context) -> pb.PurgeTenantResponse:
        counts, more = await self._store.purge_tenant(caller(context).tenant(), request.limit)
        return pb.PurgeTenantResponse(deleted_counts=counts, more=more)
