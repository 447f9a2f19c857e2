"""Times to live that callers choose, within bounds."""

from __future__ import annotations

from datetime import timedelta

from google.protobuf.message import Message

from skein_kit.errors import FieldInvalid

MIN_TTL = timedelta(seconds=1)


def read_ttl(request: Message, field: str, maximum: timedelta) -> timedelta | None:
    """Return an optional Duration between MIN_TTL and `maximum`; None when unset. Raises FieldInvalid."""
    if not request.HasField(field):
        return None
    try:
        ttl: timedelta = getattr(request, field).ToTimedelta()
    except (ValueError, OverflowError):
        raise FieldInvalid(violations=[(field, "must be a valid duration")]) from None
    if not MIN_TTL <= ttl <= maximum:
        raise FieldInvalid(violations=[(field, f"must be between 1 second and {maximum.days} days")])
    return ttl
