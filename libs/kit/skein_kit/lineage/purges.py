"""Notes which memories were made of a person's memories and messages, or name them, for the purge of the person."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Transaction

_QUERIES = Queries.load("skein_kit")


async def note_made_of(tx: Transaction, tenant_id: UUID, source_ids: Sequence[UUID]) -> None:
    """Note what was made of messages and memories that are purged with a person, now or formerly."""
    rows = await tx.rows(_QUERIES["find_made_of"], tenant_id=tenant_id, source_ids=list(source_ids))
    await note(tx, tenant_id, [row["memory_id"] for row in rows])


async def note(tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Note memories that the purge of a person follows."""
    rows = [{"memory_id": memory_id} for memory_id in sorted(set(memory_ids))]
    await tx.insert(_QUERIES["note_lineage_purges"], tenant_id, rows)
