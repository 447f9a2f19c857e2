"""Conversions between protobuf's well-known types and Python's, for the `rpc.py` and `convert.py` of services."""

from __future__ import annotations

import dataclasses
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from skein_kit.errors import FieldInvalid, UpdateMaskInvalid
from skein_kit.ids import EPOCH
from skein_kit.json_values import exact, fields, structs

if TYPE_CHECKING:
    from collections.abc import Collection

    from _typeshed import DataclassInstance
    from google.protobuf.message import Message

    Converted = TypeVar("Converted", bound=Message)

_CAPITAL = re.compile(r"(?<=[a-z0-9])[A-Z]")
_DAY_SECONDS = 86_400
# The last year that protobuf, UUIDv7 and Postgres support.
_LAST_YEAR = 9999
# asyncpg stores these as infinite times, and returns them without a time zone.
_INFINITE = (datetime.min, datetime.max)  # noqa: DTZ901 - the driver's have no zone either.


def to_timestamp(value: datetime | None) -> Timestamp | None:
    """Convert a time with a zone, or an infinite one of the database without a zone; None stays unset."""
    if value is None:
        return None
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    # As FromDatetime does, in a quarter of the time: a page has hundreds of times.
    elapsed = value - EPOCH
    return Timestamp(seconds=elapsed.days * _DAY_SECONDS + elapsed.seconds, nanos=elapsed.microseconds * 1000)


def to_message(kind: type[Converted], row: DataclassInstance, **extra_fields: Any) -> Converted:
    """Return a message with the fields of the row that have the same names, and with `extra_fields`.

    UUIDs become text and times Timestamps; None stays unset.
    """
    names = kind.DESCRIPTOR.fields_by_name.keys() - extra_fields.keys()
    row_fields = {
        field.name: _to_field(getattr(row, field.name)) for field in dataclasses.fields(row) if field.name in names
    }
    return kind(**row_fields, **extra_fields)


def _to_field(value: object) -> object:
    if isinstance(value, datetime):
        return to_timestamp(value)
    if isinstance(value, list | tuple):
        return [_to_field(item) for item in value]
    return str(value) if isinstance(value, UUID) else value


def read_time(
    message: Message, field: str, *, before_1970: bool = False, within: str = "", may_be_infinite: bool = False
) -> datetime | None:
    """Read an optional Timestamp field as UTC, to the microsecond; None when unset.

    Raises FieldInvalid for a time after 9999, or before 1970 (unless `before_1970`), where ids start. The first and the
    last possible time are refused (unless `may_be_infinite`), because asyncpg stores them as infinite. The violation
    names the field after `within`, such as "filter.".
    """
    if not message.HasField(field):
        return None
    value: Timestamp = getattr(message, field)
    try:
        result = value.ToDatetime(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise FieldInvalid(violations=[(f"{within}{field}", "is not a valid time")]) from None
    if not may_be_infinite and result.replace(tzinfo=None) in _INFINITE:
        raise FieldInvalid(violations=[(f"{within}{field}", "is the first or the last moment that there is")])
    if (value.seconds < 0 and not before_1970) or result.year > _LAST_YEAR:
        raise FieldInvalid(violations=[(f"{within}{field}", "lies before 1970 or after 9999")])
    return result


def json_text(message: Message, field: str) -> str | None:
    """Return the JSON text of a Struct, ListValue or Value field of a request that is complete; None when unset.

    Raises FieldInvalid for NaN and infinities, which JSON does not have. It is also raised for values nested too deep
    for a response, and for more than MAX_JSON_BYTES.
    """
    text: str = getattr(message, field + fields.TEXT)
    if text or not message.HasField(field):
        return text or None
    try:
        return structs.text_of(getattr(message, field))
    except exact.InvalidJson as error:
        raise FieldInvalid(violations=[(field, str(error))]) from None


def merge_masked(mask: FieldMask, source: Message, target: Message) -> None:
    """Copy the fields that a mask names from `source` to `target`, with their JSON texts."""
    texts = [path + fields.TEXT for path in mask.paths if path in fields.json_field_names(source.DESCRIPTOR)]
    full_mask = FieldMask(paths=[*mask.paths, *texts])
    full_mask.MergeMessage(source, target, replace_message_field=True, replace_repeated_field=True)


def normalize_mask(request: Message) -> None:
    """Normalize the paths of a request's update_mask: displayName becomes display_name."""
    mask: FieldMask | None = getattr(request, "update_mask", None)
    if mask is not None and any(path != path.lower() for path in mask.paths):
        mask.paths[:] = [_CAPITAL.sub(lambda letter: f"_{letter.group().lower()}", path) for path in mask.paths]


def updated_fields(mask: FieldMask, allowed: Collection[str]) -> frozenset[str]:
    """Return the fields in a mask, or all for an empty one. Raises UpdateMaskInvalid for a field not in `allowed`."""
    unknown_paths = sorted(set(mask.paths) - set(allowed))
    if unknown_paths:
        names = ", ".join(sorted(allowed))
        raise UpdateMaskInvalid(
            violations=[("update_mask", f"{path} cannot be updated; these can: {names}") for path in unknown_paths]
        )
    return frozenset(mask.paths or allowed)
