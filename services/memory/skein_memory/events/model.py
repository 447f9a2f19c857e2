"""Events, their types and filters, and positions in the log. Events hold ids, fields and principals, never content.

What they tell of is recorded at a time that this module chooses.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple, Self
from uuid import UUID

from skein_kit.errors import FieldInvalid
from skein_memory.errors import PositionInvalid

# After the version that a later call committed meanwhile: that version was readable.
_NEXT_TIME = timedelta(microseconds=1)
# Every type of event in the log: a webhook for another type is rejected.
EVENT_TYPES = frozenset(
    {
        "memory_created", "memory_updated", "memory_deleted", "memory_restored", "memory_archived",
        "memory_promoted", "memory_demoted", "memory_moved",
        "memory_link_created", "memory_link_updated", "memory_link_removed",
        "memory_consolidated", "memory_merged", "memory_purged",
        "memory_reinforced", "memory_decayed",
        "memory_pending", "memory_approved", "memory_refused", "memory_pending_expired",
        "message_pending", "message_approved", "message_refused", "message_pending_expired",
        "memory_conflict_resolved", "memory_entity_resolved", "memory_entity_separated", "memory_source_trust_set",
        "secret_revealed", "tenant_key_rotated",
        "block_created", "block_updated", "block_deleted", "block_restored", "block_attached", "block_detached",
        "block_moved", "block_purged", "page_created", "page_updated", "page_deleted",
        "snapshot_created", "snapshot_restored", "snapshot_deleted", "data_exported", "data_imported",
        "webhook_created", "webhook_updated", "webhook_deleted", "webhook_disabled",
        "archive_created", "archive_restored",
    }
)  # fmt: skip
# The names that MemoryVault gives to the same events; webhooks and filters take them as well.
MEMORYVAULT_EVENT_TYPES: Mapping[str, str] = {
    "memory_saved": "memory_created",
    "memory_forget_soft": "memory_deleted",
    "memory_forget_hard": "memory_purged",
    "link_created": "memory_link_created",
    "link_updated": "memory_link_updated",
    "link_removed": "memory_link_removed",
    "memory_watch_created": "webhook_created",
    "memory_watch_updated": "webhook_updated",
    "memory_watch_deleted": "webhook_deleted",
    "brain_snapshot_created": "snapshot_created",
    "brain_snapshot_restored": "snapshot_restored",
    "brain_data_imported": "data_imported",
}

_LAYOUT = struct.Struct(">q16s")
_LAST_ID = UUID(int=(1 << 128) - 1)


def time_of_next_record(record_time: datetime, at: datetime) -> datetime:
    """Return when a call that began at `at` records the version after one of `record_time`, so that none overlap.

    As in the triggers of tables with history, a version that a later call committed meanwhile is kept.
    """
    return at if record_time <= at else record_time + _NEXT_TIME


def canonical_type(name: str) -> str:
    """Return the name that the event log has for a type of event, which may be MemoryVault's."""
    return MEMORYVAULT_EVENT_TYPES.get(name, name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """An event. `summary` and `payload` name ids, counts and fields, never contents."""

    type: str
    # "memory", "link", "block", "alias", "conflict", "source_trust", "snapshot", "webhook", "page", "message", ...
    entity_type: str
    entity_id: str
    summary: str
    payload: Mapping[str, object] = field(default_factory=dict)
    # None: the space of the transaction. One that sees all spaces names it.
    space_id: UUID | None = None


class Position(NamedTuple):
    """A position in the log; positions have the order of the changes."""

    transaction: int
    change_id: UUID

    @classmethod
    def of(cls, text: str) -> Self:
        """Read a position in the form that callers use. Raises PositionInvalid."""
        try:
            transaction, change_id = _LAYOUT.unpack(base64.b64decode(text, altchars=b"-_", validate=True))
        except (binascii.Error, ValueError, struct.error):
            raise PositionInvalid from None
        if transaction < 0:
            raise PositionInvalid
        return cls(transaction, UUID(bytes=change_id))

    def __str__(self) -> str:
        """Return it in the form that callers use."""
        return base64.b64encode(_LAYOUT.pack(self.transaction, self.change_id.bytes), altchars=b"-_").decode("ascii")


START = Position(0, UUID(int=0))
# After every possible change.
END = Position((1 << 63) - 1, _LAST_ID)


def last_position_before(horizon: int) -> Position:
    """Return the last position before a transaction: no change up to it can appear any more.

    `horizon` is the oldest transaction that was still open.
    """
    return Position(horizon - 1, _LAST_ID)


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """An event with its position in the log."""

    position: Position
    event_type: str
    entity_type: str
    entity_id: str
    summary: str
    # JSON text.
    payload: str | None
    principal: str
    create_time: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class EventFilter:
    """Conditions on changes; an empty field matches all."""

    event_types: frozenset[str] = frozenset()
    entity_type: str = ""
    entity_id: str = ""

    @classmethod
    def of(cls, event_types: Iterable[str], entity_type: str = "", entity_id: str = "") -> Self:
        """Return a filter for types of events, which may have MemoryVault's names. Raises FieldInvalid."""
        names = [canonical_type(name) for name in event_types]
        valid_types = ", ".join(sorted(EVENT_TYPES))
        violations = [
            (f"filter.event_types[{index}]", f"must be one of {valid_types}")
            for index, name in enumerate(names)
            if name not in EVENT_TYPES
        ]
        if violations:
            raise FieldInvalid(violations=violations)
        return cls(event_types=frozenset(names), entity_type=entity_type, entity_id=entity_id)

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is left out."""
        return not (self.event_types or self.entity_type or self.entity_id)

    def matches(self, change: Change) -> bool:
        return (
            (not self.event_types or change.event_type in self.event_types)
            and (not self.entity_type or change.entity_type == self.entity_type)
            and (not self.entity_id or change.entity_id == self.entity_id)
        )
