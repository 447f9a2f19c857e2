"""Ids of records without an id, derived from their content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from skein_kit.json_values import exact

_DERIVED_PREFIX = "jsonl-"
_DERIVED_DIGITS = 32


def derived_id(values: Mapping[str, Any]) -> str:
    """Return an id that depends on the line alone, so that a repeated import adds nothing.

    Raises InvalidJson for numbers that JSON cannot express.
    """
    try:
        text = exact.dumps(_plain(values), sort_keys=True, ensure_ascii=True, separators=(", ", ": "))
    except (ValueError, ArithmeticError, RecursionError):
        raise exact.InvalidJson(f"is not JSON: {exact.NO_NUMBER}") from None
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{_DERIVED_PREFIX}{digest[:_DERIVED_DIGITS]}"


def _plain(value: Any) -> Any:
    """Return values with floats for Decimals that are doubles: earlier versions derived ids from floats."""
    if isinstance(value, dict):
        return {name: _plain(element) for name, element in value.items()}
    if isinstance(value, list):
        return [_plain(element) for element in value]
    if isinstance(value, Decimal) and exact.is_double(value):
        return float(value)
    return value
