"""Numbers that no double holds, around the SDK, whose models know int and float alone. Knows no server.

Arguments with such numbers are read from the body itself. In an answer they go through the SDK as marked text, which
the body has numbers for once it is written.
"""

from __future__ import annotations

import re
import secrets
from decimal import Decimal
from typing import Any

from skein_kit.json_values import exact

# Random, so no other text begins so.
_MARK = secrets.token_hex(16)
_MARKED = re.compile(rb'"' + _MARK.encode() + rb'([^"]*)"')
# A number of fewer digits is what its double says.
_LONG = re.compile(rb"[\d.]{16}")


def arguments_in(body: bytes) -> dict[str, Any] | None:
    """Return the arguments of a call of a tool with exact numbers; None where the SDK's own reading is as good."""
    if _LONG.search(body) is None:
        return None
    try:
        message = exact.loads_mixed(body)
    except (ValueError, RecursionError):
        # What is wrong with it is the SDK's to say.
        return None
    params = message.get("params") if isinstance(message, dict) else None
    arguments = params.get("arguments") if isinstance(params, dict) else None
    return arguments if isinstance(arguments, dict) else None


def marked(value: Any) -> Any:
    """Return an answer as the SDK writes it."""
    if isinstance(value, Decimal):
        return f"{_MARK}{value}"
    if isinstance(value, dict):
        return {name: marked(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [marked(inner) for inner in value]
    return value


def unmarked(body: bytes) -> bytes:
    """Return a written answer with its numbers; spaces keep the length that its header says."""
    return _MARKED.sub(lambda found: found.group(1).ljust(len(found.group())), body)
