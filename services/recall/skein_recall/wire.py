"""Hits and models as protobuf. Rows are those of memory.entries and session.messages, as sql/items.sql reads them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein_kit.messages import message
from skein_kit.pages import fitting
from skein_kit.wire import struct, time

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from asyncpg import Record
    from numpy.typing import NDArray

    from skein_recall.models import EmbeddingModel
    from skein_recall.ranking import Ranked
    from skein_recall.search import Answer


def answer(value: Answer) -> pb.RecallResponse:
    """Convert an answer, its items complete."""
    return pb.RecallResponse(
        hits=fitting(_hit(ranked, row) for ranked, row in value.hits),
        model=value.model,
        dense_path="exact" if value.dense else "none",
        dense_unavailable=not value.dense,
        filter_emptied=value.filter_emptied,
        filter_truncated=value.filter_truncated,
    )


def embedding_model(value: EmbeddingModel) -> pb.EmbeddingModel:
    """Convert a registered model."""
    return pb.EmbeddingModel(
        model=value.model,
        provider=value.provider,
        dimensions=value.dimensions,
        active=value.active,
        create_time=time(value.create_time),
    )


def embeddings(vectors: Iterable[NDArray[np.float32]]) -> list[pb.Embedding]:
    """Convert vectors."""
    return [pb.Embedding(values=vector.tolist()) for vector in vectors]


def _hit(ranked: Ranked, row: Record) -> pb.Hit:
    candidate = ranked.candidate
    hit = pb.Hit(
        item_id=str(candidate.item_id),
        score=ranked.score,
        similarity=candidate.similarity,
        components=[
            pb.ScoreComponent(
                signal=component.signal,
                raw=component.raw,
                value=component.value,
                weight=component.weight,
                rank=component.rank,
            )
            for component in ranked.components
        ],
    )
    if candidate.kind == "memory":
        hit.kind = pb.ITEM_KIND_MEMORY
        hit.memory.CopyFrom(_memory(row))
    else:
        hit.kind = pb.ITEM_KIND_MESSAGE
        hit.message.CopyFrom(message(row))
    return hit


def _memory(row: Record) -> memory_pb2.Memory:
    return memory_pb2.Memory(
        memory_id=str(row["memory_id"]),
        external_id=row["external_id"],
        type=row["type"],
        title=row["title"],
        key=row["key"],
        content=row["content"],
        data=struct(row["data"]),
        tags=row["tags"],
        source=row["source"],
        source_agent=row["source_agent"],
        agent_id=row["agent_id"],
        subject_id=row["subject_id"],
        session_id=row["session_id"],
        scope=f"SCOPE_{row['scope'].upper()}",
        level=f"LEVEL_{row['level'].upper()}",
        confidence=row["confidence"],
        importance=row["importance"],
        expire_time=time(row["expire_time"]),
        valid_from_time=time(row["valid_from_time"]),
        valid_to_time=time(row["valid_to_time"]),
        metadata=struct(row["metadata"]),
        content_hash=row["content_hash"].hex(),
        revision=row["revision"],
        create_time=time(row["create_time"]),
        update_time=time(row["update_time"]),
        created_by=row["created_by"],
        updated_by=row["updated_by"],
        secret=_masked(row),
    )


def _masked(row: Record) -> memory_pb2.MaskedSecret | None:
    """Show that a memory of the vault has a secret, as the memory service does; the index never knew it."""
    length = json.loads(row["data"]).get("secret_length") if row["type"] == "knowledge_vault" and row["data"] else None
    return None if length is None else memory_pb2.MaskedSecret(masked="••••", length_class=length)
