"""Holds a condition against a memory, as the database would."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from skein_kit.filters.expression import And, Compare, Contains, Expression, Has, In, Not, Or, Path, Tags, Value
from skein_kit.filters.fields import FIELDS, Kind, priority_of

_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def matches(expression: Expression, memory: Mapping[str, object]) -> bool:  # noqa: C901, PLR0911 - one for each kind.
    """Say whether a memory passes, given by its fields.

    Texts and times are None where there is none, `tags` a collection, `metadata` and `data` what their JSON says,
    `content_hash` hexadecimal digits.
    """
    match expression:
        case And(parts):
            return all(matches(part, memory) for part in parts)
        case Or(parts):
            return any(matches(part, memory) for part in parts)
        case Not(part):
            return not matches(part, memory)
        case Tags(mode, tags):
            carried = set(_collection(memory.get("tags")))
            if mode == "all":
                return carried.issuperset(tags)
            return carried.isdisjoint(tags) == (mode == "none")
        case Contains(path, text):
            return database_lower(text) in database_lower(str(_plain(path, memory)))
        case Has(path):
            return _is_set(path, memory)
        case Compare(path, "!=", value):
            return not _compare(path, "=", value, memory)
        case Compare(path, sign, value):
            return _compare(path, sign, value, memory)
        case In(path, values):
            return any(_compare(path, "=", value, memory) for value in values)


def database_lower(text: str) -> str:
    """Return small letters, each letter by itself, as the database does."""
    # Python lowers a final sigma, and the only letter that becomes two, by rules of their own. No text holds a NUL.
    return text.replace("Σ", "\u03c3").replace("İ", "\0").lower().replace("\0", "İ")


def _compare(path: Path, sign: str, value: Value, memory: Mapping[str, object]) -> bool:
    if FIELDS[path[0]].kind is Kind.PROPERTIES:
        return any(_property(sign, item, value) for item in _items(path, memory))
    found = _plain(path, memory)
    return found is not None and _OPERATORS[sign](found, value)


def _property(sign: str, item: object, value: Value) -> bool:
    if isinstance(item, bool) or isinstance(value, bool):
        return sign == "=" and isinstance(item, bool) and item is value
    if isinstance(item, int | float | Decimal) and isinstance(value, int | float | Decimal):
        return _OPERATORS[sign](_exact(item), _exact(value))
    return isinstance(item, str) and isinstance(value, str) and _OPERATORS[sign](item, value)


def _exact(number: float | Decimal) -> Decimal:
    return Decimal(str(number)) if isinstance(number, float) else Decimal(number)


def _plain(path: Path, memory: Mapping[str, object]) -> object:
    """Return what a field is; of a text that is not there, the empty one."""
    field = FIELDS[path[0]]
    if field.name == "priority":
        importance = memory.get("importance")
        return priority_of(importance) if isinstance(importance, int | float) else None
    found = memory.get(field.column)
    return (found or "") if field.kind in {Kind.TEXT, Kind.DIGEST} else found


def _is_set(path: Path, memory: Mapping[str, object]) -> bool:
    field = FIELDS[path[0]]
    if field.kind is Kind.PROPERTIES and len(path) > 1:
        return any(item is not None for item in _items(path, memory))
    if field.kind is Kind.TAGS:
        return bool(_collection(memory.get("tags")))
    found = _plain(path, memory)
    return found is not None and found != ""


def _items(path: Path, memory: Mapping[str, object]) -> list[object]:
    """Return what a path leads to, through the items of lists on the way, and the items of a list at its end."""
    found: list[object] = [memory.get(path[0])]
    for key in path[1:]:
        found = [one[key] for one in _unwrapped(found) if isinstance(one, Mapping) and key in one]
    # A list in a list at the end as well.
    return list(_unwrapped(list(_unwrapped(found))))


def _unwrapped(items: list[object]) -> Iterator[object]:
    for item in items:
        if isinstance(item, list):
            yield from item
        else:
            yield item


def _collection(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple | set | frozenset) else []
