"""The fields of a memory that filters read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from skein_kit.json_values import exact
from skein_memory.memories.model import DRAFT_FIELDS, Memory

_TIMES = (
    "expire_time", "archive_time", "valid_from_time", "valid_to_time", "create_time", "update_time", "delete_time",
)  # fmt: skip


def fields_of(memory: Memory) -> dict[str, object]:
    """Return a memory's fields as `skein_kit.filters.holds` takes them."""
    draft = memory.draft
    return {
        **{name: getattr(draft, name) for name in DRAFT_FIELDS},
        "memory_id": str(memory.memory_id),
        "metadata": exact.loads(draft.metadata) if draft.metadata else {},
        "data": exact.loads(draft.data) if draft.data else {},
        "content_hash": draft.content_hash.hex(),
        "is_active": memory.is_active,
        "revision": memory.revision,
        "update_time": memory.update_time,
        "delete_time": memory.delete_time,
        "created_by": memory.created_by,
        "updated_by": memory.updated_by,
    }


def fields_of_row(row: Mapping[str, Any], tags: Sequence[str]) -> dict[str, object]:
    """Return the same of a whole row of memory.memories as JSON has it, with its tags beside it."""
    return {
        **row,
        **{name: datetime.fromisoformat(row[name]) for name in _TIMES if row[name] is not None},
        **{name: float(row[name]) for name in ("confidence", "importance")},
        "metadata": row["metadata"] or {},
        "data": row["data"] or {},
        "content_hash": row["content_hash"].removeprefix("\\x"),
        "tags": tags,
    }
