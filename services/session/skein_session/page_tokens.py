"""Positions in lists as page tokens carry them. Each reader raises PageTokenInvalid."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from skein_kit.errors import PageTokenInvalid
from skein_kit.identity.spaces import DEFAULT_SPACE
from skein_kit.ids import parse_id

# What bigint holds.
MAX_SEQUENCE = 2**63 - 1
_MAX_TIME = datetime.max.replace(tzinfo=UTC)


def sequence_from_page_token(token: Sequence[str] | None) -> int | None:
    """Return the sequence number of the last message; None for the first page."""
    if token is None:
        return None
    try:
        (text,) = token
        return parse_sequence(text)
    except ValueError:
        raise PageTokenInvalid from None


def parse_sequence(text: str) -> int:
    """Return a sequence number between 0 and MAX_SEQUENCE."""
    try:
        sequence = int(text)
    except ValueError:
        raise PageTokenInvalid from None
    if not 0 <= sequence <= MAX_SEQUENCE:
        raise PageTokenInvalid
    return sequence


def id_from_page_token(token: Sequence[str] | None) -> UUID | None:
    """Return the id of the last message; None for the first page."""
    if token is None:
        return None
    message_id = parse_id(token[0]) if len(token) == 1 else None
    if message_id is None:
        raise PageTokenInvalid
    return message_id


def keys_from_page_token(token: Sequence[str] | None) -> tuple[str, str, UUID]:
    """Return the two keys and the space of the last row; those that sort first, for the first page."""
    if token is None:
        return "", "", DEFAULT_SPACE
    try:
        first, second, space_id = token
        return first, second, UUID(space_id)
    except ValueError:
        raise PageTokenInvalid from None


def time_and_id_from_page_token(token: Sequence[str] | None) -> tuple[datetime, str]:
    """Return the time and the id of the last row of a list, newest first; the greatest time for the first page."""
    if token is None:
        return _MAX_TIME, ""
    try:
        text, row_id = token
        time = datetime.fromisoformat(text)
    except ValueError:
        raise PageTokenInvalid from None
    if time.tzinfo is None:
        raise PageTokenInvalid
    return time, row_id
