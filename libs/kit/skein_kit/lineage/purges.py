"""Notes which memories were made of a person's memories and messages, for the purge of the person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.database.named_queries import Queries

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from skein_kit.database.transactions import Transaction

_QUERIES = Queries.load("skein_kit")


async def note_made_of(tx: Transaction, tenant_id: UUID, source_ids: Sequence[UUID]) -> None:
    """Note what was made of messages and memories that are purged with a person, now or formerly."""
    rows = await tx.rows(_QUERIES["find_made_of"], tenant_id=tenant_id, source_ids=list(source_ids))
    await tx.insert(
        _QUERIES["note_lineage_purges"],
        tenant_id,
        [{"memory_id": id_} for id_ in sorted(row["memory_id"] for row in rows)],
    )
