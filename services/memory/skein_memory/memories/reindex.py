"""Memories that an older release stored: their search text, hashes and documents are computed again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_memory.memories import rows as memory_rows
from skein_memory.queries import QUERIES

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from skein_kit.database.transactions import Database, Transaction

# Memories of one transaction.
BATCH = 50


class ReindexStore:
    """Brings memories up to date, a bounded number at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def refresh(self, tenant_id: UUID, *, at: datetime, count: int) -> tuple[int, bool]:
        """Reindex up to `count` memories; return how many, and whether there may be more."""
        reindexed = 0
        while reindexed < count:
            batch = min(BATCH, count - reindexed)
            async with self._database.transaction(tenant_id) as tx:
                refreshed = await _refresh_some(tx, tenant_id, at=at, count=batch)
            reindexed += refreshed
            if refreshed < batch:
                return reindexed, False
        return reindexed, True


async def _refresh_some(tx: Transaction, tenant_id: UUID, *, at: datetime, count: int) -> int:
    rows = await tx.rows(QUERIES["lock_outdated"], tenant_id=tenant_id, count=count)
    if not rows:
        return 0
    words_before = {row["memory_id"]: row["words"] for row in rows}
    memories = await memory_rows.read_memories(tx, tenant_id, list(words_before))
    for memory_id, memory in memories.items():
        words = memory.draft.data_text
        await tx.execute(
            QUERIES["update_text"],
            tenant_id=tenant_id,
            memory_id=memory_id,
            words=words,
            content_hash=memory.draft.content_hash,
            fingerprint=memory.draft.fingerprint,
        )
        # The same text keeps its vectors.
        if words != words_before[memory_id]:
            await memory_rows.reindex(tx, tenant_id, memory, at=at)
    return len(rows)
