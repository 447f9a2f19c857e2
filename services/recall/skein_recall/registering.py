"""RegisterEmbeddingModel: the one RPC of recall that writes for an operator, once for each request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.call import Context, caller
from skein_kit.ids import now
from skein_kit.requests import Once
from skein_recall.models import Draft
from skein_recall.servicer import RecallServicer

if TYPE_CHECKING:
    from skein_recall.models import Registry
    from skein_recall.search import Searcher
    from skein_recall.store import Store
    from skein_recall.vectors import Vectors


class RegisteringServicer(RecallServicer):
    """RecallService, with a registration that can be repeated."""

    def __init__(self, searcher: Searcher, vectors: Vectors, registry: Registry, store: Store) -> None:
        super().__init__(searcher, vectors, registry, store)
        self._models = store

    async def RegisterEmbeddingModel(
        self, request: pb.RegisterEmbeddingModelRequest, context: Context
    ) -> pb.RegisterEmbeddingModelResponse:
        once = Once.of(caller(context), request)
        return await self._models.register_once(Draft.of(request.embedding_model), now(), once)
