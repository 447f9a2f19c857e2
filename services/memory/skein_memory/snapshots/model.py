"""Snapshots and their states. No I/O, no clock."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Self
from uuid import UUID

from skein_kit.ids import new_id
from skein_kit.policies.store import Policy
from skein_memory.errors import SnapshotNotReady
from skein_memory.validation import check_storable

CREATING, READY, DELETING = "creating", "ready", "deleting"


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """A snapshot and its progress; `counts` and `policy` are JSON text."""

    snapshot_id: UUID
    label: str
    summary: str | None
    state: str
    as_of_time: datetime
    # Transactions below this number must be over before anything is copied.
    horizon: int
    last_kind: str | None
    last_item_id: str | None
    counts: str
    policy: str
    create_time: datetime
    created_by: str
    # None until it is stored.
    space_id: UUID | None = None

    @classmethod
    def create(cls, label: str, summary: str, policy: Policy, *, horizon: int, at: datetime, by: str) -> Self:
        """Return an empty snapshot."""
        check_storable([("label", label), ("summary", summary)], [])
        return cls(
            snapshot_id=new_id(at),
            label=label,
            summary=summary or None,
            state=CREATING,
            as_of_time=at,
            horizon=horizon,
            last_kind=None,
            last_item_id=None,
            counts="{}",
            policy=json.dumps(asdict(policy)),
            create_time=at,
            created_by=by,
        )

    def check_ready(self) -> Self:
        """Reject an incomplete snapshot."""
        if self.state != READY:
            raise SnapshotNotReady
        return self

    def with_count(self, kind: str, count: int) -> str:
        """Return the counts with more of a kind."""
        counts = json.loads(self.counts)
        if count:
            counts[kind] = counts.get(kind, 0) + count
        return json.dumps(counts)
