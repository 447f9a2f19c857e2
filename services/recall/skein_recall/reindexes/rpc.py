"""The RPCs of reindexes and of the switch of the active model: parse, one call, reply."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.database.transactions import NO_TENANT, Transaction
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
from skein_kit.ids import now
from skein_kit.rpc import pagination
from skein_kit.rpc.well_known_types import to_timestamp
from skein_recall.errors import ModelResponseInvalid, VectorsMissing
from skein_recall.models import convert as models_convert
from skein_recall.models.model import EmbeddingModel, ModelRegistry, ModelSnapshot, Purpose
from skein_recall.models.similarity_scale import PAIRS, SimilarityScale, measured_scale
from skein_recall.models.store import ModelStore
from skein_recall.providers.provider import TextRejected
from skein_recall.providers.text_embedder import TextEmbedder
from skein_recall.reindexes.model import Reindex, ReindexDraft
from skein_recall.reindexes.reindexer import TEXTS_PER_SECOND, Reindexer
from skein_recall.reindexes.store import ReindexStore
from skein_recall.settings import RecallSettings

# One ContinueReindex takes this long at most, and at most this share of its deadline: the batch in work is finished.
_CONTINUE_SECONDS = 5.0
_CONTINUE_SHARE = 0.3
_PROBE_TEXT = "A first text."


class ReindexHandlers:
    """Reindexes, and the model that is active."""

    def __init__(
        self,
        store: ReindexStore,
        models: ModelStore,
        registry: ModelRegistry,
        embedder: TextEmbedder,
        reindexer: Reindexer,
        idempotency: IdempotencyStore,
        settings: RecallSettings,
    ) -> None:
        self._store = store
        self._models = models
        self._registry = registry
        self._embedder = embedder
        self._reindexer = reindexer
        self._idempotency = idempotency
        self._settings = settings

    async def StartReindex(self, request: pb.StartReindexRequest, context: Context) -> pb.StartReindexResponse:
        caller = caller_of(context)
        self._registry.invalidate()
        model = (await self._registry.models()).get(request.model)
        scale = await self._probe(model)
        tenant_id = UUID(request.tenant_id) if request.tenant_id else None
        draft = self._draft(model.model, caller.principal, tenant_id=tenant_id, rate=request.texts_per_second)
        async with self._idempotency.begin_as_operator(IdempotencyKey.of(caller, request), sees_repeats=True) as write:
            if write.saved_response is not None:
                response = pb.StartReindexResponse.FromString(write.saved_response)
            else:
                if scale is not None:
                    await self._models.set_similarity_scale(write.tx, model.model, scale)
                reindex_id = await self._store.start_reindex(write.tx, draft)
                reindex = await self._store.get_reindex_in(write.tx, reindex_id)
                response = await write.save(pb.StartReindexResponse(reindex=_reindex(reindex)))
        self._registry.invalidate()
        return response

    async def GetReindex(self, request: pb.GetReindexRequest, context: Context) -> pb.GetReindexResponse:
        reindex = await self._store.get_reindex(UUID(request.reindex_id))
        return pb.GetReindexResponse(reindex=_reindex(reindex))

    async def ListReindexes(self, request: pb.ListReindexesRequest, context: Context) -> pb.ListReindexesResponse:
        size = pagination.resolve_page_size(request.page_size)
        before = pagination.read_id(None, request)
        reindexes = await self._store.list_reindexes(before, size + 1)
        response = pb.ListReindexesResponse(reindexes=map(_reindex, reindexes[:size]))
        if len(reindexes) > size:
            response.next_page_token = pagination.write_token([str(reindexes[size - 1].reindex_id)], None, request)
        return response

    async def CancelReindex(self, request: pb.CancelReindexRequest, context: Context) -> pb.CancelReindexResponse:
        reindex_id, at = UUID(request.reindex_id), now()
        async with self._idempotency.begin_as_operator(
            IdempotencyKey.of(caller_of(context), request), sees_repeats=True
        ) as write:
            if write.saved_response is not None:
                response = pb.CancelReindexResponse.FromString(write.saved_response)
            else:
                model = await self._store.cancel_reindex(write.tx, reindex_id, at)
                if model is not None:
                    await self._models.set_left_time(write.tx, model, at)
                reindex = await self._store.get_reindex_in(write.tx, reindex_id)
                response = await write.save(pb.CancelReindexResponse(reindex=_reindex(reindex)))
        self._registry.invalidate()
        return response

    async def ActivateEmbeddingModel(
        self, request: pb.ActivateEmbeddingModelRequest, context: Context
    ) -> pb.ActivateEmbeddingModelResponse:
        caller = caller_of(context)
        draft = self._draft(request.model, caller.principal, keep_rate=True)
        async with self._idempotency.begin_as_operator(IdempotencyKey.of(caller, request), sees_repeats=True) as write:
            if write.saved_response is not None:
                response = pb.ActivateEmbeddingModelResponse.FromString(write.saved_response)
            else:
                await write.tx.write_sequentially()
                former = await self._set_active_model(write.tx, draft, force=request.force)
                models = ModelSnapshot.of(await self._models.list_models_in(write.tx))
                response = await write.save(
                    pb.ActivateEmbeddingModelResponse(
                        embedding_model=models_convert.embedding_model(models.get(request.model)), former_model=former
                    )
                )
        self._registry.invalidate()
        return response

    async def OfferEmbeddingModel(
        self, request: pb.OfferEmbeddingModelRequest, context: Context
    ) -> pb.OfferEmbeddingModelResponse:
        self._registry.invalidate()
        model = (await self._registry.models()).get(request.model)
        scale = None if request.withdraw else await self._probe(model)
        key = IdempotencyKey.of(caller_of(context), request)
        async with self._idempotency.begin_as_operator(key, sees_repeats=True) as write:
            if write.saved_response is not None:
                response = pb.OfferEmbeddingModelResponse.FromString(write.saved_response)
            else:
                if scale is not None:
                    await self._models.set_similarity_scale(write.tx, model.model, scale)
                await self._models.offer_model(write.tx, model.model, now(), is_offered=not request.withdraw)
                models = ModelSnapshot.of(await self._models.list_models_in(write.tx))
                offered = models_convert.embedding_model(models.get(model.model))
                response = await write.save(pb.OfferEmbeddingModelResponse(embedding_model=offered))
        self._registry.invalidate()
        return response

    async def _set_active_model(self, tx: Transaction, draft: ReindexDraft, *, force: bool) -> str:
        """Switch the active model; return the former one's name, empty when there was none.

        Both models are scanned once more: until every process knows, some write vectors of the one and some of the
        other. Raises ModelNotFound, and VectorsMissing unless the switch is forced.
        """
        models = ModelSnapshot.of(await self._models.list_models_in(tx))
        model = models.get(draft.model)
        former = next((model for model in models.by_name.values() if model.active), None)
        if former is None or former.model != model.model:
            missing = {each.model: await self._store.count_missing(tx, each) for each in (model, former) if each}
            if (counts := missing[model.model]) is not None and not force:
                raise VectorsMissing(
                    model=model.model,
                    tenants=counts.get("tenants"),
                    limited_tenants=counts.get("limited_tenants", 0),
                    items=counts.get("items"),
                )
            await self._models.activate_model(tx, model.model, draft.at)
            # In order of their names, so that two switches do not deadlock.
            for name in sorted(missing):
                if models.by_name[name].can_embed:
                    await self._store.start_reindex(tx, replace(draft, model=name, is_complete=missing[name] is None))
        return "" if former is None else former.model

    async def ListDueReindexes(
        self, request: pb.ListDueReindexesRequest, context: Context
    ) -> pb.ListDueReindexesResponse:
        size = pagination.resolve_page_size(request.page_size)
        after = pagination.read_id(None, request) or NO_TENANT
        tenant_ids = await self._store.list_due_tenants(after, size + 1)
        response = pb.ListDueReindexesResponse(tenant_ids=map(str, tenant_ids[:size]))
        if len(tenant_ids) > size:
            response.next_page_token = pagination.write_token([str(tenant_ids[size - 1])], None, request)
        return response

    async def ContinueReindex(self, request: pb.ContinueReindexRequest, context: Context) -> pb.ContinueReindexResponse:
        seconds = min(_CONTINUE_SECONDS, context.time_remaining() * _CONTINUE_SHARE)
        count, more = await self._reindexer.continue_reindex(caller_of(context).require_tenant(), seconds)
        return pb.ContinueReindexResponse(embedded_count=count, more=more)

    def _draft(
        self, model: str, principal: str, *, tenant_id: UUID | None = None, rate: float = 0.0, keep_rate: bool = False
    ) -> ReindexDraft:
        at = now()
        return ReindexDraft(
            model=model,
            only_tenant_id=tenant_id,
            texts_per_second=rate or TEXTS_PER_SECOND,
            settle_time=at + timedelta(seconds=self._settings.settle_seconds),
            at=at,
            created_by=principal,
            keep_rate=keep_rate,
        )

    async def _probe(self, model: EmbeddingModel) -> SimilarityScale | None:
        """Embed some texts, so that no reindex starts that cannot work; return the model's scale if it has none yet.

        Raises ModelUnavailable and ModelResponseInvalid.
        """
        if not model.can_embed:
            return None
        try:
            if model.similarity_scale is not None:
                await self._embedder.embed_texts(model, [_PROBE_TEXT], Purpose.PASSAGE)
                return None
            questions, answers = zip(*PAIRS, strict=True)
            return measured_scale(
                await self._embedder.embed_texts(model, questions, Purpose.QUERY),
                await self._embedder.embed_texts(model, answers, Purpose.PASSAGE),
            )
        except TextRejected as error:
            raise ModelResponseInvalid(model=model.model, problem=str(error)) from None


def _reindex(value: Reindex) -> pb.Reindex:
    """Convert a reindex: it is complete when it is done in every tenant."""
    if value.cancel_time is not None:
        state = pb.REINDEX_STATE_CANCELLED
    else:
        state = pb.REINDEX_STATE_COMPLETE if value.done_tenants >= value.tenants else pb.REINDEX_STATE_RUNNING
    return pb.Reindex(
        reindex_id=str(value.reindex_id),
        model=value.model,
        tenant_id=str(value.only_tenant_id or ""),
        state=state,
        texts_per_second=value.texts_per_second,
        tenant_count=value.tenants,
        done_tenant_count=value.done_tenants,
        document_count=value.documents,
        seen_count=value.seen,
        embedded_count=value.embedded,
        missing_count=value.missing,
        create_time=to_timestamp(value.create_time),
        cancel_time=to_timestamp(value.cancel_time),
        created_by=value.created_by,
    )
