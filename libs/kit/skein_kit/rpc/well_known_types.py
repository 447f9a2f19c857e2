"""Conversions between protobuf's well-known types and Python's, for the `rpc.py` and `convert.py` of services."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import operator
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from skein_kit.errors import FieldInvalid, UpdateMaskInvalid
from skein_kit.ids import EPOCH
from skein_kit.json_values import exact, fields, structs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from _typeshed import DataclassInstance
    from asyncpg import Record
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


def to_message(
    kind: type[Converted], row: DataclassInstance | Record | Mapping[str, Any], **extra_fields: Any
) -> Converted:
    """Return a message with the columns of a row, or the fields and properties of a value, that have the same names.

    A field of `extra_fields` is taken from there. UUIDs become text, times Timestamps, JSON text a Struct, ListValue or
    Value with the exact text beside it, and the name of an enum's value the value ("user" is MESSAGE_ROLE_USER). None
    stays unset.
    """
    names, read = _readable(row)
    values: dict[str, Any] = {}
    for name, convert in _conversions(kind.DESCRIPTOR, names):
        if name not in extra_fields and (value := read(row, name)) is not None:
            values[name] = value if convert is None else convert(value)
    for name, json_fields in _json_conversions(kind.DESCRIPTOR, names):
        if name not in extra_fields:
            values |= json_fields(**{name: read(row, name)})
    return kind(**values, **extra_fields)


def _readable(row: Any) -> tuple[tuple[str, ...], Callable[[Any, str], Any]]:
    """Return the names of a row or value, and what reads one of them."""
    if dataclasses.is_dataclass(row):
        kind: Any = type(row)
        return _attributes(kind), getattr
    return tuple(row.keys()), operator.getitem


@functools.cache
def _attributes(kind: Any) -> tuple[str, ...]:
    properties = inspect.getmembers(kind, lambda member: isinstance(member, property))
    return (*(field.name for field in dataclasses.fields(kind)), *(name for name, _ in properties))


@functools.lru_cache(maxsize=1024)
def _conversions(kind: Any, names: tuple[str, ...]) -> tuple[tuple[str, Callable[[Any], Any] | None], ...]:
    """Return what converts the value of each name that is a field without JSON text; None: it stays as it is."""
    json_names = fields.json_field_names(kind)
    fields_by_name = {name: kind.fields_by_name[name] for name in names if name in kind.fields_by_name}
    return tuple((name, _conversion(field)) for name, field in fields_by_name.items() if name not in json_names)


@functools.lru_cache(maxsize=1024)
def _json_conversions(kind: Any, names: tuple[str, ...]) -> tuple[tuple[str, Callable[..., dict[str, Any]]], ...]:
    json_names = fields.json_field_names(kind)
    return tuple(
        (name, _JSON_FIELDS[kind.fields_by_name[name].message_type.name]) for name in names if name in json_names
    )


def _conversion(field: Any) -> Callable[[Any], Any] | None:
    if field.enum_type is not None and not field.is_repeated:
        prefix = field.enum_type.values[0].name.removesuffix("UNSPECIFIED")
        return lambda value: value if isinstance(value, int) else f"{prefix}{value.upper()}"
    if field.message_type is Timestamp.DESCRIPTOR and not field.is_repeated:
        return to_timestamp
    is_text = field.type == FieldDescriptor.TYPE_STRING
    return _to_field if is_text or field.message_type is not None else None


def _to_field(value: object) -> object:
    if type(value) is str:
        return value
    if isinstance(value, datetime):
        return to_timestamp(value)
    if isinstance(value, list | tuple):
        return [_to_field(item) for item in value]
    return str(value) if isinstance(value, UUID) else value


_JSON_FIELDS = {"Struct": fields.fields, "ListValue": fields.list_fields, "Value": fields.value_fields}


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
