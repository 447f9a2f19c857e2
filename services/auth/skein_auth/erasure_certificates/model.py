"""Certificates of erasures: what they state, and how reports of one erasure are added up. No gRPC, SQL or clock."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Self
from uuid import UUID

from skein_kit.erasure_certificates import document

# In place of a time or a position that is not known.
UNKNOWN = "unknown"
FORGET, TENANT_DELETION = "forget", "tenant_deletion"
# By then running calls are logged and caches are dropped.
SETTLE = timedelta(minutes=10)
# The file of a certificate lists no more tombstones: its message would become too large.
MAX_LISTED_TOMBSTONES = 20_000
_DATA_FILES = (
    "Dead rows and index keys may hold what was purged until the tables are rewritten: VACUUM FULL after settle_time"
    " removes them for certain."
)
_LOG = (
    "Segments before log_position hold what was purged until they are overwritten or removed. Later segments may hold"
    " whole pages with dead rows until VACUUM FULL and a CHECKPOINT after it."
)
_BACKUPS = (
    "Backups and archived segments from before end_time hold everything. A restore of one purges again before the"
    " cluster starts."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ErasureReport:
    """What the services reported of an erasure."""

    # SHA-256; a repeated or continued erasure has the same.
    erasure_key: bytes
    # The counts cover all steps from the first; otherwise they are those since an earlier, incomplete report.
    is_cumulative: bool
    is_complete: bool
    start_time: datetime
    end_time: datetime
    # Purged rows by table.
    deleted_counts: Mapping[str, int]
    receipt_ids: tuple[str, ...]
    # By service.
    tombstones: Mapping[str, SortedDigests]
    # FORGET, TENANT_DELETION, "purge_memories" or "purge_subject".
    kind: str
    # The key after this report, if it differs.
    next_erasure_key: bytes = b""
    # Memories about others that remain, although they were made of what was erased.
    remaining_memory_ids: tuple[str, ...] = ()
    # Empty while the erasure is incomplete.
    log_position: str = ""
    # Position in the event log after which the first purge is found; empty for an erasure without events.
    event_position: str = ""
    settle_time: datetime | None = None

    @classmethod
    def of_deletion(
        cls,
        tenant_id: UUID,
        deleted_counts: Mapping[str, int],
        *,
        is_complete: bool,
        start_time: datetime,
        end_time: datetime,
        log_position: str,
    ) -> ErasureReport:
        """Report the deletion of a tenant, which happens once. Its salts are gone, so there are no tombstones."""
        return cls(
            erasure_key=hashlib.sha256(b"tenant:" + tenant_id.bytes).digest(),
            is_cumulative=True,
            is_complete=is_complete,
            start_time=start_time,
            end_time=end_time,
            deleted_counts=deleted_counts,
            receipt_ids=(),
            tombstones={service: SortedDigests() for service in document.SERVICES},
            kind=TENANT_DELETION,
            log_position=log_position,
            settle_time=end_time + SETTLE,
        )

    def continuing(self, earlier: ErasureCertificate) -> ErasureReport:
        """Return this report together with an incomplete certificate: with the tombstones and receipts of both.

        Counts are added; of a cumulative report, which repeats earlier steps, the larger one stays. Each call of a
        purge writes tombstones. One without a new tombstone repeats an earlier call and adds no counts. A call of
        Forget may purge the profile alone, which has none.
        """
        statement = earlier.statement_fields
        tombstones = {service: self.tombstones[service] | earlier.tombstones[service] for service in document.SERVICES}
        is_repeated = self.kind != FORGET and tombstones == earlier.tombstones
        earlier_counts, counts = Counter(statement["deleted_counts"]), Counter(self.deleted_counts)
        if self.is_cumulative:
            counts |= earlier_counts
        else:
            counts = earlier_counts if is_repeated else earlier_counts + counts
        return replace(
            self,
            start_time=min(self.start_time, datetime.fromisoformat(statement["start_time"])),
            deleted_counts=counts,
            receipt_ids=tuple(dict.fromkeys([*statement["receipt_ids"], *self.receipt_ids])),
            remaining_memory_ids=(*statement.get("remaining_memory_ids", ()), *self.remaining_memory_ids),
            event_position=statement.get("event_position") or self.event_position,
            tombstones=tombstones,
        )

    def next_key(self, certificate_id: UUID) -> bytes:
        """Return the key to store: a later erasure of the same person must not continue a complete one."""
        if self.next_erasure_key:
            return self.next_erasure_key
        is_over = self.is_complete and not self.is_cumulative
        return hashlib.sha256(certificate_id.bytes).digest() if is_over else self.erasure_key

    def statement(self, tenant_id: UUID, certificate_id: UUID, *, at: datetime, backup_days: int) -> dict[str, Any]:
        """Return what the certificate states. `backup_days` is 0 when the retention of backups is unknown."""
        statement: dict[str, Any] = {
            "certificate_id": str(certificate_id),
            "complete": self.is_complete,
            "deleted_counts": {table: count for table, count in self.deleted_counts.items() if count},
            "end_time": _time(self.end_time),
            "issue_time": _time(at),
            "kind": self.kind,
            "receipt_ids": list(self.receipt_ids),
            "start_time": _time(self.start_time),
            "tenant_id": str(tenant_id),
            "tombstone_count": sum(len(digests) for digests in self.tombstones.values()),
        }
        if self.event_position:
            statement["event_position"] = self.event_position
        if self.remaining_memory_ids:
            statement["remaining_memory_ids"] = sorted(set(self.remaining_memory_ids))
        if self.is_complete:
            # The tree is built once: each later part of an incomplete erasure would change all of it.
            statement |= document.tombstone_fields(self.tombstones)
            removed_by = _time(self.end_time + timedelta(days=backup_days)) if backup_days else UNKNOWN
            statement["remains"] = {
                "backups": _BACKUPS,
                "backups_removed_by": removed_by,
                "data_files": _DATA_FILES,
                "log_position": self.log_position or UNKNOWN,
                "settle_time": _time(self.settle_time) if self.settle_time else UNKNOWN,
                "write_ahead_log": _LOG,
            }
        return statement


@dataclass(frozen=True, kw_only=True, slots=True)
class ErasureCertificate:
    """A signed certificate."""

    certificate_id: UUID
    is_complete: bool
    # Canonical JSON.
    statement: str
    key_id: str
    signature: bytes
    # Joined digests.
    memory_tombstones: bytes
    session_tombstones: bytes
    create_time: datetime
    sign_time: datetime

    @property
    def statement_fields(self) -> dict[str, Any]:
        """Return the fields of the statement."""
        fields: dict[str, Any] = json.loads(self.statement)
        return fields

    @property
    def tombstones(self) -> dict[str, SortedDigests]:
        """Return the digests by service."""
        return {"memory": SortedDigests(self.memory_tombstones), "session": SortedDigests(self.session_tombstones)}

    def file(self) -> str:
        """Return the certificate's file. A complete one lists the tombstones unless they are too many."""
        statement = self.statement_fields
        is_listed = self.is_complete and statement["tombstone_count"] <= MAX_LISTED_TOMBSTONES
        tombstones = self.tombstones if is_listed else None
        return document.write(statement, self.key_id, self.signature, tombstones).decode()


