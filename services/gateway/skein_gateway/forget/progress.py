"""What the steps of one Forget purged, and what of it auth has certified. No calls, no clock."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from skein.auth.v1 import certificates_pb2
from skein.gateway.v1 import gateway_pb2 as pb
from skein_kit.rpc.well_known_types import to_timestamp

# By then running calls are logged, caches are dropped and statistics are recomputed. It covers a round of the worker
# if the process that purged has ended.
SETTLE = timedelta(minutes=10)
# Auth signs a report in this time, also after the deadline of the call that purged.
CERTIFY_SECONDS = 30.0
# Digests of one report: 680 KB. A message has 4 MiB at most.
MAX_DIGESTS = 20_000
# Receipts, and memories that remain, of one report, as the contract says.
_MAX_RECEIPTS = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class ErasureStep:
    """What one call of a service purged."""

    counts: Mapping[str, int]
    receipt_id: str = ""
    has_more: bool = False
    memory_tombstones: Iterable[bytes] = ()
    # Memories about others that remain, although they were made of what was purged.
    remaining_memory_ids: Sequence[str] = ()
    session_tombstones: Iterable[bytes] = ()
    # The keyed digest of the person; empty where the service has none.
    subject_tombstone: bytes = b""
    # End of the write-ahead log after the step; empty where the service does not tell.
    log_position: str = ""
    # Position in the event log after which the step is found; empty for a step without events.
    event_position: str = ""


@dataclass(slots=True)
class ErasureProgress:
    """What the steps of one call purged, and what of it is reported.

    Auth adds up the reports of one erasure. A repeat with a request id repeats all steps, so its reports have the sum
    of the counts, and auth keeps the larger one. Without a request id they have the counts since the last report.
    """

    request_id: str
    start_time: datetime
    erasures: list[pb.Erasure] = field(default_factory=list)
    subject_tombstone: bytes = b""
    # Of the last report; empty before the first one.
    certificate_id: str = ""
    # Of the first step with events.
    event_position: str = ""
    # Memories about others that remain; in the order of the steps that named them.
    remaining_memory_ids: list[str] = field(default_factory=list)
    # Held while a report is under way.
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    # Digests that are not reported, each after the name of its service; and those that are.
    _digests: set[tuple[str, bytes]] = field(default_factory=set)
    _reported_digests: set[tuple[str, bytes]] = field(default_factory=set)
    _reported_counts: Counter[str] = field(default_factory=Counter)
    _reported_receipts: int = 0
    _reported_remaining: int = 0
    _is_complete: bool = False

    def add(self, erasure: pb.Erasure, step: ErasureStep) -> None:
        """Add a step to the erasure of its service."""
        for table, count in step.counts.items():
            erasure.deleted_counts[table] += count
        if step.receipt_id and step.event_position:
            erasure.receipt_ids.append(step.receipt_id)
        self.event_position = self.event_position or step.event_position
        known = set(self.remaining_memory_ids)
        self.remaining_memory_ids += [id_ for id_ in step.remaining_memory_ids if id_ not in known]
        digests = {("memory", digest) for digest in step.memory_tombstones}
        digests.update(("session", digest) for digest in step.session_tombstones)
        self._digests |= digests - self._reported_digests
        self.subject_tombstone = self.subject_tombstone or step.subject_tombstone

    @property
    def has_unreported(self) -> bool:
        """Return whether auth lacks something of what was purged."""
        return not self._is_complete and bool(
            self._digests
            or self._counts != self._reported_counts
            or self._reported_receipts < len(self._receipt_ids)
            or self._reported_remaining < len(self.remaining_memory_ids)
        )

    def should_report(self, step: ErasureStep) -> bool:
        """Return whether to report now: after the first step, at the end of a service, and when a part is full.

        Auth stores all digests with each report, so a report of each small step would cost a square of their number.
        """
        return self.has_unreported and (
            not self.certificate_id or not step.has_more or len(self._digests) >= MAX_DIGESTS
        )

    def needs_report(self, *, is_complete: bool) -> bool:
        """Return whether the certificate lacks something: its first report, a part, or that the erasure is complete."""
        return not self._is_complete and (is_complete or not self.certificate_id or self.has_unreported)

    def next_part(self, at: datetime, remains: pb.Remains | None) -> certificates_pb2.IssueErasureCertificateRequest:
        """Return the next report. The last one is complete when `remains` tells what copies remain."""
        digests = sorted(self._digests)[:MAX_DIGESTS]
        receipt_ids = self._receipt_ids[self._reported_receipts :][:_MAX_RECEIPTS]
        remaining_ids = self.remaining_memory_ids[self._reported_remaining :][:_MAX_RECEIPTS]
        is_last = (
            len(digests) == len(self._digests)
            and self._reported_receipts + len(receipt_ids) == len(self._receipt_ids)
            and self._reported_remaining + len(remaining_ids) == len(self.remaining_memory_ids)
        )
        is_complete = is_last and remains is not None
        part = certificates_pb2.IssueErasureCertificateRequest(
            erasure_key=self._key(),
            kind="forget",
            cumulative=bool(self.request_id),
            complete=is_complete,
            start_time=to_timestamp(self.start_time),
            end_time=to_timestamp(at),
            deleted_counts=self._counts if self.request_id else self._counts - self._reported_counts,
            receipt_ids=receipt_ids,
            event_position=self.event_position,
            remaining_memory_ids=remaining_ids,
            memory_tombstones=[digest for service, digest in digests if service == "memory"],
            session_tombstones=[digest for service, digest in digests if service == "session"],
        )
        if is_complete and remains is not None:
            part.log_position = remains.log_position
            part.settle_time.CopyFrom(remains.settle_time)
        return part

    def mark_reported(self, part: certificates_pb2.IssueErasureCertificateRequest, certificate_id: str) -> None:
        """Note that auth has certified a part."""
        self.certificate_id = certificate_id
        digests = {("memory", digest) for digest in part.memory_tombstones}
        digests.update(("session", digest) for digest in part.session_tombstones)
        self._digests -= digests
        self._reported_digests |= digests
        counts = Counter(dict(part.deleted_counts))
        self._reported_counts = counts if part.cumulative else self._reported_counts + counts
        self._reported_receipts += len(part.receipt_ids)
        self._reported_remaining += len(part.remaining_memory_ids)
        self._is_complete = part.complete

    @property
    def _counts(self) -> Counter[str]:
        """The purged rows by table, of all services, without zeros."""
        counts: Counter[str] = Counter()
        for erasure in self.erasures:
            counts.update(erasure.deleted_counts)
        return +counts

    @property
    def _receipt_ids(self) -> list[str]:
        """The receipts of all services, in the order of their steps."""
        return [receipt_id for erasure in self.erasures for receipt_id in erasure.receipt_ids]

    def _key(self) -> bytes:
        """Return the digest that names this erasure; without a request id, the unfinished erasure of the person."""
        return hmac.digest(self.subject_tombstone, b"forget:" + self.request_id.encode(), hashlib.sha256)
