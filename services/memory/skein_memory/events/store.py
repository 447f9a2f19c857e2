"""Reads of the event log from a position up to the snapshot horizon, and never beyond it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import asyncpg

from skein_kit.database.transactions import Database, Transaction
from skein_memory.errors import PositionInvalid
from skein_memory.events.model import Change, EventFilter, Position, last_position_before
from skein_memory.queries import QUERIES

# Rows that one page scans at most.
_SCAN_BATCH_SIZE = 5000
_BATCH_SIZE = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class EventBatch:
    """Some of the log, in order."""

    changes: Sequence[Change]
    # All changes up to here were read; later ones have higher positions.
    position: Position
    # There are no later changes yet.
    is_all: bool


class EventStore:
    """Reads the event log."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def for_spaces(self, space_ids: tuple[UUID, ...] | None) -> EventStore:
        """Return a store that reads the events of some spaces; None: of what the current call reaches."""
        return EventStore(self._database.for_spaces(space_ids))

    async def horizon(self, tenant_id: UUID) -> Position:
        """Return the position before which no change can appear any more."""
        async with self._database.transaction(tenant_id) as tx:
            return last_position_before(await read_horizon(tx))

    async def read_after(self, tenant_id: UUID, position: Position, count: int) -> EventBatch:
        """Read up to `count` changes after a position. Raises PositionInvalid for a position in the future."""
        horizon, changes = await self._read(tenant_id, position, "", count)
        is_all = len(changes) < count
        return EventBatch(
            changes=changes, position=last_position_before(horizon) if is_all else changes[-1].position, is_all=is_all
        )

    async def list_changes(
        self, tenant_id: UUID, position: Position, event_filter: EventFilter, count: int, *, newest_first: bool
    ) -> EventBatch:
        """Read up to `count` matching changes after a position, or before it with `newest_first`.

        There are fewer, or none, when the scan takes long. The batch's position is where the next one begins.
        """
        changes: list[Change] = []
        scanned_rows = 0
        while True:
            batch_size = count - len(changes) + 1 if event_filter.is_empty else _BATCH_SIZE
            read = self._read_backward if newest_first else self._read
            horizon, batch = await read(tenant_id, position, event_filter.entity_id, batch_size)
            for change in batch:
                if len(changes) == count:
                    return EventBatch(changes=changes, position=position, is_all=False)
                position = change.position
                if event_filter.matches(change):
                    changes.append(change)
            if len(batch) < batch_size:
                end = position if newest_first else last_position_before(horizon)
                return EventBatch(changes=changes, position=end, is_all=True)
            scanned_rows += len(batch)
            if scanned_rows >= _SCAN_BATCH_SIZE:
                return EventBatch(changes=changes, position=position, is_all=False)

    async def _read(self, tenant_id: UUID, position: Position, entity_id: str, count: int) -> tuple[int, list[Change]]:
        """Return the horizon and changes before it."""
        horizon, changes = await self._read_log(
            "read_changes_of_entity" if entity_id else "read_changes", tenant_id, position, entity_id, count
        )
        if position.transaction >= horizon:
            raise PositionInvalid
        return horizon, changes

    async def _read_backward(
        self, tenant_id: UUID, position: Position, entity_id: str, count: int
    ) -> tuple[int, list[Change]]:
        """Return changes before a position, newest first, and the horizon."""
        return await self._read_log(
            "read_changes_of_entity_back" if entity_id else "read_changes_back", tenant_id, position, entity_id, count
        )

    async def _read_log(
        self, query: str, tenant_id: UUID, position: Position, entity_id: str, count: int
    ) -> tuple[int, list[Change]]:
        async with self._database.transaction(tenant_id) as tx:
            horizon = await read_horizon(tx)
            rows = await tx.rows(
                QUERIES[query],
                tenant_id=tenant_id,
                horizon=horizon,
                **_position_parameters(position, entity_id, count),
            )
        return horizon, [_change(row) for row in rows]


async def read_horizon(tx: Transaction) -> int:
    """Return the oldest open transaction: statements that begin later see all changes of older ones."""
    horizon: int = await tx.value(QUERIES["read_horizon"])
    return horizon


async def position_before_own(tx: Transaction) -> str:
    """Return the position after which the changes of this transaction are found."""
    number: int = await tx.value(QUERIES["read_own_number"])
    return str(last_position_before(number))


def _position_parameters(position: Position, entity_id: str, count: int) -> dict[str, object]:
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
