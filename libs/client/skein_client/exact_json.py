"""Free JSON of messages (a memory's data and metadata, ...) as Python's values, with every digit of their numbers.

A field such as `data` is a Struct, which has doubles alone; its text beside it, `data_json`, has what was written.
"""

from __future__ import annotations

import json
import re
import secrets
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

from google.protobuf import json_format
from google.protobuf.struct_pb2 import ListValue, Struct, Value

if TYPE_CHECKING:
    from google.protobuf.message import Message

_Message = TypeVar("_Message", bound="Message")

_TEXT = "_json"
# Whole numbers up to here have a double each.
_LAST_WHOLE = 2**53
# Stands before a Decimal while the standard encoder writes it as text; random, so no other text begins so.
_MARK = secrets.token_hex(16)
_MARKED = re.compile(rf'"{_MARK}([^"]*)"')
_KINDS = frozenset(kind.DESCRIPTOR.full_name for kind in (Struct, ListValue, Value))


def with_json(message: _Message, **values: Any) -> _Message:
    """Set fields of free JSON, `with_json(Memory(content="..."), data={"n": 9007199254740993})`, and return it.

    Values are dicts, lists, texts, int, float, Decimal, bool and None. Raises TypeError or ValueError for what is no
    JSON, and AttributeError for a field that is none of free JSON.
    """
    for field, value in values.items():
        set_json(message, field, value)
    return message


def set_json(message: Message, field: str, value: Any) -> None:
    """Set a field of free JSON and the text beside it to a value; they say the same from then on."""
    if not is_json(message, field):
        text = f"{message.DESCRIPTOR.full_name} has no free JSON called {field}"
        raise AttributeError(text)
    written = dumps(value)
    message.ClearField(field)
    try:
        json_format.ParseDict(json.loads(written), getattr(message, field))
    except (OverflowError, json_format.ParseError) as error:
        text = f"{field} cannot be that: {error}"
        raise ValueError(text) from None
    # An empty object is set as well.
    getattr(message, field).SetInParent()
    setattr(message, field + _TEXT, written)


def get_json(message: Message, field: str) -> Any:
    """Return the value of a field of free JSON; None when unset.

    Whole numbers are int. A fraction is a float where that has all its digits, else a Decimal.
    """
    if not is_json(message, field):
        text = f"{message.DESCRIPTOR.full_name} has no free JSON called {field}"
        raise AttributeError(text)
    written: str = getattr(message, field + _TEXT)
    if written:
        return loads(written)
    # A cluster of an older version writes no text.
    return _parse_integer(json_format.MessageToDict(getattr(message, field))) if message.HasField(field) else None


def is_json(message: Message, field: str) -> bool:
    """Say whether a field of a message is free JSON with its text beside it."""
    fields: Any = message.DESCRIPTOR.fields_by_name
    kind = fields[field].message_type if field in fields else None
    return kind is not None and kind.full_name in _KINDS and field + _TEXT in fields


def dumps(value: Any, *, sort_keys: bool = False) -> str:
    """Write JSON with every digit of its Decimals. Raises TypeError or ValueError for what is no JSON."""
    marks: list[Decimal] = []

    def marked(number: object) -> str:
        if not isinstance(number, Decimal):
            text = f"JSON has no {type(number).__name__}"
            raise TypeError(text)
        if not number.is_finite():
            text = "JSON has no infinities and no NaN"
            raise ValueError(text)
        marks.append(number)
        return f"{_MARK}{number}"

    written = json.dumps(value, default=marked, allow_nan=False, ensure_ascii=False, sort_keys=sort_keys)
    return _MARKED.sub(r"\1", written) if marks else written


def loads(text: str) -> Any:
    """Read JSON; a fraction is a float where that has all its digits, else a Decimal."""
    return json.loads(text, parse_float=_parse_fraction)


def _parse_fraction(text: str) -> float | Decimal:
    exact = Decimal(text)
    double = float(text)
    return double if Decimal(repr(double)) == exact else exact


def _parse_integer(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _parse_integer(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_parse_integer(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) <= _LAST_WHOLE else value
