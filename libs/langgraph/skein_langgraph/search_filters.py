"""LangGraph's filters of items and namespaces, and the part that Skein's indexes can answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from langgraph.store.base import MatchCondition

from skein_langgraph.namespaces import Namespace

# Most items or namespaces that one operation scans.
MAX_LOOKED_AT = 10_000
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_TEXT = 200
# Skein reads 4,000 characters and 50 conditions.
_MAX_WHERE = 1500
_MAX_STEPS = 8
_OPERATORS = frozenset({"$eq", "$ne", "$gt", "$gte", "$lt", "$lte"})


class SearchLimitExceeded(ValueError):
    """An operation would scan more than 10,000 rows; the message says what to narrow."""


def matches(value: Mapping[str, Any], expected: Mapping[str, Any] | None) -> bool:
    """Say whether a value matches a filter. Raises ValueError for an unknown operator."""
    return all(_equal(value.get(name), condition) for name, condition in (expected or {}).items())


def to_filter(expected: Mapping[str, Any] | None) -> str:
    """Return a Skein condition for indexes, which all matching items pass and perhaps others."""
    result = ""
    for path, text in _texts("data", expected or {}, 0):
        longer = f"{result} AND {path} = {_quoted(text)}" if result else f"{path} = {_quoted(text)}"
        if len(longer) > _MAX_WHERE:
            break
        result = longer
    return result


def namespace_matches(namespace: Namespace, conditions: Iterable[MatchCondition]) -> bool:
    """Say whether a namespace matches all conditions."""
    return all(_matches_condition(namespace, condition) for condition in conditions)


def common_prefix(conditions: Iterable[MatchCondition]) -> Namespace:
    """Return the longest common prefix without a wildcard."""
    best: Namespace = ()
    for condition in conditions:
        if condition.match_type == "prefix":
            plain = condition.path[: condition.path.index("*")] if "*" in condition.path else condition.path
            best = max(best, tuple(plain), key=len)
    return best


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _matches_condition(namespace: Namespace, condition: MatchCondition) -> bool:
    path = condition.path
    if condition.match_type not in {"prefix", "suffix"}:
        raise ValueError(f"namespaces are matched by prefix or suffix, not by {condition.match_type!r}")
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(expected in {"*", label} for label, expected in zip(part, path, strict=True))


def _equal(value: Any, expected: Any) -> bool:
    if isinstance(expected, dict):
        if any(name.startswith("$") for name in expected):
            return all(_compare(value, operator, operand) for operator, operand in expected.items())
        return isinstance(value, dict) and all(_equal(value.get(name), below) for name, below in expected.items())
    if isinstance(expected, list | tuple):
        return (
            isinstance(value, list)
            and len(value) == len(expected)
            and all(_equal(one, other) for one, other in zip(value, expected, strict=True))
        )
    return bool(value == expected)


def _compare(value: Any, operator: str, operand: Any) -> bool:
    if operator not in _OPERATORS:
        raise ValueError(f"a filter's operators are {', '.join(sorted(_OPERATORS))}, not {operator}")
    if operator in {"$eq", "$ne"}:
        return bool(value == operand) == (operator == "$eq")
    one, other = _ordered(value, operand)
    if one is None:
        return False
    return bool({"$gt": one > other, "$gte": one >= other, "$lt": one < other, "$lte": one <= other}[operator])


def _ordered(value: Any, operand: Any) -> tuple[Any, Any]:
    """Return both values as numbers or as texts for comparison, or two None."""
    if _is_number(value) and _is_number(operand):
        # Unrounded: large numbers would become equal.
        return value, operand
    try:
        return float(value), float(operand)
    except (TypeError, ValueError):
        return (value, operand) if isinstance(value, str) and isinstance(operand, str) else (None, None)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _texts(path: str, expected: Mapping[str, Any], depth: int) -> Iterable[tuple[str, str]]:
    """Yield the properties that must equal a text. Only texts compare in Skein as in Python."""
    if depth >= _MAX_STEPS:
        return
    for name, condition in expected.items():
        if not _NAME.fullmatch(name):
            continue
        if isinstance(condition, dict):
            condition = condition.get("$eq", condition)  # noqa: PLW2901 - the same condition, said shorter.
        if isinstance(condition, str) and 0 < len(condition) <= _MAX_TEXT and condition.isprintable():
            yield f"{path}.{name}", condition
        elif isinstance(condition, dict) and not any(key.startswith("$") for key in condition):
            yield from _texts(f"{path}.{name}", condition, depth + 1)
