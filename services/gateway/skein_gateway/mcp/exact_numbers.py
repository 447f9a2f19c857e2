"""Carries numbers that no double can hold through the SDK, whose models know only int and float. Knows no server.

Arguments with such numbers are parsed from the body directly. Responses pass them through the SDK as marked strings,
which are replaced by numbers in the written body.
"""

from __future__ import annotations

import re
import secrets
from decimal import Decimal
from typing import Any

from skein_kit.json_values import exact

# Random, so that no other text starts with it.
_MARK = secrets.token_hex(16)
_MARKED = re.compile(rb'"' + _MARK.encode() + rb'([^"]*)"')
# A double holds any number of fewer digits exactly.
_LONG = re.compile(rb"[\d.]{16}")


def arguments_in(body: bytes) -> dict[str, Any] | None:
    """Return a tool call's arguments with exact numbers; None where the SDK's parsing loses nothing."""
    if _LONG.search(body) is None:
        return None
    try:
        message = exact.loads_mixed(body)
    except (ValueError, RecursionError):
        # The SDK reports what is wrong with the body.
        return None
    params = message.get("params") if isinstance(message, dict) else None
    arguments = params.get("arguments") if isinstance(params, dict) else None
    return arguments if isinstance(arguments, dict) else None


def mark_numbers(value: Any) -> Any:
    """Return a value with its decimals as marked strings."""
    if isinstance(value, Decimal):
        return f"{_MARK}{value}"
    if isinstance(value, dict):
        return {name: mark_numbers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [mark_numbers(item) for item in value]
    return value


def unmark_numbers(body: bytes) -> bytes:
    """Replace marked strings by numbers. Padding with spaces keeps the length in the content-length header."""
    return _MARKED.sub(lambda marked: marked.group(1).ljust(len(marked.group())), body)
