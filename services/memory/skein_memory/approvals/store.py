"""Writes that wait for approval, in a table of their own that no search, list or export reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from uuid import UUID

import asyncpg

from skein_kit.database.transactions import Database, Transaction
from skein_kit.database.tx_options import READ_ONLY
from skein_kit.policies.store import PolicyCache
from skein_memory.approvals.model import MAX_PENDING, PendingMemory, pending_event
from skein_memory.errors import PendingMemoriesFull, PendingMemoryNotFound
from skein_memory.events import writer
from skein_memory.events.model import Event
from skein_memory.memories import memory_type, names
from skein_memory.memories import rows as memory_rows
from skein_memory.memories.model import EXTRACTOR_PREFIX, FactKey, Memory
from skein_memory.queries import QUERIES

_FIRST = UUID(int=0)
# Expired writes that one transaction removes.
_EXPIRED_BATCH_SIZE = 200


class ApprovalStore:
    """Reads and writes what waits for approval."""

    def __init__(self, database: Database, policies: PolicyCache) -> None:
        self._database = database
        self._policies = policies

    async def expire_time(self, tx: Transaction, tenant_id: UUID, at: datetime) -> datetime:
        """Return when a write of the time `at` expires, by the tenant's policy."""
        return at + timedelta(days=(await self._policies.get(tx, tenant_id)).approval_expiry_days)

    async def add(
        self, tx: Transaction, tenant_id: UUID, pending: Sequence[PendingMemory], types: Sequence[str], *, at: datetime
    ) -> None:
        """Store writes of one source that wait, with their events; `types` are those of their memories, in order.

        Refused facts have no events. Raises MemoryTypeNotAllowed and PendingMemoriesFull.
        """
        memory_type.check_type_allowed(await self._policies.get(tx, tenant_id), types)
        is_refused = pending[0].refusal_reason is not None
        count = await tx.value(
            QUERIES["count_pending_memories"], tenant_id=tenant_id, is_refused=is_refused, count=MAX_PENDING
        )
        if count + len(pending) > MAX_PENDING:
            raise PendingMemoriesFull(limit=MAX_PENDING)
        await tx.insert(QUERIES["insert_pending_memories"], tenant_id, [asdict(write) for write in pending])
        if is_refused:
            return
        events = [pending_event("memory_pending", write.pending_id, write.memory_id) for write in pending]
        await writer.insert_events(tx, tenant_id, events, at=at, by=pending[0].created_by)

    async def list_pending(
        self, tenant_id: UUID, *, after: UUID | None, count: int, at: datetime, is_refused: bool = False
    ) -> list[PendingMemory]:
        """Read up to `count` writes that wait, or refused facts, after the id `after`, oldest first."""
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            rows = await tx.rows(
                QUERIES["list_pending_memories"],
                tenant_id=tenant_id,
                after=after or _FIRST,
                is_refused=is_refused,
                count=count,
                at=at,
            )
        return [_pending(row) for row in rows]

    async def read_memories(self, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, Memory]:
        """Read the memories that changes apply to; missing ones are left out."""
        if not memory_ids:
            return {}
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            return await memory_rows.read_memories(tx, tenant_id, memory_ids)

    async def visible_key_holders(
        self, tenant_id: UUID, keys: Sequence[FactKey], *, at: datetime
    ) -> dict[FactKey | None, UUID]:
        """Return the facts that have keys; unused keys, and those of expired facts, are left out."""
        if not keys:
            return {}
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            holder_ids = await names.fact_key_holders(tx, tenant_id, keys)
            holders = await memory_rows.read_memories(tx, tenant_id, [*set(holder_ids.values())])
        return {key: id_ for key, id_ in holder_ids.items() if id_ in holders and holders[id_].is_visible(at)}

    async def take(
        self, tx: Transaction, tenant_id: UUID, pending_id: UUID, *, event: str, at: datetime, by: str
    ) -> PendingMemory:
        """Remove a write that waits, or a refused fact, with the event of its decision, and return it.

        A transaction that fails afterwards leaves it waiting. Raises PendingMemoryNotFound.
        """
        row = await tx.row(QUERIES["take_pending_memory"], tenant_id=tenant_id, pending_id=pending_id, at=at)
        if row is None:
            raise PendingMemoryNotFound
        pending = _pending(row)
        await writer.insert_events(
            tx, tenant_id, [pending_event(event, pending.pending_id, pending.memory_id)], at=at, by=by
        )
        return pending

    async def delete_expired(self, tenant_id: UUID, *, at: datetime, by: str) -> int:
        """Remove some of the writes and refused facts that expired; return how many. The next call continues.

        Each write leaves an event.
        """
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(
                QUERIES["delete_expired_pending_memories"], tenant_id=tenant_id, at=at, count=_EXPIRED_BATCH_SIZE
            )
            await writer.insert_events(tx, tenant_id, _events("memory_pending_expired", rows), at=at, by=by)
        return len(rows)

    async def find_proposed(self, tenant_id: UUID, message_id: UUID) -> list[asyncpg.Record]:
        """Read what extractors proposed of a message, in whatever space: pending_id, space_id, content, create_time."""
        async with self._database.transaction(tenant_id, READ_ONLY) as tx, tx.reading_all_spaces():
            return await tx.rows(
                QUERIES["find_proposed"], tenant_id=tenant_id, message_id=message_id, authors=f"{EXTRACTOR_PREFIX}%"
            )

    async def withdraw(self, tenant_id: UUID, proposed: Sequence[asyncpg.Record], *, at: datetime, by: str) -> None:
        """Remove some rows of `find_proposed`; each write that waits is refused by an event in its space."""
        if not proposed:
            return
        ids_of: dict[UUID, list[UUID]] = {}
        for row in proposed:
            ids_of.setdefault(row["space_id"], []).append(row["pending_id"])
        async with self._database.transaction(tenant_id) as tx:
            for space_id, pending_ids in sorted(ids_of.items()):
                await tx.set_spaces([space_id])
                rows = await tx.rows(QUERIES["withdraw_pending_memories"], tenant_id=tenant_id, pending_ids=pending_ids)
                await writer.insert_events(tx, tenant_id, _events("memory_refused", rows), at=at, by=by)


def _events(kind: str, rows: Sequence[asyncpg.Record]) -> list[Event]:
    """Return the events of removed writes; refused facts have none."""
    return [pending_event(kind, row["pending_id"], row["memory_id"]) for row in rows if row["refusal_reason"] is None]


def _pending(row: asyncpg.Record) -> PendingMemory:
    masks = {name: None if row[name] is None else tuple(row[name]) for name in ("update_mask", "conflict_mask")}
    return PendingMemory(**{**dict(row), **masks, "source_ids": tuple(row["source_ids"])})
