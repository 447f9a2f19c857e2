"""A memory as conditions see it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skein_memory.memories import Memory

_PLAIN = (
    "external_id", "type", "title", "key", "content", "tags", "source", "source_agent", "agent_id", "subject_id",
    "session_id", "scope", "level", "confidence", "importance", "expire_time", "archive_time", "valid_from_time",
    "valid_to_time", "create_time",
)  # fmt: skip


def fields_of(memory: Memory) -> dict[str, object]:
    """Return a memory's fields as `skein_kit.filtering.holds` takes them."""
    draft = memory.draft
    return {
        **{name: getattr(draft, name) for name in _PLAIN},
        "memory_id": str(memory.memory_id),
        "metadata": json.loads(draft.metadata) if draft.metadata else {},
        "data": json.loads(draft.data) if draft.data else {},
        "content_hash": draft.content_hash.hex(),
        "is_active": memory.is_active,
        "revision": memory.revision,
        "update_time": memory.update_time,
        "delete_time": memory.delete_time,
        "created_by": memory.created_by,
        "updated_by": memory.updated_by,
    }
