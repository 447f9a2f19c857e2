"""Memories read from their rows, by id, with their scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

import asyncpg

from skein_kit.admission.processor_time import run_by_size, with_pauses
from skein_kit.database.transactions import Transaction
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
