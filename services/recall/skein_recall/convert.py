"""Hits and models as protobuf. Rows are those of memory.entries and session.messages, as sql/items.sql reads them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar, cast

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein_kit.errors import PageTokenInvalid
from skein_kit.ids import parse_id
from skein_kit.json_values import fields
from skein_kit.message_rows import message
from skein_kit.rpc.pagination import fit_items
from skein_kit.rpc.well_known_types import to_timestamp
from skein_recall.quality.comparison import ModelAgreement

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    import numpy as np
    from asyncpg import Record
    from numpy.typing import NDArray

    from skein_recall.index.state import IndexState, ModelVectors
    from skein_recall.models.model import EmbeddingModel
    from skein_recall.quality.comparison import ComparisonRequest
    from skein_recall.query.ranking import RankedItem
    from skein_recall.search.result import RecallResult

_Response = TypeVar("_Response", pb.RecallResponse, pb.FindSimilarResponse)
_SCOPES = cast(
    "dict[str, memory_pb2.Scope]",
    {name.removeprefix("SCOPE_").lower(): number for name, number in memory_pb2.Scope.items()},
)
_LEVELS = cast(
    "dict[str, memory_pb2.Level]",
    {name.removeprefix("LEVEL_").lower(): number for name, number in memory_pb2.Level.items()},
)
# Columns that are fields of the same name, and of the same type.
_AS_THEY_ARE = (
    "external_id", "type", "title", "key", "content", "source", "source_agent", "agent_id", "subject_id", "session_id",
    "confidence", "importance", "revision", "created_by", "updated_by",
)  # fmt: skip
_TIMES = ("expire_time", "valid_from_time", "valid_to_time", "create_time", "update_time", "record_time")


def answer(value: RecallResult) -> pb.RecallResponse:
    """Convert an answer, its items complete."""
    return _answer(pb.RecallResponse, value)


def similar(value: RecallResult) -> pb.FindSimilarResponse:
    """Convert the items that are like a stored one, complete."""
    return _answer(pb.FindSimilarResponse, value)


def _answer(response: type[_Response], value: RecallResult) -> _Response:
    return response(
        hits=fit_items(_hit(ranked, row) for ranked, row in value.hits),
        model=value.model,
        dense_path=value.path,
        dense_unavailable=value.dense_unavailable,
        filter_emptied=bool(value.emptied_by),
        emptied_by=value.emptied_by,
        formula=value.formula,
        filter_truncated=value.filter_truncated,
    )


def index_state(name: str, value: IndexState) -> pb.IndexState:
    """Convert what the index has of an item."""
    return pb.IndexState(
        name=name,
        item_id=str(value.item_id),
        revision=value.revision,
        pending=value.is_pending,
        vectors=[_model_vectors(held) for held in value.models],
    )


def _model_vectors(held: ModelVectors) -> pb.ModelVectors:
    origin = held.provenance
    return pb.ModelVectors(
        model=held.model.model,
        provider=held.model.provider if origin is None else origin.provider,
        dimensions=held.model.dimensions,
        vector_count=held.count,
        active=held.model.active,
        given=origin is not None,
        put_time=None if origin is None else to_timestamp(origin.create_time),
        embeddings=[pb.Embedding(values=vector) for vector in held.vectors],
    )


def embedding_model(value: EmbeddingModel, *, whole: bool = True) -> pb.EmbeddingModel:
    """Convert a registered model, unless it is to be `whole` without where its endpoint is."""
    made = pb.EmbeddingModel(
        model=value.model,
        provider=value.provider,
        dimensions=value.dimensions,
        active=value.active,
        create_time=to_timestamp(value.create_time),
        followed=bool(value.followed) and not value.active,
    )
    if whole and value.remote is not None:
        made.endpoint = value.remote.endpoint
        made.remote_model = value.remote.remote_model
        made.batch_size = value.remote.batch_size
        made.timeout_seconds = value.remote.timeout_seconds
        made.window_characters = value.remote.window_characters
    return made


def reindex(row: Record) -> pb.Reindex:
    """Convert a row of list_reindexes."""
    if row["cancel_time"] is not None:
        state = pb.REINDEX_STATE_CANCELLED
    else:
        state = pb.REINDEX_STATE_COMPLETE if row["done"] >= row["tenants"] else pb.REINDEX_STATE_RUNNING
    return pb.Reindex(
        reindex_id=str(row["reindex_id"]),
        model=row["model"],
        tenant_id=str(row["only_tenant_id"] or ""),
        state=state,
        texts_per_second=row["texts_per_second"],
        tenant_count=row["tenants"],
        done_tenant_count=row["done"],
        document_count=row["documents"],
        seen_count=row["seen"],
        embedded_count=row["embedded"],
        missing_count=row["missing"],
        create_time=to_timestamp(row["create_time"]),
        cancel_time=to_timestamp(row["cancel_time"]),
        created_by=row["created_by"],
    )


def place_of(place: list[str] | None) -> UUID | None:
    """Read the id at which a page begins; refuse a place that is none."""
    if place is None:
        return None
    found = parse_id(place[0]) if len(place) == 1 else None
    if found is None:
        raise PageTokenInvalid
    return found


def comparison(
    asked: ComparisonRequest, active: EmbeddingModel, found: Iterable[ModelAgreement], *, truncated: bool
) -> pb.CompareModelsResponse:
    """Convert how far two models agree, tenant by tenant and over all."""
    overall = ModelAgreement()
    response = pb.CompareModelsResponse(
        active_model=active.model, model=asked.model, limit=asked.limit, truncated=truncated
    )
    for agreement in found:
        overall.join(agreement)
        response.tenants.append(_agreement(agreement))
    response.overall.CopyFrom(_agreement(overall))
    return response


def _agreement(value: ModelAgreement) -> pb.ModelAgreement:
    return pb.ModelAgreement(
        tenant_id=str(value.tenant_id or ""),
        query_count=value.queries,
        agreement=value.mean,
        same_first_count=value.same_first,
    )


def embeddings(vectors: Iterable[NDArray[np.float32]]) -> list[pb.Embedding]:
    """Convert vectors."""
    return [pb.Embedding(values=vector.tolist()) for vector in vectors]


def _hit(ranked: RankedItem, row: Record) -> pb.Hit:
    hit = pb.Hit(
        item_id=str(ranked.item_id),
        score=ranked.score,
        similarity=ranked.similarity,
        has_query_words=ranked.has_words,
        components=[
            pb.ScoreComponent(signal=signal, raw=raw, value=value, weight=weight, rank=rank)
            for signal, raw, value, weight, rank in ranked.components
        ],
    )
    if ranked.kind == "memory":
        hit.kind = pb.ITEM_KIND_MEMORY
        _write_memory(hit.memory, row)
    else:
        hit.kind = pb.ITEM_KIND_MESSAGE
        hit.message.CopyFrom(message(row))
    return hit


def _write_memory(memory: memory_pb2.Memory, row: Record) -> None:
    """Write a row where it goes: a message that is made first and then copied takes twice as long."""
    memory.memory_id = str(row["memory_id"])
    memory.scope, memory.level = _SCOPES[row["scope"]], _LEVELS[row["level"]]
    memory.content_hash = row["content_hash"].hex()
    memory.tags.extend(row["tags"])
    for name in _AS_THEY_ARE:
        if (value := row[name]) is not None:
            setattr(memory, name, value)
    for name in _TIMES:
        if (value := to_timestamp(row[name])) is not None:
            getattr(memory, name).CopyFrom(value)
    for name in ("data", "metadata"):
        if (text := row[name]) is not None:
            fields.write(memory, name, text)
    if (secret := _masked(row)) is not None:
        memory.secret.CopyFrom(secret)


def _masked(row: Record) -> memory_pb2.MaskedSecret | None:
    """Show that a memory of the vault has a secret, as the memory service does; the index never knew it."""
    length = json.loads(row["data"]).get("secret_length") if row["type"] == "knowledge_vault" and row["data"] else None
    return None if length is None else memory_pb2.MaskedSecret(masked="••••", length_class=length)
