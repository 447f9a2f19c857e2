"""Events of webhooks in the log, and the end of the webhooks of an application's grant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_memory.events import writer
from skein_memory.events.model import Event
from skein_memory.queries import QUERIES

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from skein_kit.database.transactions import Transaction


async def record_watch_event(
    tx: Transaction, tenant_id: UUID, kind: str, watch_id: UUID, *, at: datetime, by: str
) -> None:
    """Record what happened to a webhook."""
    event = Event(type=kind, entity_type="watch", entity_id=str(watch_id), summary=kind.replace("_", " "))
    await writer.insert_events(tx, tenant_id, [event], at=at, by=by)


async def end_watches_with_grants(tx: Transaction, tenant_id: UUID, at: datetime) -> None:
    """Disable the webhooks of an ended grant, before anything is queued or sent for them."""
    for row in await tx.rows(QUERIES["disable_watches_of_ended_grants"], tenant_id=tenant_id, at=at):
        await record_watch_event(tx, tenant_id, "watch_disabled", row["watch_id"], at=at, by="system:worker")
