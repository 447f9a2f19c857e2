"""Conversions of JSON values to and from protobuf's Struct, ListValue and Value, whose numbers are doubles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from google.protobuf.struct_pb2 import ListValue, NullValue, Struct, Value

from skein_kit.admission.processor_time import with_pauses
from skein_kit.json_values.exact import (
    MAX_JSON_BYTES,
    NO_NUMBER,
    TOO_LONG,
    InvalidJson,
    check_depth,
    dumps,
    equal_values,
)

# Values of which the conversion takes a millisecond.
_MANY = 500
# Integral doubles below this are written without an exponent, as in JavaScript.
_PLAIN_WHOLE = 1e21
# The largest integer up to which every integer is a double. A larger double is written in its shortest decimal form,
# filled with zeros.
_LAST_EXACT_WHOLE = 2**53


def value_of(message: Struct | ListValue | Value) -> Any:
    """Return the JSON values of a message, integral numbers as int. Raises InvalidJson for NaN and infinities."""
    if isinstance(message, Struct):
        return {name: _plain(value) for name, value in message.fields.items()}
    if isinstance(message, ListValue):
        return [_plain(value) for value in message.values]
    return _plain(message)


def text_of(message: Struct | ListValue | Value) -> str:
    """Return a message as JSON text. Raises InvalidJson for NaN, infinities, too many levels and too long a text."""
    value = value_of(message)
    check_depth(value)
    text = dumps(value)
    if len(text.encode()) > MAX_JSON_BYTES:
        raise InvalidJson(TOO_LONG)
    return text


def struct(value: Mapping[str, Any]) -> Struct:
    """Return an object as a message, its numbers rounded to doubles."""
    message = Struct()
    fill_struct(message, value)
    return message


def list_value(value: Sequence[Any]) -> ListValue:
    """Return an array as a message, its numbers rounded to doubles."""
    message = ListValue()
    fill_list(message, value)
    return message


def any_value(value: object) -> Value:
    """Return any JSON as a message, its numbers rounded to doubles."""
    message = Value()
    fill(message, value)
    return message


def write(message: Struct | ListValue | Value, value: Any) -> None:
    """Replace a message by values of its type, their numbers rounded to doubles."""
    if isinstance(message, Struct):
        fill_struct(message, value)
    elif isinstance(message, ListValue):
        fill_list(message, value)
    else:
        fill(message, value)


def equal_as_doubles(message: Struct | ListValue | Value, value: object) -> bool:
    """Return whether a message equals the values, after their numbers are rounded to doubles."""
    return equal_values(value_of(message), value, float)


def fill_struct(message: Struct, value: Mapping[str, Any]) -> None:
    """Replace a message by an object; an empty object sets it too."""
    message.Clear()
    message.SetInParent()
    fields = message.fields
    for name, inner in with_pauses(value.items()) if len(value) > _MANY else value.items():
        fill(fields[name], inner)


def fill_list(message: ListValue, value: Sequence[Any]) -> None:
    """Replace a message by an array; an empty array sets it too."""
    message.Clear()
    message.SetInParent()
    add = message.values.add
    for inner in with_pauses(value) if len(value) > _MANY else value:
        fill(add(), inner)


def fill(message: Value, value: Any) -> None:
    """Replace a message by any JSON value."""
    if isinstance(value, str):
        message.string_value = value
    elif isinstance(value, bool):
        message.bool_value = value
    elif isinstance(value, int | float | Decimal):
        message.number_value = float(value)
    elif value is None:
        message.null_value = NullValue.NULL_VALUE
    elif isinstance(value, dict):
        fill_struct(message.struct_value, value)
    else:
        fill_list(message.list_value, value)


def _plain(value: Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return value.string_value
    if kind == "number_value":
        return plain_number(value.number_value)
    if kind == "bool_value":
        return value.bool_value
    if kind == "struct_value":
        return {name: _plain(inner) for name, inner in value.struct_value.fields.items()}
    if kind == "list_value":
        return [_plain(inner) for inner in value.list_value.values]
    return None


def plain_number(number: float) -> int | float:
    """Return a double as int if it is integral and below 1e21. Raises InvalidJson for NaN and infinities."""
    if number.is_integer() and abs(number) < _PLAIN_WHOLE:
        return int(number) if abs(number) <= _LAST_EXACT_WHOLE else int(Decimal(repr(number)))
    if not math.isfinite(number):
        raise InvalidJson(NO_NUMBER)
    return number
