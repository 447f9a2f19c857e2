"""Scalar properties of memories as rows, an index for lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.database import batch_insert
from skein_kit.database.batch_insert import InsertRows
from skein_kit.filters.fields import properties_of
from skein_memory.queries import QUERIES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from skein_kit.database.transactions import Transaction
    from skein_memory.memories.model import Memory


def rows(memories: Sequence[Memory]) -> InsertRows:
    """Return what names the properties of memories."""
    return InsertRows(
        QUERIES["insert_properties"],
        [
            {"memory_id": memory.memory_id, "name": name, "value": value}
            for memory in memories
            for name, value in properties_of(memory.draft.metadata, memory.draft.data)
        ],
    )


async def replace(tx: Transaction, tenant_id: UUID, before: Memory, after: Memory) -> None:
    """Update the properties of a memory."""
    was = properties_of(before.draft.metadata, before.draft.data)
    if was != properties_of(after.draft.metadata, after.draft.data):
        await tx.execute(QUERIES["delete_properties"], tenant_id=tenant_id, memory_id=after.memory_id)
        await batch_insert.insert_batch(tx, tenant_id, [rows([after])])
