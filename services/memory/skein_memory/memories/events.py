"""Events of memories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_memory.events.model import Event

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from skein_memory.memories.model import Memory


def memory_event(kind: str, memory: Memory, fields: Sequence[str] = ()) -> Event:
    """Return the event of a memory that was created, changed, deleted, ...; `fields` are those that changed."""
    verb = kind.removeprefix("memory_").replace("_", " ")
    payload: dict[str, object] = {"type": memory.draft.type, "revision": memory.revision}
    if fields:
        payload["fields"] = list(fields)
    return Event(
        type=kind,
        entity_type="memory",
        entity_id=str(memory.memory_id),
        summary=f"{memory.draft.type} {verb}{': ' if fields else ''}{', '.join(fields)}",
        payload=payload,
    )


def purge_events(memory_ids: Sequence[UUID], receipt_id: UUID, *, cause: str = "") -> list[Event]:
    """Return the events of purged memories; `cause` is set where no caller requested the purge."""
    payload = {"receipt_id": str(receipt_id)}
    if cause:
        payload["cause"] = cause
    return [
        Event(
            type="memory_forget_hard",
            entity_type="memory",
            entity_id=str(memory_id),
            summary=f"{cause} memory purged".strip(),
            payload=payload,
        )
        for memory_id in memory_ids
    ]
