"""The receipt of a purge. No gRPC, no SQL, no clock."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Self
from uuid import UUID

# Saved responses of these have ids and counts only: a purge keeps them, so that a repeat returns the receipt.
KEPT_RESPONSE_TYPES = ("skein.memory.v1.PurgeMemoriesRequest", "skein.memory.v1.DeleteMemoriesRequest")


@dataclass(frozen=True, kw_only=True, slots=True)
class PurgeReceipt:
    """The receipt of a purge, or of its dry run."""

    receipt_id: UUID
    purge_time: datetime
    memory_ids: tuple[UUID, ...]
    deleted_counts: Mapping[str, int]
    dry_run: bool
    block_ids: tuple[str, ...] = ()
    # The end of the write-ahead log when everything was removed; empty for a receipt without it.
    log_position: str = ""
    # Position in the event log after which the events of this purge are found; empty without events.
    event_position: str = ""
    # Digests that the purge wrote.
    tombstones: tuple[bytes, ...] = ()

    @classmethod
    def empty(cls, receipt_id: UUID, *, at: datetime, dry_run: bool = False) -> Self:
        """Return the receipt of a purge that has removed nothing yet."""
        return cls(receipt_id=receipt_id, purge_time=at, memory_ids=(), deleted_counts={}, dry_run=dry_run)

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the receipt's fields, in hexadecimal digits."""
        receipt_fields = [
            str(self.receipt_id),
            self.purge_time.isoformat(),
            [str(id_) for id_ in self.memory_ids],
            sorted(self.deleted_counts.items()),
            *([list(self.block_ids)] if self.block_ids else []),
        ]
        return hashlib.sha256(json.dumps(receipt_fields, separators=(",", ":")).encode()).hexdigest()
