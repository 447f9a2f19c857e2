"""The RPCs of the registry of models: parse, one call, reply."""

from __future__ import annotations

from datetime import timedelta

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.database.transactions import retry_conflicts
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
from skein_kit.identity.permissions import OPERATOR
from skein_kit.ids import now
from skein_kit.outbound.fetch import SafeHttpClient
from skein_kit.rpc.pagination import MAX_UNPAGED, paginate
from skein_recall.models import convert
from skein_recall.models.model import ModelDraft, ModelRegistry
from skein_recall.models.store import ModelStore

# A table is created while nothing writes documents, and dropped while nothing reads them. Each attempt waits so briefly
# for its locks that no other call notices.
_ATTEMPTS = 21
_PAUSE_SECONDS = 0.1


class ModelHandlers:
    """The registry of embedding models."""

    def __init__(
        self,
        store: ModelStore,
        registry: ModelRegistry,
        outbound: SafeHttpClient,
        idempotency: IdempotencyStore,
        *,
        settle_seconds: float,
    ) -> None:
        """`settle_seconds`: after them, every process knows of a change."""
        self._store = store
        self._registry = registry
        self._outbound = outbound
        self._idempotency = idempotency
        self._settle_time = timedelta(seconds=settle_seconds)

    async def ListEmbeddingModels(
        self, request: pb.ListEmbeddingModelsRequest, context: Context
    ) -> pb.ListEmbeddingModelsResponse:
        caller = caller_of(context)
        show_endpoint = OPERATOR in caller.permissions
        snapshot = await self._registry.fresh_models(caller.tenant_id)
        models = [
            convert.embedding_model(model, show_endpoint=show_endpoint, active=snapshot.active)
            for model in snapshot.by_name.values()
        ]
        page, token = paginate(
            models, lambda model: model.model, request, caller.tenant_id, size=request.page_size or MAX_UNPAGED
        )
        return pb.ListEmbeddingModelsResponse(embedding_models=page, next_page_token=token)

    async def RegisterEmbeddingModel(
        self, request: pb.RegisterEmbeddingModelRequest, context: Context
    ) -> pb.RegisterEmbeddingModelResponse:
        key = IdempotencyKey.of(caller_of(context), request)
        draft = convert.draft(request.embedding_model, self._outbound)
        response = await retry_conflicts(
            lambda: self._register(draft, key), attempts=_ATTEMPTS, pause_seconds=_PAUSE_SECONDS
        )
        # Also for a repeated request, whose first one may have ended before.
        await retry_conflicts(
            lambda: self._store.distribute_vectors(draft.model), attempts=_ATTEMPTS, pause_seconds=_PAUSE_SECONDS
        )
        self._registry.invalidate()
        return response

    async def _register(self, draft: ModelDraft, key: IdempotencyKey) -> pb.RegisterEmbeddingModelResponse:
        async with self._idempotency.begin_as_operator(key, sees_repeats=True) as write:
            if write.saved_response is not None:
                return pb.RegisterEmbeddingModelResponse.FromString(write.saved_response)
            model = await self._store.register_model(write.tx, draft, now())
            return await write.save(pb.RegisterEmbeddingModelResponse(embedding_model=convert.embedding_model(model)))

    async def DeleteEmbeddingModel(
        self, request: pb.DeleteEmbeddingModelRequest, context: Context
    ) -> pb.DeleteEmbeddingModelResponse:
        key = IdempotencyKey.of(caller_of(context), request)
        await retry_conflicts(lambda: self._drop(request.model, key), attempts=_ATTEMPTS, pause_seconds=_PAUSE_SECONDS)
        self._registry.invalidate()
        return pb.DeleteEmbeddingModelResponse()

    async def _drop(self, name: str, key: IdempotencyKey) -> None:
        async with self._idempotency.begin_as_operator(key, sees_repeats=True) as write:
            if write.saved_response is None:
                # A deleted model takes the progress of its reindexes along.
                await write.tx.write_sequentially()
                await self._store.delete_model(write.tx, name, left_before=now() - self._settle_time)
                await write.save(pb.DeleteEmbeddingModelResponse())
