"""Numbers that no double holds, inside of Structs: there they stand as marked text.

Code that copies, merges and compares Structs in many places keeps exact numbers this way. They become the JSON text
beside a Struct where a message leaves, and come from it where one arrives.
"""

from __future__ import annotations

import re
import secrets
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from skein_kit.json_values import exact, fields, structs

if TYPE_CHECKING:
    from google.protobuf.message import Message

# Random, so no sender's text begins so.
_MARK = secrets.token_hex(16)
_MARK_BYTES = _MARK.encode()
# A number of fewer digits is what its double says.
_LONG = re.compile(r"[\d.]{16}")


def mark_numbers(value: Any) -> Any:
    """Return values as a Struct takes them, with marked text for the numbers that it would round."""
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
    """Return the number that marked text is; None for other text."""
    if not text.startswith(_MARK):
        return None
    number: int | Decimal = exact.loads(text.removeprefix(_MARK))
    return number


def unmark_message(message: Message) -> None:
    """Turn marked text in a message into the JSON text beside its Struct."""
    if _MARK_BYTES not in message.SerializeToString():
        return
    for part, name in fields.json_fields_in(message):
        if part.HasField(name):
            value = _unmarked(structs.value_of(getattr(part, name)))
            # Whether a field takes it, is the service's to say.
            setattr(part, name + fields.TEXT, exact.dumps(value))
            structs.write(getattr(part, name), value)


def mark_message(reply: Message) -> None:
    """Turn the JSON text beside a reply's Structs into marked text within them."""
    for message, name in fields.json_fields_in(reply):
        text: str = getattr(message, name + fields.TEXT)
        if _LONG.search(text):
            structs.write(getattr(message, name), mark_numbers(exact.loads(text)))
        message.ClearField(name + fields.TEXT)


def _unmarked(value: Any) -> Any:
    if isinstance(value, str):
        number = number_in(value)
        return value if number is None else number
    if isinstance(value, dict):
        return {name: _unmarked(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_unmarked(inner) for inner in value]
    return value
