"""Writes that wait for approval, and their events. No gRPC, no SQL, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from skein_memory.events.model import Event

# Most writes of one tenant that wait, and most refused facts: a source that writes without end fills no disk.
MAX_PENDING = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class PendingMemory:
    """A new memory, or a change of one, that waits for approval; or a refused fact."""

    pending_id: UUID
    # The memory that it becomes or changes.
    memory_id: UUID
    # The fields that a change sets; None for a new memory.
    update_mask: tuple[str, ...] | None
    # The revision that a change applies to; 0: any.
    revision: int
    # A serialized Memory: a new one as a whole, of a change the fields of the mask. Its format is that of the contract,
    # so that numbers of arbitrary JSON keep every digit.
    content: bytes
    # Those of the memory, by which purges select it.
    external_id: str | None
    subject_id: str | None
    session_id: str | None
    memory_agent_id: str | None
    # The agent that wrote it.
    agent_id: str | None
    # The memories and messages that it names as its sources.
    source_ids: tuple[UUID, ...]
    created_by: str
    create_time: datetime
    expire_time: datetime
    # The fields that a new fact sets of one that has its key by the approval; empty: that one stays as it is. None: the
    # approval is refused then.
    conflict_mask: tuple[str, ...] | None = None
    # Why the checker of an extractor refused it; None for a write that waits.
    refusal_reason: str | None = None

    @property
    def is_change(self) -> bool:
        """Return whether it changes a memory that exists."""
        return self.update_mask is not None


def pending_event(kind: str, pending_id: UUID, memory_id: UUID) -> Event:
    """Return the event of a write that waits or was decided on; it names ids alone."""
    verb = {"memory_pending": "waits for approval", "memory_pending_expired": "expired before approval"}.get(
        kind, kind.removeprefix("memory_")
    )
    return Event(
        type=kind,
        entity_type="memory",
        entity_id=str(memory_id),
        summary=f"memory {verb}",
        payload={"pending_id": str(pending_id)},
    )
