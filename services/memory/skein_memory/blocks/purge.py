"""Purges of blocks, by id or by subject: rows, revisions and every copy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from skein_kit.calls.call import current_space_ids
from skein_kit.database.transactions import Transaction
from skein_kit.idempotency.store import LIFETIME
from skein_kit.identity.spaces import ALL_SPACES
from skein_memory.blocks.convert import block_prefix
from skein_memory.events import writer
from skein_memory.events.model import Event
from skein_memory.queries import QUERIES
from skein_memory.tombstones import store as tombstones


async def list_blocks_of_subject(
    tx: Transaction, tenant_id: UUID, subject_id: str, *, after: str, count: int
) -> tuple[list[str], str | None]:
    """Return blocks that are or were about a person, in the order of their ids, and the next cursor."""
    rows = await tx.rows(
        QUERIES["find_blocks_of_subject"],
        tenant_id=tenant_id,
        subject_id=subject_id,
        after_id=after,
        count=count + 1,
    )
    ids: list[str] = [row["block_id"] for row in rows[:count]]
    return ids, ids[-1] if len(rows) > count else None


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockPurge:
    """The purged blocks, the number of active ones among them, and the number of rows by table."""

    block_ids: list[str]
    active_count: int
    counts: Mapping[str, int]


async def purge_blocks(
    tx: Transaction,
    tenant_id: UUID,
    subject_id: str | None,
    block_ids: Sequence[str],
    receipt_id: UUID,
    *,
    at: datetime,
    by: str,
) -> BlockPurge:
    """Remove blocks about a person, and of other blocks the revisions that were about that person.

    Copies in snapshots are purged of all of them, because a copy does not show its subject. Without a person all blocks
    are purged. Where the call reaches all spaces, only the blocks of those with something about the person are touched:
    a block of the same id in another space is another block.
    """
    await tx.stop_history()
    if current_space_ids() != ALL_SPACES:
        return await _purge_visible(tx, tenant_id, subject_id, block_ids, receipt_id, at=at, by=by)
    rows = await tx.rows(
        QUERIES["find_spaces_of_blocks"], tenant_id=tenant_id, subject_id=subject_id or "", block_ids=list(block_ids)
    )
    by_space: dict[UUID, list[str]] = {}
    for row in rows:
        by_space.setdefault(row["space_id"], []).append(row["block_id"])
    parts: list[BlockPurge] = []
    for space_id, ids in by_space.items():
        await tx.set_spaces([space_id])
        parts.append(await _purge_visible(tx, tenant_id, subject_id, ids, receipt_id, at=at, by=by))
    await tx.set_spaces(None)
    return BlockPurge(
        block_ids=[block_id for part in parts for block_id in part.block_ids],
        active_count=sum(part.active_count for part in parts),
        counts=sum((Counter(part.counts) for part in parts), Counter()),
    )


async def _purge_visible(
    tx: Transaction,
    tenant_id: UUID,
    subject_id: str | None,
    block_ids: Sequence[str],
    receipt_id: UUID,
    *,
    at: datetime,
    by: str,
) -> BlockPurge:
    # Snapshots lock the blocks that they copy: after this lock, every copy is committed and can be deleted.
    rows = await tx.rows(QUERIES["lock_blocks"], tenant_id=tenant_id, block_ids=list(block_ids))
    purged_rows = [row for row in rows if subject_id is None or row["subject_id"] == subject_id]
    purged_ids: list[str] = [row["block_id"] for row in purged_rows]
    keys = {"tenant_id": tenant_id, "block_ids": list(block_ids)}
    counts = {
        "memory.revisions": await tx.execute(
            QUERIES["purge_memory_block_revisions"], own_ids=purged_ids, subject_id=subject_id or "", **keys
        ),
        "memory.snapshot_items": await tx.execute(QUERIES["purge_memory_block_copies"], **keys),
        "memory.requests": await tx.execute(
            QUERIES["clear_block_responses"],
            tenant_id=tenant_id,
            since_time=at - LIFETIME,
            names=[block_prefix(block_id) for block_id in block_ids],
        ),
    }
    if purged_ids:
        await tombstones.write_blocks(tx, tenant_id, purged_ids, at=at)
        purged_keys = {"tenant_id": tenant_id, "block_ids": purged_ids}
        counts["memory.block_agents"] = await tx.execute(QUERIES["purge_memory_block_agents"], **purged_keys)
        counts["memory.blocks"] = await tx.execute(QUERIES["purge_memory_blocks"], **purged_keys)
        await writer.insert_events(
            tx, tenant_id, [_purge_event(block_id, receipt_id) for block_id in purged_ids], at=at, by=by
        )
    counts["memory.block_agents_history"] = await tx.execute(
        QUERIES["purge_memory_block_agents_history"], own_ids=purged_ids, subject_id=subject_id or "", **keys
    )
    return BlockPurge(
        block_ids=purged_ids,
        active_count=sum(row["is_active"] for row in purged_rows),
        counts={table: count for table, count in counts.items() if count},
    )


def _purge_event(block_id: str, receipt_id: UUID) -> Event:
    return Event(
        type="block_purged",
        entity_type="block",
        entity_id=block_id,
        summary="block purged",
        payload={"receipt_id": str(receipt_id)},
    )
