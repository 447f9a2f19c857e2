"""Memories as protobuf."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.memory.v1 import memory_pb2 as pb
from skein.memory.v1 import scores_pb2
from skein_kit.json_values.fields import fields
from skein_kit.rpc.well_known_types import to_timestamp
from skein_memory.memories import memory_type

if TYPE_CHECKING:
    from skein_memory.memories.model import Memory
    from skein_memory.scoring.model import Component, Scores


def memory(value: Memory) -> pb.Memory:
    """Convert a memory, complete."""
    draft, memory_scores = value.draft, value.memory_scores
    return pb.Memory(
        memory_id=str(value.memory_id),
        external_id=draft.external_id or "",
        type=draft.type,
        title=draft.title or "",
        key=draft.key or "",
        content=draft.content,
        tags=draft.tags,
        source=draft.source or "",
        source_agent=draft.source_agent or "",
        agent_id=draft.agent_id or "",
        subject_id=draft.subject_id or "",
        session_id=draft.session_id or "",
        scope=f"SCOPE_{draft.scope.upper()}",
        level=f"LEVEL_{draft.level.upper()}",
        confidence=draft.confidence,
        importance=draft.importance,
        expire_time=to_timestamp(draft.expire_time),
        archive_time=to_timestamp(draft.archive_time),
        valid_from_time=to_timestamp(draft.valid_from_time),
        valid_to_time=to_timestamp(draft.valid_to_time),
        content_hash=draft.content_hash.hex(),
        revision=value.revision,
        create_time=to_timestamp(draft.create_time),
        update_time=to_timestamp(value.update_time),
        record_time=to_timestamp(value.record_time),
        delete_time=to_timestamp(value.delete_time),
        created_by=value.created_by,
        updated_by=value.updated_by,
        secret=_masked(memory_type.secret_length_of(draft.type, draft.data)),
        scores=scores(memory_scores.scores) if memory_scores else None,
        access_count=memory_scores.access_count if memory_scores else 0,
        last_access_time=to_timestamp(memory_scores.last_access_time) if memory_scores else None,
        **fields(data=draft.data, metadata=draft.metadata),
    )


def _masked(length: str | None) -> pb.MaskedSecret | None:
    """Convert the length class of a secret; None stays unset."""
    return None if length is None else pb.MaskedSecret(masked=memory_type.MASK, length_class=length)


def scores(value: Scores) -> scores_pb2.Scores:
    """Convert scores."""
    return scores_pb2.Scores(
        confidence=value.confidence, importance=value.importance, formula=value.formula, version=value.version
    )


def component(value: Component) -> scores_pb2.ScoreComponent:
    """Convert a term of a formula."""
    return scores_pb2.ScoreComponent(name=value.name, value=value.value, detail=value.detail)
