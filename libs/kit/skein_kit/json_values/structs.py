"""Exact JSON as protobuf's Struct, ListValue and Value, whose numbers are doubles, and back."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from google.protobuf.struct_pb2 import ListValue, NullValue, Struct, Value

from skein_kit.json_values.exact import (
    MAX_JSON_BYTES,
    NO_NUMBER,
    TOO_LONG,
    InvalidJson,
    check_depth,
    dumps,
    equal_values,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Whole doubles below are written without an exponent, as JavaScript does it.
_PLAIN_WHOLE = 1e21
# The largest whole number below which every whole number is a double. A double beyond it is written with its shortest
# decimal form, and zeros fill the other places.
_LAST_EXACT_WHOLE = 2**53


def value_of(message: Struct | ListValue | Value) -> Any:
    """Return what a message says, whole numbers as int. Raises InvalidJson for NaN and infinities."""
    if isinstance(message, Struct):
        return {name: _plain(value) for name, value in message.fields.items()}
    if isinstance(message, ListValue):
        return [_plain(value) for value in message.values]
    return _plain(message)


def text_of(message: Struct | ListValue | Value) -> str:
    """Return a message as JSON text. Raises InvalidJson for NaN, infinities and what is too deep or too long."""
    value = value_of(message)
    check_depth(value)
    text = dumps(value)
    if len(text.encode()) > MAX_JSON_BYTES:
        raise InvalidJson(TOO_LONG)
    return text


def struct(value: Mapping[str, Any]) -> Struct:
    """Return an object as a message, its numbers rounded to doubles."""
    made = Struct()
    fill_struct(made, value)
    return made


def list_value(value: Sequence[Any]) -> ListValue:
    """Return an array as a message, its numbers rounded to doubles."""
    made = ListValue()
    fill_list(made, value)
    return made


def any_value(value: object) -> Value:
    """Return any JSON as a message, its numbers rounded to doubles."""
    made = Value()
    fill(made, value)
    return made


def write(message: Struct | ListValue | Value, value: Any) -> None:
    """Write values over a message of their kind, their numbers rounded to doubles."""
    if isinstance(message, Struct):
        fill_struct(message, value)
    elif isinstance(message, ListValue):
        fill_list(message, value)
    else:
        fill(message, value)


def equal_as_doubles(message: Struct | ListValue | Value, value: object) -> bool:
    """Say whether a message says what the values do, once their numbers are rounded to doubles."""
    return equal_values(value_of(message), value, float)


def fill_struct(made: Struct, value: Mapping[str, Any]) -> None:
    """Write an object over a message, which is set even by an empty one."""
    made.Clear()
    made.SetInParent()
    fields = made.fields
    for name, inner in value.items():
        fill(fields[name], inner)


def fill_list(made: ListValue, value: Sequence[Any]) -> None:
    """Write an array over a message, which is set even by an empty one."""
    made.Clear()
    made.SetInParent()
    add = made.values.add
    for inner in value:
        fill(add(), inner)


def fill(made: Value, value: Any) -> None:
    """Write any JSON over a message."""
    if isinstance(value, str):
        made.string_value = value
    elif isinstance(value, bool):
        made.bool_value = value
    elif isinstance(value, int | float | Decimal):
        made.number_value = float(value)
    elif value is None:
        made.null_value = NullValue.NULL_VALUE
    elif isinstance(value, dict):
        fill_struct(made.struct_value, value)
    else:
        fill_list(made.list_value, value)


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
    """Return a double as JSON has it: whole numbers below 1e21 as int. Raises InvalidJson for NaN and infinities."""
    if number.is_integer() and abs(number) < _PLAIN_WHOLE:
        return int(number) if abs(number) <= _LAST_EXACT_WHOLE else int(Decimal(repr(number)))
    if not math.isfinite(number):
        raise InvalidJson(NO_NUMBER)
    return number
