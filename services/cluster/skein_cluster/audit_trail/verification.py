"""Compares a tenant's audit events with its signed checkpoints: what was changed, removed, inserted or reordered.

No database, no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from skein_kit.audit_log import chain
from skein_kit.audit_log.chain import Checkpoint, CheckpointInvalid, Statement

# The database removes no event sooner, but for those of the canary's tenants.
_MIN_KEPT = timedelta(days=30)


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredCheckpoint:
    """A checkpoint with the list of its events."""

    checkpoint: Checkpoint
    event_digests: bytes
    # When the events were removed.
    expire_time: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """What does not fit: a checkpoint, or an event of a day."""

    tenant_id: UUID
    what: str
    day: date | None = None
    number: int | None = None
    event_id: UUID | None = None

    def __str__(self) -> str:
        """Return it as one line."""
        parts = (
            f"day {self.day}" if self.day else "",
            f"checkpoint {self.number}" if self.number else "",
            f"event {self.event_id}" if self.event_id else "",
        )
        return f"tenant {self.tenant_id}: {', '.join(filter(None, parts))}: {self.what}"


@dataclass(slots=True)
class _Day:
    """What the checkpoints of a day state of its events."""

    digests: dict[UUID, bytes] = field(default_factory=dict)
    # First and last ids of removed events.
    expired: list[tuple[UUID, UUID]] = field(default_factory=list)
    # Checkpoints of the day are missing or were changed, so its events say nothing.
    is_unknown: bool = False
    is_complete: bool = False


class TenantVerification:
    """The verification of one tenant: its checkpoints at once, then its events one by one in the order of their ids."""

    def __init__(
        self,
        tenant_id: UUID,
        checkpoints: Iterable[StoredCheckpoint],
        keys: Mapping[str, Ed25519PublicKey],
        *,
        is_canary: bool = False,
    ) -> None:
        """Verify the checkpoints, in the order of their numbers."""
        self.tenant_id = tenant_id
        self.problems: list[Problem] = []
        self.verified_count = 0
        # Events after the last checkpoint.
        self.open_count = 0
        # Events that are about a purged person.
        self.erased_count = 0
        # The newest checkpoint that fits.
        self.head: Checkpoint | None = None
        self.digests: set[str] = set()
        # The last day of which a checkpoint has all events.
        self.complete_day: date | None = None
        self._min_kept = timedelta(0) if is_canary else _MIN_KEPT
        self._days: dict[date, _Day] = {}
        previous: Checkpoint | None = None
        last: Statement | None = None
        for stored in checkpoints:
            last = self._add_checkpoint(stored, keys, previous, last) or last
            previous = stored.checkpoint
        self._event_day: date | None = None
        # Events of this day by id.
        self._seen: dict[UUID, bytes] = {}

    def _add_checkpoint(
        self,
        stored: StoredCheckpoint,
        keys: Mapping[str, Ed25519PublicKey],
        previous: Checkpoint | None,
        last: Statement | None,
    ) -> Statement | None:
        checkpoint = stored.checkpoint
        try:
            statement = checkpoint.verify(keys)
        except CheckpointInvalid as error:
            self._report(f"the checkpoint was changed: {error}", number=checkpoint.number)
            return None
        day = self._days.setdefault(statement.day, _Day())
        expected = 1 if previous is None else previous.number + 1
        if checkpoint.number != expected:
            self._report("the checkpoint was removed", number=expected)
        elif statement.previous != ("" if previous is None else previous.digest):
            self._report("another checkpoint stood before it", day=statement.day, number=checkpoint.number)
        elif last is not None and (statement.day <= last.day if last.is_complete else statement.day != last.day):
            self._report("the days are not in their order", day=statement.day, number=checkpoint.number)
        if stored.expire_time is not None:
            day.expired.append((statement.first_event_id, statement.last_event_id))
            if stored.expire_time.date() < statement.day + self._min_kept:
                self._report("the events were removed too early", day=statement.day, number=checkpoint.number)
        elif statement.covers(stored.event_digests):
            day.digests.update(chain.split_events(stored.event_digests))
        else:
            day.is_unknown = True
            self._report("the list of its events was changed", day=statement.day, number=checkpoint.number)
        if statement.is_complete:
            day.is_complete = True
            self.complete_day = statement.day
        self.head = checkpoint
        self.digests.add(checkpoint.digest)
        return statement

    def add_event(self, event: Mapping[str, Any], *, closed_day: date | None) -> None:
        """Compare the next event. Checkpoints of all tenants are complete up to and with `closed_day`."""
        event_id = event["audit_event_id"]
        event_day = chain.day_of(event_id)
        if event_day == date.max:
            self._report("the event was inserted: no time made its id", event_id=event_id)
            return
        if self._event_day != event_day:
            self._end_day()
            self._event_day = event_day
        day = self._days.get(event_day)
        if day is None or not (day.is_complete or event_id in day.digests or self._is_before_last(event_id, day)):
            if any(closed is not None and event_day <= closed for closed in (self.complete_day, closed_day)):
                self._report("the event was inserted: no checkpoint has its day", day=event_day, event_id=event_id)
            else:
                self.open_count += 1
            return
        self._seen[event_id] = chain.event_digest(event)
        if event["subject_digest"] and event["subject_target"] is None:
            self.erased_count += 1
        elif event["subject_target"] is not None and (
            chain.subject_digest(event["subject_salt"] or b"", event["subject_target"]) != event["subject_digest"]
        ):
            self._report("the event was changed: it names another person", day=event_day, event_id=event_id)

    def finish(self) -> None:
        """Compare the last day, and the days of which no event is left."""
        self._end_day()
        for name in sorted(self._days):
            self._compare(name, self._days[name], {})

    @staticmethod
    def _is_before_last(event_id: UUID, day: _Day) -> bool:
        ids = [*day.digests, *(last for _, last in day.expired)]
        return bool(ids) and event_id <= max(ids)

    def _end_day(self) -> None:
        if self._event_day is not None and (day := self._days.pop(self._event_day, None)) is not None:
            self._compare(self._event_day, day, self._seen)
        self._seen = {}

    def _compare(self, name: date, day: _Day, seen: Mapping[UUID, bytes]) -> None:
        if day.is_unknown:
            return
        owners = {digest: event_id for event_id, digest in day.digests.items()}
        moved = {owners[digest] for event_id, digest in seen.items() if owners.get(digest, event_id) != event_id}
        for event_id in sorted(seen.keys() | day.digests.keys()):
            digest, expected = seen.get(event_id), day.digests.get(event_id)
            if digest is not None and digest == expected:
                self.verified_count += 1
            elif digest is not None and digest in owners:
                self._report(
                    f"the event was reordered: it stood at {owners[digest]}",
                    day=name,
                    event_id=event_id,
                )
            elif digest is None and event_id not in moved:
                self._report("the event was removed", day=name, event_id=event_id)
            elif digest is not None:
                what = "changed" if expected is not None else "inserted"
                self._report(f"the event was {what}", day=name, event_id=event_id)

    def _report(
        self, what: str, *, day: date | None = None, number: int | None = None, event_id: UUID | None = None
    ) -> None:
        self.problems.append(Problem(tenant_id=self.tenant_id, what=what, day=day, number=number, event_id=event_id))
