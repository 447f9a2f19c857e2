"""The worker's part: the trust of what derives from changed sources, computed again step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from skein_kit.database.transactions import Database, Transaction
from skein_kit.text.source_keys import MessageAuthors, source_key
from skein_memory.lineage import store
from skein_memory.memories import oldest
from skein_memory.queries import QUERIES

# Memories that one statement finds and computes, and those of one transaction with what derives from them.
_STEP_MEMORIES = 200
_MAX_STEP_MEMORIES = 1000
# Messages that one step looks through for those of an author.
_STEP_MESSAGES = 2000
# Different principals, sources and agents of a tenant's memories. Of more of them all memories are computed again.
_MAX_NAMES = 2000


@dataclass(frozen=True, kw_only=True, slots=True)
class RescoreStep:
    """What a step of the work computed; `has_more` when there may be more to do."""

    rescored_count: int = 0
    changed_count: int = 0
    has_more: bool = False


class TrustRescorer:
    """Does the work that changes of sources noted."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def step(self, tenant_id: UUID, *, at: datetime) -> RescoreStep:
        """Do a bounded part of a tenant's work in one transaction; the next step continues."""
        async with self._database.transaction(tenant_id) as tx:
            work = await tx.row(QUERIES["lock_rescore"], tenant_id=tenant_id)
            if work is None:
                return RescoreStep()
            if work["memory_id"] == store.MESSAGES:
                return await _note_messages(tx, tenant_id, work)
            memory_ids, is_all = await _find(tx, tenant_id, work)
            if not await _lock(tx, tenant_id, memory_ids):
                # A writer changes one of them. To wait for it while this row is locked might be a deadlock.
                return RescoreStep()
            changed_ids, cut_sources = await store.rescore_with_cuts(tx, tenant_id, memory_ids, at=at)
            rescored_count, changed_count = len(memory_ids), len(changed_ids)
            if is_all:
                # The stored trust at a cut end may be that before the rating: compute these again after all others.
                await store.note(tx, tenant_id, cut_sources)
            else:
                derived_count, changed_derived_count = await _rescore_derived(tx, tenant_id, memory_ids, at=at)
                rescored_count, changed_count = rescored_count + derived_count, changed_count + changed_derived_count
            await _advance(tx, tenant_id, work, None if len(memory_ids) < _STEP_MEMORIES else memory_ids[-1])
        return RescoreStep(rescored_count=rescored_count, changed_count=changed_count, has_more=True)


async def _find(tx: Transaction, tenant_id: UUID, work: asyncpg.Record) -> tuple[list[UUID], bool]:
    """Return the next memories of a row of the work, in order, and whether they are of all the tenant's."""
    values: dict[str, object] = {"tenant_id": tenant_id, "after_id": work["after_id"], "count": _STEP_MEMORIES}
    query = "find_derived"
    if work["source_key"]:
        names = await _names(tx, tenant_id, work["source_key"])
        query = "walk_memory_ids" if names is None else "find_made_by"
        values |= {} if names is None else {"source_key": work["source_key"], **names}
    elif work["memory_id"] == store.ALL_MEMORIES:
        query = "walk_memory_ids"
    else:
        values["source_id"] = work["memory_id"]
    rows = await tx.rows(QUERIES[query], **values)
    return [row["memory_id"] for row in rows], query == "walk_memory_ids"


async def _names(tx: Transaction, tenant_id: UUID, key: str) -> dict[str, object] | None:
    """Return the principals, sources and agents of memories that a rated name stands for, as they are written.

    The id is one before the first memory. None when the tenant has too many different ones to look through.
    """
    before_first_id = await oldest.skip_empty_months(tx, tenant_id, UUID(int=0))
    rows = await tx.rows(
        QUERIES["list_names"], tenant_id=tenant_id, before_first_id=before_first_id, count=_MAX_NAMES + 1
    )
    if len(rows) > _MAX_NAMES:
        return None
    names: dict[str, list[str]] = {"created_by": [], "source": [], "source_agent": []}
    for row in rows:
        if source_key(row["name"]) == key:
            names[row["field"]].append(row["name"])
    return {
        "creators": names["created_by"],
        "sources": names["source"],
        "source_agents": names["source_agent"],
        "before_first_id": before_first_id,
    }


async def _note_messages(tx: Transaction, tenant_id: UUID, work: asyncpg.Record) -> RescoreStep:
    """Find which messages that memories derive from have a rated author, and note these."""
    rows = await tx.rows(
        QUERIES["walk_message_sources"], tenant_id=tenant_id, after_id=work["after_id"], count=_STEP_MESSAGES
    )
    message_ids = [row["source_id"] for row in rows]
    messages = await tx.rows(QUERIES["read_lineage_messages"], tenant_id=tenant_id, message_ids=message_ids)
    await store.note(
        tx,
        tenant_id,
        [row["message_id"] for row in messages if work["source_key"] in MessageAuthors.of_row(row).keys],
    )
    await _advance(tx, tenant_id, work, None if len(message_ids) < _STEP_MESSAGES else message_ids[-1])
    return RescoreStep(has_more=True)


async def _rescore_derived(
    tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID], *, at: datetime
) -> tuple[int, int]:
    """Compute what derives from memories, level by level; note what is too much for one transaction, or locked.

    Return how many were computed, and how many changed. Where a source did not change, the ends of its chains may have,
    so what derives from it is computed all the same.
    """
    seen, frontier, changed_count = set(memory_ids), list(memory_ids), 0
    while frontier:
        rows = await tx.rows(
            QUERIES["find_derived_of_some"], tenant_id=tenant_id, source_ids=frontier, count=_STEP_MEMORIES + 1
        )
        derived = [row["memory_id"] for row in rows if row["memory_id"] not in seen]
        is_bounded = len(rows) <= _STEP_MEMORIES and len(seen) + len(derived) <= _MAX_STEP_MEMORIES
        if not is_bounded or not await _lock(tx, tenant_id, derived):
            await store.note_used(tx, tenant_id, frontier)
            break
        changed_count += len(await store.rescore(tx, tenant_id, derived, at=at))
        seen.update(derived)
        frontier = derived
    return len(seen) - len(memory_ids), changed_count


async def _lock(tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID]) -> bool:
    """Lock memories that no other transaction has locked; return whether these are all."""
    if not memory_ids:
        return True
    locked = await tx.rows(QUERIES["lock_unlocked"], tenant_id=tenant_id, memory_ids=list(memory_ids))
    return len(locked) == len(memory_ids)


async def _advance(tx: Transaction, tenant_id: UUID, work: asyncpg.Record, after_id: UUID | None) -> None:
    """Store how far a row of the work has come; None: it is done."""
    key = {"tenant_id": tenant_id, "memory_id": work["memory_id"], "source_key": work["source_key"]}
    if after_id is None:
        await tx.execute(QUERIES["delete_rescore"], **key)
    else:
        await tx.execute(QUERIES["continue_rescore"], after_id=after_id, **key)
