"""Memories and links between protobuf and the domain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.memory.v1 import blocks_pb2, history_pb2, scores_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein_kit.json_values.fields import fields
from skein_kit.rpc.well_known_types import to_timestamp
from skein_memory.graph.model import MAX_TAGS, MAX_TITLE
from skein_memory.links.model import DEFAULT_RELATION
from skein_memory.memories import memory_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skein_memory.blocks.model import Block
    from skein_memory.events.position import Change
    from skein_memory.graph.suggestions import Suggestion
    from skein_memory.links.model import Link
    from skein_memory.memories.model import Memory
    from skein_memory.scoring.model import Scores

# Names as the database has them, by number; an unspecified one has none.
SCOPES: Mapping[int, str] = {
    value: name.removeprefix("SCOPE_").lower() for name, value in pb.Scope.items() if value != pb.SCOPE_UNSPECIFIED
}
LEVELS: Mapping[int, str] = {
    value: name.removeprefix("LEVEL_").lower() for name, value in pb.Level.items() if value != pb.LEVEL_UNSPECIFIED
}

TASK_STATUSES: Mapping[int, str] = {
    value: name.removeprefix("TASK_STATUS_").lower() for name, value in pb.TaskStatus.items() if value
}


def memory(value: Memory) -> pb.Memory:
    """Convert a memory, complete."""
    draft, worth = value.draft, value.worth
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
        scores=scores(worth.scores) if worth else None,
        access_count=worth.access_count if worth else 0,
        last_access_time=to_timestamp(worth.last_access_time) if worth else None,
        **fields(data=draft.data, metadata=draft.metadata),
    )


def _masked(length: str | None) -> pb.MaskedSecret | None:
    """Convert how long a secret is; None stays unset."""
    return None if length is None else pb.MaskedSecret(masked=memory_type.MASK, length_class=length)


def scores(value: Scores) -> scores_pb2.Scores:
    """Convert scores."""
    return scores_pb2.Scores(
        confidence=value.confidence, importance=value.importance, formula=value.formula, version=value.version
    )


def link(value: Link) -> pb.Link:
    """Convert a link, complete."""
    return pb.Link(
        link_id=str(value.link_id),
        from_memory_id=str(value.from_memory_id),
        to_memory_id=str(value.to_memory_id),
        relation=value.relation,
        label=value.label or "",
        weight=value.weight,
        create_time=to_timestamp(value.create_time),
        created_by=value.created_by,
        revision=value.revision,
        update_time=to_timestamp(value.update_time),
        record_time=to_timestamp(value.record_time),
        updated_by=value.updated_by,
        **fields(metadata=value.metadata),
    )


def suggestion(value: Suggestion) -> pb.LinkSuggestion:
    """Convert a suggestion of a link."""
    other = value.memory
    return pb.LinkSuggestion(
        memory_id=str(other.memory_id),
        type=other.type,
        title=(other.title or "")[:MAX_TITLE],
        relation=DEFAULT_RELATION,
        score=value.score,
        tag_score=value.tag_score,
        word_score=value.word_score,
        source_score=value.source_score,
        time_score=value.time_score,
        type_score=value.type_score,
        shared_tags=value.shared_tags[:MAX_TAGS],
    )


def block(value: Block) -> blocks_pb2.Block:
    """Convert a block, complete."""
    draft = value.draft
    return blocks_pb2.Block(
        block_id=value.block_id,
        label=draft.label,
        value=draft.value,
        limit=draft.max_characters,
        description=draft.description or "",
        read_only=draft.read_only,
        is_template=draft.is_template,
        template_name=draft.template_name or "",
        subject_id=draft.subject_id,
        revision=value.revision,
        create_time=to_timestamp(value.create_time),
        update_time=to_timestamp(value.update_time),
        record_time=to_timestamp(value.record_time),
        delete_time=to_timestamp(value.delete_time),
        created_by=value.created_by,
        updated_by=value.updated_by,
        character_count=len(draft.value),
        nearly_full=value.is_nearly_full,
        **fields(metadata=draft.metadata),
    )


def change(value: Change) -> history_pb2.Change:
    """Convert a change of the event log."""
    return history_pb2.Change(
        change_id=str(value.position.change_id),
        position=str(value.position),
        event_type=value.event_type,
        entity_type=value.entity_type,
        entity_id=value.entity_id,
        summary=value.summary,
        principal=value.principal,
        create_time=to_timestamp(value.create_time),
        **fields(payload=value.payload),
    )
