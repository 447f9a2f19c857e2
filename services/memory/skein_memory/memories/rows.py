"""Memories read from their rows, by id, with their scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from skein_kit.admission.processor_time import run_by_size, with_pauses
from skein_kit.database.transactions import Transaction
from skein_kit.json_values import exact
from skein_kit.policies.store import PolicyCache
from skein_memory.memories.model import DRAFT_FIELDS, Draft, Memory
from skein_memory.queries import QUERIES
from skein_memory.scoring.inputs import NO_INPUTS, read_score_inputs
from skein_memory.scoring.model import score_memory

# What reading or converting a memory costs beside its text, in bytes of text.
_ROW_BYTES = 1024


async def read_memories(tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, Memory]:
    """Read memories by id, deleted ones too; missing ones are left out."""
    rows = await tx.rows(QUERIES["get_memories"], tenant_id=tenant_id, memory_ids=list(memory_ids))
    return await run_by_size(len(rows) * _ROW_BYTES, _by_id, rows)


def _by_id(rows: Sequence[asyncpg.Record]) -> dict[UUID, Memory]:
    return {row["memory_id"]: memory_of(row) for row in with_pauses(rows)}


async def with_scores(
    tx: Transaction, tenant_id: UUID, policies: PolicyCache, memories: Sequence[Memory], *, at: datetime
) -> list[Memory]:
    """Return memories, in order, with their scores at the time `at`."""
    if not memories:
        return []
    inputs = await read_score_inputs(tx, tenant_id, memories)
    formula = (await policies.get(tx, tenant_id)).importance_formula

    def score() -> list[Memory]:
        return [
            score_memory(memory, inputs.get(memory.memory_id, NO_INPUTS), formula, at)
            for memory in with_pauses(memories)
        ]

    return await run_by_size(size_of(memories), score)


def size_of(memories: Iterable[Memory]) -> int:
    """Return about how many bytes memories have, for `run_by_size`."""
    return sum(_ROW_BYTES + len(memory.draft.content) for memory in memories)


def memory_of(row: asyncpg.Record) -> Memory:
    """Read a row of `get_memories`, of a list or of a version."""
    draft_fields = {name: row[name] for name in DRAFT_FIELDS}
    draft_fields["tags"] = tuple(draft_fields["tags"])
    return Memory(
        memory_id=row["memory_id"],
        draft=Draft(**draft_fields),
        revision=row["revision"],
        update_time=row["update_time"],
        record_time=row["record_time"],
        delete_time=row["delete_time"],
        created_by=row["created_by"],
        updated_by=row["updated_by"],
        # A row of a list or of a version has no such column; it is never changed itself.
        needs_reindex=row.get("is_outdated", False),
    )


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
