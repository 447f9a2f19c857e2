"""What is removed when a memory is purged, table by table, and the receipt of it. No gRPC, no database, no clock."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein_kit.database.named_queries import Queries
from skein_memory.events.model import Event

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from skein_kit.database.named_queries import Query

_QUERIES = Queries.of("skein_memory")

# Every table that holds something of what memories say, children before the memories themselves. Each query removes
# what belongs to `memory_ids`. A table that is not listed goes with its memory as well, by its foreign key, uncounted.
CONTENT_TABLES: Mapping[str, Query] = {
    "memory.versions": _QUERIES["erase_versions"],
    "memory.revisions": _QUERIES["erase_revisions"],
    "memory.accesses": _QUERIES["erase_accesses"],
    "memory.links": _QUERIES["erase_links"],
    "memory.waiting": _QUERIES["erase_waiting"],
    "memory.tags": _QUERIES["erase_tags"],
    "memory.properties": _QUERIES["erase_properties"],
    "memory.external_ids": _QUERIES["erase_external_ids"],
    "memory.fact_keys": _QUERIES["erase_fact_keys"],
    "memory.secrets": _QUERIES["erase_secrets"],
    "memory.tasks": _QUERIES["erase_tasks"],
    "memory.aliases": _QUERIES["erase_aliases"],
    "memory.conflict_resolutions": _QUERIES["erase_conflict_resolutions"],
    "memory.snapshot_items": _QUERIES["erase_snapshot_items"],
    "recall.documents": _QUERIES["erase_documents"],
    "memory.entries": _QUERIES["erase_entries"],
}
# Stored answers to these hold ids and counts only: repeated, they still tell what was removed.
KEPT_RESPONSE_TYPES = ("skein.memory.v1.PurgeMemoriesRequest", "skein.memory.v1.ForgetMemoriesRequest")


@dataclass(frozen=True, kw_only=True, slots=True)
class PurgeReceipt:
    """What a purge removed, or would remove."""

    receipt_id: UUID
    purge_time: datetime
    memory_ids: tuple[UUID, ...]
    deleted_counts: Mapping[str, int]
    dry_run: bool
    block_ids: tuple[str, ...] = ()
    # The end of the write-ahead log when everything was removed; empty for a receipt without it.
    log_position: str = ""

    @property
    def digest(self) -> str:
        """Return the SHA-256 of all that the receipt says, in hexadecimal digits."""
        said = [
            str(self.receipt_id),
            self.purge_time.isoformat(),
            [str(id_) for id_ in self.memory_ids],
            sorted(self.deleted_counts.items()),
            *([list(self.block_ids)] if self.block_ids else []),
        ]
        return hashlib.sha256(json.dumps(said, separators=(",", ":")).encode()).hexdigest()


def purge_events(memory_ids: Sequence[UUID], receipt_id: UUID, *, cause: str = "") -> list[Event]:
    """Return the events of memories that were purged; `cause` says why where no caller asked for it."""
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
