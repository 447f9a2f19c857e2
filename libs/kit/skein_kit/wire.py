"""Conversions between protobuf's well-known types and Python's, shared by every service's `wire.py`."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from google.protobuf import json_format
from google.protobuf.struct_pb2 import ListValue, Struct
from google.protobuf.timestamp_pb2 import Timestamp

from skein_kit.errors import FieldInvalid, UpdateMaskInvalid
from skein_kit.ids import EPOCH

if TYPE_CHECKING:
    from collections.abc import Collection

    from google.protobuf.field_mask_pb2 import FieldMask
    from google.protobuf.message import Message

_CAPITAL = re.compile(r"(?<=[a-z0-9])[A-Z]")
_DAY_SECONDS = 86_400
# A year that every calendar, UUIDv7 and Postgres agree on.
_LAST_YEAR = 9999
# Levels of JSON. Protobuf reads 100 of messages: three for each of an object, and some for what wraps the answer.
_DEEPEST = 30
# Bytes of JSON (UTF-8) that one Struct or ListValue field may hold; the protos say so where such fields are.
MAX_JSON_BYTES = 256 * 1024


def time(value: datetime | None) -> Timestamp | None:
    """Convert a time with a zone; None stays unset."""
    if value is None:
        return None
    # What FromDatetime does, in a quarter of the time: a page of answers has hundreds of these.
    since = value - EPOCH
    return Timestamp(seconds=since.days * _DAY_SECONDS + since.seconds, nanos=since.microseconds * 1000)


def moment(message: Message, field: str, *, before_1970: bool = False) -> datetime | None:
    """Read an optional Timestamp field as UTC, to the microsecond; None when unset.

    Raises FieldInvalid for a time after the year 9999 and, as ids begin in 1970, for one before it unless allowed.
    """
    if not message.HasField(field):
        return None
    value: Timestamp = getattr(message, field)
    try:
        result = value.ToDatetime(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise FieldInvalid(violations=[(field, "is not a valid time")]) from None
    if (value.seconds < 0 and not before_1970) or result.year > _LAST_YEAR:
        raise FieldInvalid(violations=[(field, "lies before 1970 or after 9999")])
    return result


def json_of(message: Message, field: str) -> str | None:
    """Read an optional Struct or ListValue field as JSON text; None when unset.

    Raises FieldInvalid for NaN and infinities, which JSON cannot say, for what is nested too deep for an answer, and
    for more than MAX_JSON_BYTES.
    """
    if not message.HasField(field):
        return None
    try:
        value = json_format.MessageToDict(getattr(message, field))
        if _levels(value) > _DEEPEST:
            raise FieldInvalid(violations=[(field, f"is nested more than {_DEEPEST} levels deep")])
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, json_format.SerializeToJsonError):
        raise FieldInvalid(violations=[(field, "holds a number that JSON cannot say")]) from None
    if len(text.encode()) > MAX_JSON_BYTES:
        raise FieldInvalid(violations=[(field, f"holds more than {MAX_JSON_BYTES // 1024} KiB of JSON")])
    return text


def _levels(value: object) -> int:
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(_levels, value.values() if isinstance(value, dict) else value), default=0)


def struct(text: str | None) -> Struct | None:
    """Convert the JSON text of an object; None stays unset."""
    return None if text is None else json_format.ParseDict(json.loads(text), Struct())


def list_value(text: str | None) -> ListValue | None:
    """Convert the JSON text of an array; None stays unset."""
    return None if text is None else json_format.ParseDict(json.loads(text), ListValue())


def spell_mask(request: Message) -> None:
    """Spell the paths of a request's update_mask as the contract spells fields: displayName becomes display_name."""
    mask: FieldMask | None = getattr(request, "update_mask", None)
    if mask is not None and any(path != path.lower() for path in mask.paths):
        mask.paths[:] = [_CAPITAL.sub(lambda letter: f"_{letter.group().lower()}", path) for path in mask.paths]


def masked(mask: FieldMask, allowed: Collection[str]) -> frozenset[str]:
    """Return the fields to update: those named, or all when none is. Raises UpdateMaskInvalid for one not `allowed`."""
    wrong = sorted(set(mask.paths) - set(allowed))
    if wrong:
        names = ", ".join(sorted(allowed))
        raise UpdateMaskInvalid(
            violations=[("update_mask", f"{path} cannot be updated; these can: {names}") for path in wrong]
        )
    return frozenset(mask.paths or allowed)
