"""Capacities of levels: the least important memories of a full level are demoted or evicted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from uuid import UUID

from skein_kit.database.transactions import Transaction
from skein_kit.policies.store import Policy
from skein_memory.memories import rows as memory_rows
from skein_memory.memories import writes
from skein_memory.memories.model import LEVELS, Memory, capacity, demote_or_hide
from skein_memory.queries import QUERIES

# Memories that one transaction demotes from one level.
BATCH_SIZE = 100


async def enforce_capacities(
    tx: Transaction, tenant_id: UUID, policy: Policy, full_levels: Collection[str], *, at: datetime, by: str
) -> int:
    """Demote memories beyond the capacities of levels, the highest first: the next level may then be over capacity.

    `full_levels` are the levels with new memories. Nothing happens unless the tenant's levels are capped. Vectors stay,
    because the searched text does not change. Return how many memories moved.
    """
    moved_count, levels = 0, set(full_levels) if policy.enforce_level_capacities else set()
    for index, level in enumerate(LEVELS):
        if level not in levels:
            continue
        rows = await tx.rows(
            QUERIES["list_over_capacity"],
            tenant_id=tenant_id,
            level=level,
            capacity=capacity(policy, level),
            at=at,
            count=BATCH_SIZE,
        )
        for memory in await _lock_unlocked(tx, tenant_id, [row["memory_id"] for row in rows]):
            if memory.draft.level != level or memory.draft.archive_time is not None:
                continue
            after, event = demote_or_hide(memory, at=at, by=by)
            await writes.update_memory(tx, tenant_id, memory, after, at=at, event=event)
            moved_count += 1
        if rows:
            levels.update(LEVELS[index + 1 : index + 2])
    return moved_count


async def evict_least_important(
    tx: Transaction, tenant_id: UUID, new_memories: Sequence[Memory], limit: int, *, at: datetime, by: str
) -> int:
    """Delete as many memories as the quota is exceeded by, none more important than any new one; return how many.

    They are deleted softly, and can be undeleted in exchange for another memory. Return 0, with nothing
    done, when there are not enough.
    """
    row = await tx.row(QUERIES["count_memories"], tenant_id=tenant_id)
    memory_count = 0 if row is None else row["used"]
    excess = min(max(1, memory_count - limit), len(new_memories))
    new_ids = {memory.memory_id for memory in new_memories}
    rows = await tx.rows(
        QUERIES["list_least_important"],
        tenant_id=tenant_id,
        importance=min(memory.draft.importance for memory in new_memories),
        # Some may be locked by others, and some are the new memories themselves.
        count=2 * excess + len(new_ids),
    )
    candidates = [row["memory_id"] for row in rows if row["memory_id"] not in new_ids]
    locked_memories = {memory.memory_id: memory for memory in await _lock_unlocked(tx, tenant_id, candidates)}
    memories = [locked_memories[memory_id] for memory_id in candidates if memory_id in locked_memories][:excess]
    if len(memories) < excess:
        return 0
    for memory in memories:
        await writes.update_memory(tx, tenant_id, memory, memory.delete(at=at, by=by), at=at, event="memory_deleted")
    return excess


async def _lock_unlocked(tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[Memory]:
    """Return those of some memories that no other transaction has locked; locked ones are skipped, not waited for."""
    if not memory_ids:
        return []
    rows = await tx.rows(QUERIES["lock_free_memories"], tenant_id=tenant_id, memory_ids=list(memory_ids))
    memories = await memory_rows.read_memories(tx, tenant_id, [row["memory_id"] for row in rows])
    return [memory for memory in memories.values() if memory.is_active]
