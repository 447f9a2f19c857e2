"""Who wrote the text that a memory has again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_memory.lineage.store import put_principal, rescore_with_derived
from skein_memory.queries import QUERIES

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from skein_kit.database.transactions import Transaction
    from skein_memory.memories.model import Memory


async def restore_writer(tx: Transaction, tenant_id: UUID, after: Memory, *, at: datetime) -> None:
    """Store for a memory that has a former text again who wrote the text, in place of who restored it."""
    draft, key = after.draft, {"tenant_id": tenant_id, "memory_id": after.memory_id}
    writer = await tx.value(
        QUERIES["find_former_writer"], **key, type=draft.type, content=draft.content, data=draft.data
    )
    if writer is None:
        return
    if writer == after.created_by:
        is_due = bool(await tx.execute(QUERIES["delete_writer"], **key))
    else:
        is_due = await put_principal(tx, tenant_id, after.memory_id, "writer", writer)
    if is_due:
        await rescore_with_derived(tx, tenant_id, [after.memory_id], at=at)
