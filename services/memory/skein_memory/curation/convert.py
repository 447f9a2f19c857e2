"""Results of curation as protobuf."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.memory.v1 import scores_pb2

if TYPE_CHECKING:
    from skein_memory.curation.store import DuplicateGroup
    from skein_memory.memories.model import Memory


def reinforced(value: Memory) -> scores_pb2.ReinforcedMemory:
    """Convert a reinforced memory."""
    return scores_pb2.ReinforcedMemory(
        memory_id=str(value.memory_id),
        confidence=value.draft.confidence,
        importance=value.draft.importance,
        revision=value.revision,
    )


def group(value: DuplicateGroup) -> scores_pb2.DuplicateGroup:
    """Convert a group of duplicates."""
    return scores_pb2.DuplicateGroup(
        kept_memory_id=str(value.kept_id), archived_memory_ids=[str(id_) for id_ in value.archived_ids]
    )
