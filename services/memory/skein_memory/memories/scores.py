"""Memories with their scores, computed in the transaction that reads the memories."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from skein_memory.queries import QUERIES
from skein_memory.scoring.model import MemoryScores, ScoreInputs, scores_of, source_key
from skein_memory.scoring.store import NOTHING, read_score_inputs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from skein_kit.database.transactions import Transaction
    from skein_kit.policies.store import Policies
    from skein_memory.memories.model import Memory


async def with_scores(
    tx: Transaction, tenant_id: UUID, policies: Policies, memories: Sequence[Memory], *, at: datetime
) -> list[Memory]:
    """Return memories, in order, with their scores at the time `at`."""
    if not memories:
        return []
    inputs = await read_score_inputs(tx, tenant_id, memories)
    formula = (await policies.of(tx, tenant_id)).importance_formula
    return [_with_scores(memory, inputs.get(memory.memory_id, NOTHING), formula, at) for memory in memories]


async def with_scores_of_new(
    tx: Transaction, tenant_id: UUID, policies: Policies, memories: Sequence[Memory], *, at: datetime
) -> list[Memory]:
    """Return new memories with their scores: they have no links and no accesses yet."""
    keys = sorted({source_key(memory.draft.source) for memory in memories} - {""})
    trust: Mapping[str, float] = {}
    if keys:
        rows = await tx.rows(QUERIES["read_trust"], tenant_id=tenant_id, source_keys=keys)
        trust = {row["source_key"]: row["trust"] for row in rows}
    formula = (await policies.of(tx, tenant_id)).importance_formula
    return [
        _with_scores(memory, ScoreInputs(trust=trust.get(source_key(memory.draft.source))), formula, at)
        for memory in memories
    ]


def _with_scores(memory: Memory, inputs: ScoreInputs, formula: str, at: datetime) -> Memory:
    return replace(
        memory,
        memory_scores=MemoryScores(
            scores=scores_of(memory, inputs, formula=formula, at=at),
            access_count=inputs.access_count,
            last_access_time=inputs.last_access_time,
        ),
    )
