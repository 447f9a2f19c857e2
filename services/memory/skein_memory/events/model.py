"""The types of events in the log. Events hold ids, fields and principals, and never content."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Every type of event in the log: a webhook for another type is rejected.
EVENT_TYPES = frozenset(
    {
        "memory_created", "memory_updated", "memory_deleted", "memory_restored", "memory_archived",
        "memory_promoted", "memory_demoted",
        "memory_link_created", "memory_link_updated", "memory_link_removed",
        "memory_consolidated", "memory_merged", "memory_forget_soft", "memory_forget_hard",
        "memory_reinforced", "memory_decayed",
        "memory_conflict_resolved", "memory_entity_resolved", "memory_entity_separated", "memory_source_trust_set",
        "secret_revealed", "tenant_key_rotated",
        "block_created", "block_updated", "block_deleted", "block_restored", "block_attached", "block_detached",
        "block_purged",
        "snapshot_created", "snapshot_restored", "snapshot_deleted", "data_exported", "data_imported",
        "watch_created", "watch_updated", "watch_deleted", "watch_disabled",
        "archive_created", "archive_restored",
    }
)  # fmt: skip
# The names that MemoryVault gives to the same events; webhooks and filters take them as well.
MEMORYVAULT_EVENT_TYPES: Mapping[str, str] = {
    "memory_saved": "memory_created",
    "link_created": "memory_link_created",
    "link_updated": "memory_link_updated",
    "link_removed": "memory_link_removed",
    "memory_watch_created": "watch_created",
    "memory_watch_updated": "watch_updated",
    "memory_watch_deleted": "watch_deleted",
    "brain_snapshot_created": "snapshot_created",
    "brain_snapshot_restored": "snapshot_restored",
    "brain_data_imported": "data_imported",
}


def canonical_type(name: str) -> str:
    """Return the name that the event log has for a type of event, which may be MemoryVault's."""
    return MEMORYVAULT_EVENT_TYPES.get(name, name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """An event. `summary` and `payload` name ids, counts and fields, never contents."""

    type: str
    # "memory", "link", "block", "alias", "conflict", "source_trust", "snapshot", "watch", ...
    entity_type: str
    entity_id: str
    summary: str
    payload: Mapping[str, object] = field(default_factory=dict)
