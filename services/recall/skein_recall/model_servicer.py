"""The RPCs about models: vectors that callers bring, reindexes, comparison, and which model is in force."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from skein.recall.v1 import recall_pb2 as pb
from skein.recall.v1 import recall_pb2_grpc as rpc
from skein_kit.calls.call import Context, caller
from skein_kit.idempotency.key import IdempotencyKey
from skein_kit.identity.permissions import OPERATOR
from skein_kit.ids import now
from skein_kit.rpc import pagination
from skein_kit.rpc.pagination import MAX_UNPAGED, paginate
from skein_recall import convert as wire
from skein_recall.errors import ModelResponseInvalid
from skein_recall.index.caller_vectors import CallerVectors
from skein_recall.models.model import ModelDraft
from skein_recall.models.reindex_store import Start
from skein_recall.providers.provider import TextRejected
from skein_recall.quality.comparison import ComparisonRequest

if TYPE_CHECKING:
    from skein_kit.outbound.fetch import SafeHttpClient
    from skein_recall.models.model import EmbeddingModel, ModelRegistry
    from skein_recall.providers.text_embedder import TextEmbedder
    from skein_recall.quality.comparison import ModelComparer
    from skein_recall.settings import RecallSettings
    from skein_recall.store import Store

# Of a call's time, what comparing may take.
_SHARE_OF_TIME = 0.8
_FIRST_TEXT = "A first text."


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelParts:
    """What the RPCs about models work with."""

    store: Store
    registry: ModelRegistry
    vectors: TextEmbedder
    comparer: ModelComparer
    outbound: SafeHttpClient
    settings: RecallSettings


class ModelServicer(rpc.RecallServiceServicer):
    """The registry of models, and how one takes the place of another."""

    def __init__(self, parts: ModelParts) -> None:
        self._parts = parts

    async def ListEmbeddingModels(
        self, request: pb.ListEmbeddingModelsRequest, context: Context
    ) -> pb.ListEmbeddingModelsResponse:
        models = await self._parts.store.models.list_models()
        who = caller(context)
        whole = OPERATOR in who.permissions
        found = [wire.embedding_model(model, whole=whole) for model in models]
        page, token = paginate(
            found, lambda model: model.model, request, who.tenant_id, size=request.page_size or MAX_UNPAGED
        )
        return pb.ListEmbeddingModelsResponse(embedding_models=page, next_page_token=token)

    async def RegisterEmbeddingModel(
        self, request: pb.RegisterEmbeddingModelRequest, context: Context
    ) -> pb.RegisterEmbeddingModelResponse:
        once = IdempotencyKey.of(caller(context), request)
        draft = ModelDraft.of(request.embedding_model, self._parts.outbound)
        response = await self._parts.store.models.register_model(draft, now(), once)
        self._parts.registry.forget()
        return response

    async def PutEmbedding(self, request: pb.PutEmbeddingRequest, context: Context) -> pb.PutEmbeddingResponse:
        who = caller(context)
        models = await self._parts.registry.models()
        model = models.named(request.model)
        given = CallerVectors.of(request, model)
        made_here = [one for one in (models.active, *models.following(who.tenant())) if one.embeds and one != model]
        response = pb.PutEmbeddingResponse(model=model.model, vector_count=len(given.vectors))
        first = await self._parts.store.vectors.put_given(
            who.tenant(), model, given, made_here, IdempotencyKey.of(who, request), response
        )
        return response if first is None else pb.PutEmbeddingResponse.FromString(first)

    async def BatchGetIndexStates(
        self, request: pb.BatchGetIndexStatesRequest, context: Context
    ) -> pb.BatchGetIndexStatesResponse:
        names = list(dict.fromkeys(request.item_ids))
        found = await self._parts.store.states.read_states(
            caller(context).tenant(),
            names,
            "message" if request.kind == pb.ITEM_KIND_MESSAGE else "memory",
            await self._parts.store.models.list_models(),
            show_embeddings=request.show_embeddings,
            at=now(),
        )
        states = pagination.fit_items(wire.index_state(name, found[name]) for name in names if name in found)
        return pb.BatchGetIndexStatesResponse(
            states=states,
            not_found=[name for name in names if name not in found],
            deferred=[name for name in names if name in found][len(states) :],
        )

    async def StartReindex(self, request: pb.StartReindexRequest, context: Context) -> pb.StartReindexResponse:
        who = caller(context)
        self._parts.registry.forget()
        model = (await self._parts.registry.models()).named(request.model)
        await self._must_answer(model)
        tenant_id = UUID(request.tenant_id) if request.tenant_id else None
        start = self._start(model.model, who.principal, tenant_id=tenant_id, rate=request.texts_per_second)
        response = await self._parts.store.reindexes.start(start, IdempotencyKey.of(who, request))
        self._parts.registry.forget()
        return response

    async def GetReindex(self, request: pb.GetReindexRequest, context: Context) -> pb.GetReindexResponse:
        row = await self._parts.store.reindexes.read(UUID(request.reindex_id))
        return pb.GetReindexResponse(reindex=wire.reindex(row))

    async def ListReindexes(self, request: pb.ListReindexesRequest, context: Context) -> pb.ListReindexesResponse:
        size = pagination.resolve_page_size(request.page_size)
        place = pagination.read_token(request.page_token, None, request)
        before = wire.place_of(place)
        rows = await self._parts.store.reindexes.list_newest(before, size + 1)
        response = pb.ListReindexesResponse(reindexes=[wire.reindex(row) for row in rows[:size]])
        if len(rows) > size:
            response.next_page_token = pagination.write_token([str(rows[size - 1]["reindex_id"])], None, request)
        return response

    async def CancelReindex(self, request: pb.CancelReindexRequest, context: Context) -> pb.CancelReindexResponse:
        once = IdempotencyKey.of(caller(context), request)
        response = await self._parts.store.reindexes.cancel(UUID(request.reindex_id), now(), once)
        self._parts.registry.forget()
        return response

    async def CompareModels(self, request: pb.CompareModelsRequest, context: Context) -> pb.CompareModelsResponse:
        asked = ComparisonRequest.of(request)
        seconds = context.time_remaining() * _SHARE_OF_TIME
        active, found, truncated = await self._parts.comparer.compare(asked, seconds)
        return wire.comparison(asked, active, found, truncated=truncated)

    async def SetActiveModel(self, request: pb.SetActiveModelRequest, context: Context) -> pb.SetActiveModelResponse:
        who = caller(context)
        follow = self._start(request.model, who.principal, keeps_rate=True)
        response = await self._parts.store.models.set_active_model(
            request.model, force=request.force, follow=follow, at=follow.at, once=IdempotencyKey.of(who, request)
        )
        self._parts.registry.forget()
        return response

    async def DropModel(self, request: pb.DropModelRequest, context: Context) -> pb.DropModelResponse:
        left_before = now() - timedelta(seconds=self._parts.settings.settle_seconds)
        once = IdempotencyKey.of(caller(context), request)
        response = await self._parts.store.models.drop_model(request.model, left_before=left_before, once=once)
        self._parts.registry.forget()
        return response

    def _start(
        self, model: str, principal: str, *, tenant_id: UUID | None = None, rate: float = 0.0, keeps_rate: bool = False
    ) -> Start:
        at = now()
        return Start(
            model=model,
            only_tenant_id=tenant_id,
            texts_per_second=rate or self._parts.settings.reindex_texts_per_second,
            settle_time=at + timedelta(seconds=self._parts.settings.settle_seconds),
            at=at,
            created_by=principal,
            keeps_rate=keeps_rate,
        )

    async def _must_answer(self, model: EmbeddingModel) -> None:
        """Refuse to begin with a model whose endpoint does not answer, or not with its vectors."""
        if not model.embeds:
            return
        try:
            await self._parts.vectors.of_texts(model, [_FIRST_TEXT])
        except TextRejected as refused:
            raise ModelResponseInvalid(model=model.model, what=str(refused)) from None
