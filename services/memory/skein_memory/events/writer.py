"""Events and revisions that a transaction writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from skein_kit.database.transactions import Insert, Transaction
from skein_kit.ids import new_ids
from skein_memory.events.model import Event
from skein_memory.queries import QUERIES


@dataclass(frozen=True, kw_only=True, slots=True)
class Revision:
    """An earlier revision of an item other than a memory; `state` is JSON text.

    `kind` is "link", "alias", "source_trust", "conflict" or "block". A purge of its memories
    purges it too, as does the erasure of the subject of a block.
    """

    kind: str
    item_id: str
    revision: int
    state: str
    from_time: datetime
    until_time: datetime
    changed_by: str
    memory_id: UUID | None = None
    other_memory_id: UUID | None = None
    subject_id: str | None = None


async def insert_events(tx: Transaction, tenant_id: UUID, events: Sequence[Event], *, at: datetime, by: str) -> None:
    """Add events to the tenant's log; readers get them in this order after the commit.

    All of them name their spaces, or none does.
    """
    await tx.insert_all(tenant_id, [new_changes(events, at=at, by=by)])


def new_changes(events: Sequence[Event], *, at: datetime, by: str) -> Insert:
    """Return the rows of events, and how to insert them; see `insert_events`."""
    rows: list[dict[str, object]] = [
        {
            "change_id": id_,
            "event_type": event.type,
            "entity_type": event.entity_type,
            "entity_id": event.entity_id,
            "summary": event.summary,
            "payload": _json(event.payload),
            "principal": by,
            "create_time": at,
        }
        for id_, event in zip(new_ids(at, len(events)), events, strict=True)
    ]
    if any(event.space_id for event in events):
        rows = [{**row, "space_id": event.space_id} for row, event in zip(rows, events, strict=True)]
        return QUERIES["insert_changes_in_spaces"], rows
    return QUERIES["insert_changes"], rows


async def insert_revisions(tx: Transaction, tenant_id: UUID, revisions: Sequence[Revision]) -> None:
    """Store the revisions that this transaction replaces."""
    await tx.insert(QUERIES["insert_revisions"], tenant_id, [asdict(revision) for revision in revisions])


async def last_revision(tx: Transaction, tenant_id: UUID, kind: str, item_id: str) -> int:
    """Return the number of the last stored revision of an item; 0 for none.

    An item that is created again after its deletion counts on from there.
    """
    last: int | None = await tx.value(QUERIES["last_revision"], tenant_id=tenant_id, kind=kind, item_id=item_id)
    return last or 0


def _json(payload: Mapping[str, object]) -> str | None:
    return json.dumps(payload, separators=(",", ":")) if payload else None
