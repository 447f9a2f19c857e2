"""Memories and links between protobuf and the domain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.wire import struct, time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skein_memory.links import Link
    from skein_memory.memories import Memory

# Names as the database has them, by number; an unspecified one has none.
SCOPES: Mapping[int, str] = {
    value: name.removeprefix("SCOPE_").lower() for name, value in pb.Scope.items() if value != pb.SCOPE_UNSPECIFIED
}
LEVELS: Mapping[int, str] = {
    value: name.removeprefix("LEVEL_").lower() for name, value in pb.Level.items() if value != pb.LEVEL_UNSPECIFIED
}


def memory(value: Memory) -> pb.Memory:
    """Convert a memory, complete."""
    draft = value.draft
    return pb.Memory(
        memory_id=str(value.memory_id),
        external_id=draft.external_id or "",
        type=draft.type,
        title=draft.title or "",
        key=draft.key or "",
        content=draft.content,
        data=struct(draft.data),
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
        expire_time=time(draft.expire_time),
        archive_time=time(draft.archive_time),
        valid_from_time=time(draft.valid_from_time),
        valid_to_time=time(draft.valid_to_time),
        metadata=struct(draft.metadata),
        content_hash=draft.content_hash.hex(),
        revision=value.revision,
        create_time=time(draft.create_time),
        update_time=time(value.update_time),
        delete_time=time(value.delete_time),
        created_by=value.created_by,
        updated_by=value.updated_by,
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
        metadata=struct(value.metadata),
        create_time=time(value.create_time),
        created_by=value.created_by,
    )
