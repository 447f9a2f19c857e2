"""The search index: protobuf to model and back."""

from __future__ import annotations

from uuid import UUID

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.ids import id_time
from skein_kit.jobs.model import BLOCKED_SECONDS
from skein_kit.rpc.well_known_types import to_timestamp
from skein_kit.search_text.vector_columns import CALLER, normalize
from skein_recall.index.model import Backlog, CallerVectors, IndexState, ModelVectors
from skein_recall.models.model import EmbeddingModel


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


def backlog(value: Backlog, *, seconds: float = 0.0) -> pb.IndexBacklogResponse:
    """Convert a backlog; with `seconds` the tenant's job is paused or limited, and the rest waits so long."""
    return pb.IndexBacklogResponse(
        indexed_count=value.indexed_count,
        more=value.has_more and not seconds,
        active=value.is_active and seconds < BLOCKED_SECONDS,
        pending_count=value.pending_count,
        oldest_pending_time=None if value.oldest_id is None else to_timestamp(id_time(value.oldest_id)),
    )
