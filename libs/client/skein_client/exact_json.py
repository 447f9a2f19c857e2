"""JSON fields of messages, such as `data` of a memory, as Python values with exact numbers.

The numbers of a field such as `data`, a Struct, are doubles; the field `data_json` has the exact JSON text.
"""

from __future__ import annotations

import json
import re
import secrets
from decimal import Decimal
from typing import Any, TypeVar

from google.protobuf import json_format
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import ListValue, Struct, Value

_Message = TypeVar("_Message", bound="Message")

_TEXT = "_json"
# The largest integer up to which every integer is a double.
_MAX_EXACT_INTEGER = 2**53
# Marks a Decimal, which the standard encoder writes as text; random, so that no other text begins with it.
_DECIMAL_PREFIX = secrets.token_hex(16)
_MARKED_DECIMAL = re.compile(rf'"{_DECIMAL_PREFIX}([^"]*)"')
_KINDS = frozenset(kind.DESCRIPTOR.full_name for kind in (Struct, ListValue, Value))


def with_json(message: _Message, **values: Any) -> _Message:
    """Set JSON fields of a message: `with_json(Memory(content="..."), data={"n": 9007199254740993})`; return it.

    Values are dicts, lists, texts, int, float, Decimal, bool and None. Raises TypeError or ValueError for other values,
    and AttributeError for a field that is no JSON field.
    """
    for field, value in values.items():
        set_json(message, field, value)
    return message


def set_json(message: Message, field: str, value: Any) -> None:
    """Set a JSON field and its text to a value. Raises the errors of with_json."""
    if not is_json(message, field):
        text = f"{message.DESCRIPTOR.full_name} has no JSON field {field}"
        raise AttributeError(text)
    json_text = dumps(value)
    message.ClearField(field)
    try:
        json_format.ParseDict(json.loads(json_text), getattr(message, field))
    except (OverflowError, json_format.ParseError) as error:
        text = f"{field} cannot have this value: {error}"
        raise ValueError(text) from None
    # An empty object is set as well.
    getattr(message, field).SetInParent()
    setattr(message, field + _TEXT, json_text)


def get_json(message: Message, field: str) -> Any:
    """Return the value of a JSON field; None when unset. Raises AttributeError for a field that is no JSON field.

    Integers are int. A fraction is a float, or a Decimal when a float would lose digits.
    """
    if not is_json(message, field):
        text = f"{message.DESCRIPTOR.full_name} has no JSON field {field}"
        raise AttributeError(text)
    json_text: str = getattr(message, field + _TEXT)
    if json_text:
        return loads(json_text)
    # A cluster of an older version writes no text.
    return _parse_integer(json_format.MessageToDict(getattr(message, field))) if message.HasField(field) else None


def is_json(message: Message, field: str) -> bool:
    """Return whether a field of a message is a JSON field with a text."""
    fields: Any = message.DESCRIPTOR.fields_by_name
    kind = fields[field].message_type if field in fields else None
    return kind is not None and kind.full_name in _KINDS and field + _TEXT in fields


def dumps(value: Any, *, sort_keys: bool = False) -> str:
    """Return JSON text with every digit of Decimals. Raises TypeError or ValueError for a value that is no JSON."""
    decimals: list[Decimal] = []

    def mark_decimal(number: object) -> str:
        if not isinstance(number, Decimal):
            text = f"JSON has no {type(number).__name__}"
            raise TypeError(text)
        if not number.is_finite():
            text = "JSON has no infinities and no NaN"
            raise ValueError(text)
        decimals.append(number)
        return f"{_DECIMAL_PREFIX}{number}"

    json_text = json.dumps(value, default=mark_decimal, allow_nan=False, ensure_ascii=False, sort_keys=sort_keys)
    return _MARKED_DECIMAL.sub(r"\1", json_text) if decimals else json_text


def loads(text: str) -> Any:
    """Parse JSON; a fraction is a float, or a Decimal when a float would lose digits."""
    return json.loads(text, parse_float=_parse_fraction)


def _parse_fraction(text: str) -> float | Decimal:
    exact = Decimal(text)
    double = float(text)
    return double if Decimal(repr(double)) == exact else exact


def _parse_integer(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _parse_integer(element) for name, element in value.items()}
    if isinstance(value, list):
        return [_parse_integer(element) for element in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) <= _MAX_EXACT_INTEGER else value
