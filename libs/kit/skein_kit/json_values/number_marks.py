"""Marked text: the form of numbers in a Struct that a double would round.

It keeps numbers exact in code that copies, merges and compares Structs in many places. Marked text becomes the field
`x_json` of a message that leaves, and comes from that of a message that arrives.
"""

from __future__ import annotations

import re
import secrets
from decimal import Decimal
from typing import Any

from google.protobuf.message import Message

from skein_kit.json_values import exact, fields, structs

# Random, so that no caller's text begins with it.
_MARK = secrets.token_hex(16)
_MARK_BYTES = _MARK.encode()
# A double has every number of fewer digits.
_LONG = re.compile(r"[\d.]{16}")


def mark_numbers(value: Any) -> Any:
    """Return JSON values for a Struct, with marked text for the numbers that it would round."""
    if isinstance(value, exact.ExactFloat):
        value = value.exact
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        if not exact.is_double(value):
            return f"{_MARK}{value}"
        return float(value)
    if isinstance(value, dict):
        return {name: mark_numbers(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [mark_numbers(inner) for inner in value]
    return value


def number_in(text: str) -> int | Decimal | None:
    """Return the number of marked text; None for other text."""
    if not text.startswith(_MARK):
        return None
    number: int | Decimal = exact.loads(text.removeprefix(_MARK))
    return number


def unmark_message(message: Message) -> None:
    """Set `x_json` of each Struct `x` with marked text, and round the numbers in `x`."""
    if _MARK_BYTES not in message.SerializeToString():
        return
    for part, name in fields.json_fields_in(message):
        if part.HasField(name):
            value = _unmark(structs.value_of(getattr(part, name)))
            # The service validates it.
            setattr(part, name + fields.TEXT, exact.dumps(value))
            structs.write(getattr(part, name), value)


def mark_message(reply: Message) -> None:
    """Set marked text in each Struct `x` of a reply from `x_json`, and clear `x_json`."""
    for message, name in fields.json_fields_in(reply):
        text: str = getattr(message, name + fields.TEXT)
        if _LONG.search(text):
            structs.write(getattr(message, name), mark_numbers(exact.loads(text)))
        message.ClearField(name + fields.TEXT)


def _unmark(value: Any) -> Any:
    if isinstance(value, str):
        number = number_in(value)
        return value if number is None else number
    if isinstance(value, dict):
        return {name: _unmark(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_unmark(inner) for inner in value]
    return value