def _time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")


_BYTES = 32


@dataclass(frozen=True, slots=True)
class SortedDigests:
    """Distinct digests of 32 bytes in ascending order, one after the other."""

    joined: bytes = b""

    @classmethod
    def of(cls, digests: Iterable[bytes]) -> Self:
        """Sort digests; repeated ones count once."""
        return cls(b"".join(sorted(set(digests))))

    def __len__(self) -> int:
        return len(self.joined) // _BYTES

    def __iter__(self) -> Iterator[bytes]:
        return (self.joined[start : start + _BYTES] for start in range(0, len(self.joined), _BYTES))

    def __or__(self, other: Self) -> Self:
        """Return the digests of both. It costs a binary search for each digest of the smaller side."""
        large, small = (self, other) if len(self) >= len(other) else (other, self)
        joined = memoryview(large.joined)
        places = range(len(large))
        parts: list[bytes | memoryview] = []
        merged = 0
        for digest in small:
            place = bisect_left(
                places, digest, lo=merged, key=lambda at: bytes(joined[at * _BYTES : (at + 1) * _BYTES])
            )
            start = place * _BYTES
            if joined[start : start + _BYTES] == digest:
                continue
            parts += (joined[merged * _BYTES : start], digest)
            merged = place
        parts.append(joined[merged * _BYTES :])
        return type(self)(b"".join(parts))
