"""Inputs of scores, read in the transaction that reads the memories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import asyncpg

from skein_kit.admission.processor_time import run_by_size, with_pauses
from skein_kit.database.transactions import Transaction
from skein_kit.text.source_keys import source_key
from skein_memory.memories.model import Memory
from skein_memory.queries import QUERIES
from skein_memory.scoring.model import CONTRADICTS, MAX_LINKS_COUNTED, ScoreInputs

NO_INPUTS = ScoreInputs()
# What the inputs of a memory cost, in bytes of text (`run_by_size`).
_ROW_BYTES = 512


async def read_score_inputs(tx: Transaction, tenant_id: UUID, memories: Sequence[Memory]) -> dict[UUID, ScoreInputs]:
    """Read the inputs of formulas: one query, and two more for memories with very many links."""
    if not memories:
        return {}
    rows = await tx.rows(
        QUERIES["read_score_inputs"],
        tenant_id=tenant_id,
        memory_ids=[memory.memory_id for memory in memories],
        source_keys=[source_key(memory.draft.source) for memory in memories],
        most=MAX_LINKS_COUNTED,
    )
    inputs = await run_by_size(len(rows) * _ROW_BYTES, _inputs_by_id, rows)
    truncated_ids = [
        row["memory_id"] for row in rows if MAX_LINKS_COUNTED in (len(row["incoming"]), len(row["outgoing"]))
    ]
    if truncated_ids:
        # The first query reads an arbitrary part of these links, so they are counted by relation.
        relation_rows = await tx.rows(
            QUERIES["count_relations"], tenant_id=tenant_id, memory_ids=truncated_ids, most=MAX_LINKS_COUNTED
        )
        totals = await tx.rows(
            QUERIES["count_links"], tenant_id=tenant_id, memory_ids=truncated_ids, most=MAX_LINKS_COUNTED
        )
        links = {row["memory_id"]: row["incoming"] + row["outgoing"] for row in totals}
        relations_by_id: dict[UUID, list[asyncpg.Record]] = {}
        for row in relation_rows:
            relations_by_id.setdefault(row["memory_id"], []).append(row)
        for memory_id in truncated_ids:
            relations = relations_by_id.get(memory_id, [])
            inputs[memory_id] = replace(
                inputs[memory_id],
                incoming={row["relation"]: row["incoming"] for row in relations},
                outgoing={row["relation"]: row["outgoing"] for row in relations},
                links=links[memory_id],
            )
    return inputs


def _inputs_by_id(rows: Sequence[asyncpg.Record]) -> dict[UUID, ScoreInputs]:
    return {
        row["memory_id"]: ScoreInputs(
            incoming=Counter(row["incoming"]),
            outgoing=Counter(row["outgoing"]),
            links=sum(relation != CONTRADICTS for relation in (*row["incoming"], *row["outgoing"])),
            trust=row["trust"],
            access_count=row["access_count"] or 0,
            last_access_time=row["last_access_time"],
        )
        for row in with_pauses(rows)
    }
