"""Webhooks and their rules: event types, conditions, backoff and signatures. Pure."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self
from uuid import UUID

from skein_kit import filters
from skein_kit.errors import FieldInvalid
from skein_kit.identity.identity_token import Caller
from skein_kit.json_values import exact
from skein_memory.errors import EventTypeUnknown
from skein_memory.events.model import EVENT_TYPES, MEMORYVAULT_EVENT_TYPES, canonical_type
from skein_memory.validation import check_revision, check_storable
from skein_memory.vault.encryption import WrappedKey

ALL_EVENTS = "*"
# First and longest pause between attempts. Each is three times the one before, with jitter.
INITIAL_BACKOFF = timedelta(seconds=5)
MAX_BACKOFF = timedelta(hours=6)
# Failures in a row after which a destination gets a pause, and the longest pause.
DESTINATION_FAILURES = 3
MAX_DESTINATION_BACKOFF = timedelta(minutes=15)
# Attempts of a delivery, within about a day and a half.
MAX_ATTEMPTS = 12
_GROWTH = 3
# HTTP statuses.
_TOO_MANY, _SERVER_ERROR = 429, 500
_MAX_NAME, _MAX_URL, _MAX_CONDITION, _MAX_TYPES = 255, 2048, 4096, 100


@dataclass(frozen=True, kw_only=True, slots=True)
class WebhookDraft:
    """The validated content of a webhook."""

    display_name: str
    event_types: tuple[str, ...]
    condition: str
    webhook_url: str
    is_active: bool

    def validate(self) -> Self:
        """Return it, or refuse it."""
        lengths = (
            ("display_name", len(self.display_name), _MAX_NAME),
            ("event_types", len(self.event_types), _MAX_TYPES),
            ("webhook_url", len(self.webhook_url), _MAX_URL),
        )
        violations = [
            (name, f"must have 1 to {max_length}")
            for name, length, max_length in lengths
            if not 1 <= length <= max_length
        ]
        if len(self.condition) > _MAX_CONDITION:
            violations.append(("where", f"has more than {_MAX_CONDITION} characters"))
        if violations:
            raise FieldInvalid(violations=violations)
        unknown_types = sorted(set(self.event_types) - EVENT_TYPES - MEMORYVAULT_EVENT_TYPES.keys() - {ALL_EVENTS})
        if unknown_types:
            names = ", ".join(repr(name[:60]) for name in unknown_types[:2])
            valid_types = f"use {ALL_EVENTS} for all, or {', '.join(sorted(EVENT_TYPES))}"
            raise EventTypeUnknown(violations=[("event_types", f"{names} is no event type; {valid_types}")])
        check_storable([("display_name", self.display_name), ("webhook_url", self.webhook_url)], [])
        filters.parse(self.condition)
        return self

    def matches_type(self, event_type: str) -> bool:
        """Return whether an event is of a type that is waited for."""
        return ALL_EVENTS in self.event_types or event_type in map(canonical_type, self.event_types)


@dataclass(frozen=True, kw_only=True, slots=True)
class Webhook:
    """A webhook: its content, and the health of its destination."""

    webhook_id: UUID
    draft: WebhookDraft
    key: WrappedKey
    failures: int
    last_delivery_time: datetime | None
    last_error: str | None
    disable_time: datetime | None
    # Host and port, which share a backoff.
    destination: str
    # Failures in a row, of any webhook with this destination.
    destination_failures: int
    # Nothing is sent before; None: the destination is not known to fail.
    retry_time: datetime | None
    revision: int
    create_time: datetime
    update_time: datetime
    created_by: str
    updated_by: str
    # The applications' grants that made it, or changed it; it is switched off when one of them ends.
    grant_ids: tuple[UUID, ...] = ()
    # The callers that made and changed it, as JSON text.
    makers: str = "[]"

    @property
    def is_failing(self) -> bool:
        """Return whether the last attempt at the destination failed."""
        return self.destination_failures > 0

    def check_revision(self, revision: int) -> None:
        """Reject a revision that is not the current one; 0 matches any revision."""
        check_revision(revision, self.revision)


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One delivery that is to be tried now."""

    delivery_id: UUID
    attempts: int
    webhook: Webhook
    event: Mapping[str, object]
    create_time: datetime
    # No other worker tries it before.
    until: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The outcome of an attempt; no error: it was delivered."""

    attempt: Attempt
    error: str | None
    # Whether the destination works; None: it was not tried.
    is_healthy: bool | None


def is_healthy(status: int | None) -> bool:
    """Return whether a response shows that its destination works; None: no response came.

    What is wrong with one request (4xx) is wrong with one webhook. Servers that fail or limit the rate get a pause.
    """
    return status is not None and status < _SERVER_ERROR and status != _TOO_MANY


def grants_after_update(before: Sequence[UUID], by: Caller, *, activates: bool) -> list[UUID]:
    """Return the grants that a webhook ends with once a caller changed it.

    A person who makes it active takes it over; another caller adds the grants of the call.
    """
    is_person = by.account_id is not None and not by.client_id
    return [] if activates and is_person else sorted({*before, *by.grant_ids})


def makers_after_update(before: str, by: Caller, *, activates: bool) -> str:
    """Return the callers that must see the space of a webhook once one changed it, as JSON text.

    A person who makes it active takes it over, as with grants.
    """
    is_person = by.account_id is not None and not by.client_id
    kept = [] if activates and is_person else json.loads(before)
    maker = {"principals": by.space_principals, "client": by.space_client}
    return json.dumps([*(one for one in kept if one != maker), maker])


def retry_delay(attempts: int, random_share: float) -> timedelta:
    """Return the backoff after so many failed attempts; `random_share`, 0 to 1, spreads attempts that failed together.

    Exponential back-off with full jitter, of which at least a fifth is waited.
    """
    max_delay: timedelta = min(MAX_BACKOFF, INITIAL_BACKOFF * _GROWTH ** min(attempts - 1, 20))
    return max_delay * jitter(random_share)


def destination_pauses(random_share: float) -> list[timedelta]:
    """Return the pauses of a destination that fails again and again; the last one is that of all further failures."""
    pauses = [INITIAL_BACKOFF]
    while pauses[-1] < MAX_DESTINATION_BACKOFF:
        pauses.append(min(MAX_DESTINATION_BACKOFF, pauses[-1] * _GROWTH))
    return [pause * jitter(random_share) for pause in pauses]


def jitter(random_share: float) -> float:
    """Return the share of a pause for a chance of 0 to 1."""
    return 0.2 + 0.8 * random_share


def secret_text(key: bytes) -> str:
    """Return a key as Standard Webhooks writes it."""
    return f"whsec_{base64.b64encode(key).decode('ascii')}"


def body_of(webhook_id: UUID, event: Mapping[str, object], create_time: datetime) -> bytes:
    """Return the body that is sent for an event."""
    payload = {
        "type": event["event_type"],
        "timestamp": create_time.isoformat(),
        "data": {"webhook_id": str(webhook_id), **event, "created_at": create_time.isoformat()},
    }
    return exact.dumps(payload, ensure_ascii=True).encode()


def signature_of(key: bytes, webhook_id: str, timestamp: int, body: bytes) -> str:
    """Sign a body by Standard Webhooks 1.0: HMAC-SHA256 of "<id>.<timestamp>.<body>", in base64."""
    message = f"{webhook_id}.{timestamp}.".encode() + body
    return f"v1,{base64.b64encode(hmac.new(key, message, hashlib.sha256).digest()).decode('ascii')}"


def headers_of(key: bytes, delivery_id: UUID, body: bytes, at: datetime) -> dict[str, str]:
    """Return the headers that identify a delivery."""
    timestamp = int(at.timestamp())
    return {
        "webhook-id": str(delivery_id),
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature_of(key, str(delivery_id), timestamp, body),
    }
