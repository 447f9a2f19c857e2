"""The RPCs of the search index: parse, one call, reply."""

from __future__ import annotations

import functools
import sys
from uuid import UUID

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
from skein_kit.ids import id_time, now
from skein_kit.jobs.model import BLOCKED_SECONDS, JobKind, Progress
from skein_kit.jobs.store import JobStore
from skein_kit.rpc import pagination
from skein_kit.rpc.well_known_types import to_timestamp
from skein_kit.search_text.vector_columns import CALLER, normalize
from skein_recall.index.embedding_queue import EmbeddingQueue
from skein_recall.index.indexer import Indexer
from skein_recall.index.model import Backlog, CallerVectors, IndexState, ModelVectors
from skein_recall.index.store import IndexStore
from skein_recall.index.term_counts import TermCountStore
from skein_recall.index.vector_store import VectorStore
from skein_recall.models.model import EmbeddingModel, ModelRegistry
from skein_recall.models.store import ModelStore
from skein_recall.providers.text_embedder import IndexItem

DEFAULT_BACKLOG_LIMIT = 256


class IndexHandlers:
    """Documents of the index and their vectors."""

    def __init__(  # noqa: PLR0913 - an argument for each store.
        self,
        store: IndexStore,
        vector_store: VectorStore,
        models: ModelStore,
        registry: ModelRegistry,
        indexer: Indexer,
        queue: EmbeddingQueue,
        *,
        idempotency: IdempotencyStore,
        term_counts: TermCountStore,
        jobs: JobStore,
    ) -> None:
        self._store = store
        self._vector_store = vector_store
        self._models = models
        self._registry = registry
        self._indexer = indexer
        self._queue = queue
        self._idempotency = idempotency
        self._term_counts = term_counts
        self._jobs = jobs

    async def IndexItems(self, request: pb.IndexItemsRequest, context: Context) -> pb.IndexItemsResponse:
        items = [IndexItem(UUID(item.item_id), item.revision, item.text) for item in request.items]
        tenant_id = caller_of(context).require_tenant()
        if request.defer_embedding:
            # A full queue takes none: the worker finds them in the backlog.
            self._queue.put(tenant_id, items)
            return pb.IndexItemsResponse()
        return pb.IndexItemsResponse(indexed_count=await self._indexer.index(tenant_id, items))

    async def ListDueTenants(self, request: pb.ListDueTenantsRequest, _context: Context) -> pb.ListDueTenantsResponse:
        return await self._term_counts.list_due_tenants(request)

    async def IndexBacklog(self, request: pb.IndexBacklogRequest, context: Context) -> pb.IndexBacklogResponse:
        tenant_id = caller_of(context).require_tenant()
        if request.count_only:
            return backlog_message(await self._indexer.backlog_size(tenant_id))
        limit = request.limit or DEFAULT_BACKLOG_LIMIT
        queued = self._queue.item_ids(tenant_id)
        async with self._jobs.batch(tenant_id, JobKind.EMBEDDING, limit) as batch:
            backlog = await self._indexer.index_backlog(
                tenant_id, batch.grant.count, max_characters=request.max_characters or sys.maxsize, exclude=queued
            )
            if batch.grant.count:
                batch.progress = Progress(
                    done_count=backlog.indexed_count,
                    remaining_count=backlog.pending_count,
                    has_more=backlog.pending_count > 0,
                )
        return backlog_message(backlog, seconds=batch.grant.rest(has_more=True))

    async def PutEmbedding(self, request: pb.PutEmbeddingRequest, context: Context) -> pb.PutEmbeddingResponse:
        caller = caller_of(context)
        tenant_id = caller.require_tenant()
        models = await self._registry.models(tenant_id)
        model = models.get(request.model)
        vectors = caller_vectors(request, model)
        others = [each for each in (models.active, *models.followed_in(tenant_id)) if each.can_embed and each != model]
        key = IdempotencyKey.of(caller, request)
        async with self._idempotency.begin_with_key(tenant_id, key) as write:
            item_id = await self._vector_store.put_caller_vectors(write.tx, tenant_id, model, vectors, others)
            response = pb.PutEmbeddingResponse(
                item_id=str(item_id), model=model.model, vector_count=len(vectors.vectors)
            )
            if key.request_id:
                # No job deletes them: there are too few.
                await self._idempotency.delete_expired(write.tx, tenant_id, now())
            return await write.save(response)

    async def BatchGetIndexStates(
        self, request: pb.BatchGetIndexStatesRequest, context: Context
    ) -> pb.BatchGetIndexStatesResponse:
        names = list(dict.fromkeys(request.item_ids))
        tenant_id = caller_of(context).require_tenant()
        active = (await self._registry.models(tenant_id)).active
        read_states = functools.partial(
            self._store.read_states,
            tenant_id,
            names,
            kind(request.kind),
            show_embeddings=request.show_embeddings,
            at=now(),
        )
        states = await self._models.read_by_models(read_states)
        present = [name for name in names if name in states]
        page = pagination.fit_items(index_state(name, states[name], active) for name in present)
        return pb.BatchGetIndexStatesResponse(
            states=page, not_found_ids=[name for name in names if name not in states], unread_ids=present[len(page) :]
        )


def kind(number: pb.ItemKind) -> str:
    """Convert a kind; unspecified means a memory."""
    return "message" if number == pb.ITEM_KIND_MESSAGE else "memory"


def caller_vectors(request: pb.PutEmbeddingRequest, model: EmbeddingModel) -> CallerVectors:
    """Read the vectors of a request. Raises DimensionsMismatch, and FieldInvalid for a vector without a direction."""
    for embedding in request.embeddings:
        model.check_dimensions(len(embedding.values))
    return CallerVectors(
        item_id=UUID(request.item_id) if request.item_id else None,
        external_id=request.external_id,
        kind=kind(request.kind),
        revision=request.revision,
        vectors=[
            normalize(embedding.values, field=f"embeddings[{position}].values")
            for position, embedding in enumerate(request.embeddings)
        ],
        provider=request.provider.strip() or CALLER,
    )


def index_state(name: str, state: IndexState, active: EmbeddingModel) -> pb.IndexState:
    """Convert what the index has of an item, under the name that the request has for it; `active` is searched."""
    return pb.IndexState(
        name=name,
        item_id=str(state.item_id),
        revision=state.revision,
        pending=state.is_pending,
        vectors=[_model_vectors(value, active) for value in state.models],
    )


def _model_vectors(value: ModelVectors, active: EmbeddingModel) -> pb.ModelVectors:
    origin = value.origin
    return pb.ModelVectors(
        model=value.model.model,
        provider=value.model.provider if origin is None else origin.provider,
        dimensions=value.model.dimensions,
        vector_count=value.count,
        active=value.model.model == active.model,
        from_caller=origin is not None,
        put_time=None if origin is None else to_timestamp(origin.create_time),
        embeddings=[pb.Embedding(values=vector) for vector in value.vectors],
    )


def backlog_message(value: Backlog, *, seconds: float = 0.0) -> pb.IndexBacklogResponse:
    """Convert a backlog; with `seconds` the tenant's job is paused or limited, and the rest waits so long."""
    return pb.IndexBacklogResponse(
        indexed_count=value.indexed_count,
        more=value.has_more and not seconds,
        active=value.is_active and seconds < BLOCKED_SECONDS,
        pending_count=value.pending_count,
        oldest_pending_time=None if value.oldest_id is None else to_timestamp(id_time(value.oldest_id)),
    )
