"""Reads of the event log from a position up to the snapshot horizon, and never beyond it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein_memory.errors import PositionInvalid
from skein_memory.events.position import START, Change, EventFilter, Position, last_position_before
from skein_memory.queries import QUERIES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    import asyncpg

    from skein_kit.database.transactions import Database

# Rows that one page scans at most.
_SCAN_BATCH_SIZE = 5000
_BATCH_SIZE = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class EventBatch:
    """Some of the log, in order."""

    changes: Sequence[Change]
    # All changes up to here were read; later ones have higher positions.
    position: Position
    # There is nothing else yet.
    is_all: bool


class EventStore:
    """Reads the event log."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def horizon(self, tenant_id: UUID) -> Position:
        """Return the position before which no change can appear any more."""
        horizon, _ = await self._read(tenant_id, START, "", 0)
        return last_position_before(horizon)

    async def read_after(self, tenant_id: UUID, position: Position, count: int) -> EventBatch:
        """Read up to `count` changes after a position. Raises PositionInvalid for a position in the future."""
        horizon, changes = await self._read(tenant_id, position, "", count)
        is_all = len(changes) < count
        return EventBatch(
            changes=changes, position=last_position_before(horizon) if is_all else changes[-1].position, is_all=is_all
        )

    async def list_after(
        self, tenant_id: UUID, position: Position, event_filter: EventFilter, count: int
    ) -> EventBatch:
        """Read up to `count` matching changes; fewer, or none, when the scan takes long."""
        found: list[Change] = []
        looked_at = 0
        while True:
            batch_size = count - len(found) + 1 if event_filter.is_empty else _BATCH_SIZE
            horizon, changes = await self._read(tenant_id, position, event_filter.entity_id, batch_size)
            for change in changes:
                if len(found) == count:
                    return EventBatch(changes=found, position=position, is_all=False)
                position = change.position
                if event_filter.matches(change):
                    found.append(change)
            if len(changes) < batch_size:
                return EventBatch(changes=found, position=last_position_before(horizon), is_all=True)
            looked_at += len(changes)
            if looked_at >= _SCAN_BATCH_SIZE:
                return EventBatch(changes=found, position=position, is_all=False)

    async def list_before(
        self, tenant_id: UUID, position: Position, event_filter: EventFilter, count: int
    ) -> EventBatch:
        """Do as `event_filter`, newest first from before a position; the next cursor is the last change's position.

        Of a page that found nothing it is that of the last change that was scanned.
        """
        found: list[Change] = []
        looked_at = 0
        while True:
            batch_size = count - len(found) + 1 if event_filter.is_empty else _BATCH_SIZE
            changes = await self._read_back(tenant_id, position, event_filter.entity_id, batch_size)
            for change in changes:
                if len(found) == count:
                    return EventBatch(changes=found, position=position, is_all=False)
                position = change.position
                if event_filter.matches(change):
                    found.append(change)
            if len(changes) < batch_size:
                return EventBatch(changes=found, position=position, is_all=True)
            looked_at += len(changes)
            if looked_at >= _SCAN_BATCH_SIZE:
                return EventBatch(changes=found, position=position, is_all=False)

    async def _read(self, tenant_id: UUID, position: Position, entity_id: str, count: int) -> tuple[int, list[Change]]:
        """Return the horizon and changes before it, both as one snapshot has them."""
        query = QUERIES["read_changes_of_entity" if entity_id else "read_changes"]
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(query, tenant_id=tenant_id, **_place(position, entity_id, count))
        horizon: int = rows[0]["horizon"]
        if position.transaction >= horizon:
            raise PositionInvalid
        return horizon, [_change(row) for row in rows if row["change_id"] is not None]

    async def _read_back(self, tenant_id: UUID, position: Position, entity_id: str, count: int) -> list[Change]:
        query = QUERIES["read_changes_of_entity_back" if entity_id else "read_changes_back"]
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(query, tenant_id=tenant_id, **_place(position, entity_id, count))
        return [_change(row) for row in rows if row["change_id"] is not None]


def _place(position: Position, entity_id: str, count: int) -> dict[str, object]:
    keys: dict[str, object] = {"transaction": position.transaction, "change_id": position.change_id, "count": count}
    return keys | ({"entity_id": entity_id} if entity_id else {})


def _change(row: asyncpg.Record) -> Change:
    return Change(
        position=Position(row["transaction"], row["change_id"]),
        event_type=row["event_type"],
        entity_type=row["entity_type"],
        entity_id=row["entity_id"],
        summary=row["summary"],
        payload=row["payload"],
        principal=row["principal"],
        create_time=row["create_time"],
    )
