"""The chain of audit events: digests of events, signed checkpoints over them. No database, no clock.

A checkpoint covers events of one tenant and one UTC day in the order of their ids. It names the checkpoint before it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from skein_kit.erasure_certificates.document import canonical_json
from skein_kit.ids import id_time

FORMAT = "skein-audit-checkpoint/1"
# Targets that the purge of a person removes.
SUBJECT = "subject:"
SALT_BYTES = 16
# Bytes of an event in a checkpoint: its id and its digest.
_ID_BYTES = 16
_EVENT_BYTES = _ID_BYTES + 32
_TEXTS = (
    *("tenant_id", "event", "outcome", "reason", "principal", "account_id", "target", "client_id", "address"),
    *("user_agent", "request_id"),
)
# In place of the ids of a checkpoint without events.
_NO_EVENT = str(UUID(int=0))


class CheckpointInvalid(Exception):
    """A checkpoint was changed, or none of the keys signed it; the message is the reason."""


def subject_digest(salt: bytes, target: str) -> bytes:
    """Return the digest that remains of a person's name."""
    return hashlib.sha256(salt + target.encode()).digest()


def event_digest(event: Mapping[str, Any]) -> bytes:
    """Return the digest of an event's columns, without its id and what a purge removes."""
    fields = {name: "" if event[name] is None else str(event[name]) for name in _TEXTS}
    fields["create_time"] = event["create_time"].astimezone(UTC).isoformat(timespec="microseconds")
    fields["subject_digest"] = (event["subject_digest"] or b"").hex()
    return hashlib.sha256(b"skein-audit-event/1\n" + canonical_json(fields)).digest()


def day_of(event_id: UUID) -> date:
    """Return the UTC day of an event; the last of all days for an id that no time made."""
    try:
        return id_time(event_id).date()
    except OverflowError:
        return date.max


def join_events(events: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the ids and digests of events, one after the other."""
    return b"".join(event["audit_event_id"].bytes + event_digest(event) for event in events)


def split_events(joined: bytes) -> list[tuple[UUID, bytes]]:
    """Return the ids and digests of a checkpoint's events."""
    return [
        (UUID(bytes=joined[start : start + _ID_BYTES]), joined[start + _ID_BYTES : start + _EVENT_BYTES])
        for start in range(0, len(joined) - _EVENT_BYTES + 1, _EVENT_BYTES)
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """A signed checkpoint."""

    tenant_id: UUID
    number: int
    # Canonical JSON.
    statement: str
    key_id: str
    signature: bytes

    @classmethod
    def sign(
        cls,
        key: Ed25519PrivateKey,
        key_id: str,
        *,
        tenant_id: UUID,
        previous: Checkpoint | None,
        day: date,
        event_digests: bytes,
        is_complete: bool,
        at: datetime,
    ) -> Checkpoint:
        """Sign what follows the previous checkpoint; `is_complete` says that no more of the day follows."""
        number = 1 if previous is None else previous.number + 1
        ids = [str(event_id) for event_id, _ in split_events(event_digests)] or [_NO_EVENT]
        statement = canonical_json(
            {
                "complete": is_complete,
                "count": len(event_digests) // _EVENT_BYTES,
                "day": day.isoformat(),
                "events": hashlib.sha256(event_digests).hexdigest(),
                "first_event_id": ids[0],
                "last_event_id": ids[-1],
                "number": number,
                "previous": "" if previous is None else previous.digest,
                "sign_time": at.astimezone(UTC).isoformat(timespec="microseconds"),
                "tenant_id": str(tenant_id),
            }
        ).decode()
        signature = key.sign(_signed_bytes(statement, key_id))
        return cls(tenant_id=tenant_id, number=number, statement=statement, key_id=key_id, signature=signature)

    @property
    def digest(self) -> str:
        """Return the digest by which the next checkpoint names this one."""
        return hashlib.sha256(_signed_bytes(self.statement, self.key_id) + self.signature).hexdigest()

    def verify(self, keys: Mapping[str, Ed25519PublicKey]) -> Statement:
        """Return what is stated, if one of the keys signed it for this tenant and number. Raises CheckpointInvalid."""
        key = keys.get(self.key_id)
        if key is None:
            message = f"none of the keys has the id {self.key_id}"
            raise CheckpointInvalid(message)
        try:
            key.verify(self.signature, _signed_bytes(self.statement, self.key_id))
        except InvalidSignature:
            message = "its signature does not match"
            raise CheckpointInvalid(message) from None
        statement = Statement.parse(self.statement)
        if (statement.tenant_id, statement.number) != (self.tenant_id, self.number):
            message = "it was signed for another tenant or place"
            raise CheckpointInvalid(message)
        return statement


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """What a checkpoint states."""

    tenant_id: UUID
    number: int
    day: date
    is_complete: bool
    count: int
    # The SHA-256 of the ids and digests of its events.
    events: str
    first_event_id: UUID
    last_event_id: UUID
    # The digest of the checkpoint before it; empty for the first.
    previous: str
    sign_time: datetime

    @classmethod
    def parse(cls, text: str) -> Statement:
        """Read a statement that was signed."""
        fields = json.loads(text)
        return cls(
            tenant_id=UUID(fields["tenant_id"]),
            number=fields["number"],
            day=date.fromisoformat(fields["day"]),
            is_complete=fields["complete"],
            count=fields["count"],
            events=fields["events"],
            first_event_id=UUID(fields["first_event_id"]),
            last_event_id=UUID(fields["last_event_id"]),
            previous=fields["previous"],
            sign_time=datetime.fromisoformat(fields["sign_time"]),
        )

    def covers(self, event_digests: bytes) -> bool:
        """Return whether these are the ids and digests of its events."""
        return hashlib.sha256(event_digests).hexdigest() == self.events


def _signed_bytes(statement: str, key_id: str) -> bytes:
    return canonical_json({"checkpoint": statement, "format": FORMAT, "key_id": key_id})
