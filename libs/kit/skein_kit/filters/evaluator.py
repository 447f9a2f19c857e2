"""Evaluates an expression on one memory or message, with the same result as the compiled SQL."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from skein_kit.filters.expression import And, Compare, Contains, Expression, Has, In, Not, Or, Path, Tags, Value
from skein_kit.filters.fields import ITEM_FIELDS, Kind, fold_case, priority_of
from skein_kit.text.unicode_form import compared_form

_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def matches(expression: Expression, memory: Mapping[str, object]) -> bool:  # noqa: C901, PLR0911 - one for each kind.
    """Return whether a memory satisfies the expression.

    `memory` maps columns to values; unset ones are missing or None. `tags` is a collection, `metadata` and `data` are
    parsed JSON, and `content_hash` is hexadecimal. Of a message the mapping has its columns and `kind`.
    """
    match expression:
        case And(parts):
            return all(matches(part, memory) for part in parts)
        case Or(parts):
            return any(matches(part, memory) for part in parts)
        case Not(part):
            return not matches(part, memory)
        case Tags(mode, tags):
            memory_tags = set(_collection(memory.get("tags")))
            if mode == "all":
                return memory_tags.issuperset(tags)
            return memory_tags.isdisjoint(tags) == (mode == "none")
        case Contains(path, text):
            content = str(_plain(path, memory))
            return fold_case(text) in fold_case(compared_form(content) if compared_form(text) else content)
        case Has(path):
            return _is_set(path, memory)
        case Compare(path, "!=", value):
            return not _compare(path, "=", value, memory)
        case Compare(path, sign, value):
            return _compare(path, sign, value, memory)
        case In(path, values):
            return any(_compare(path, "=", value, memory) for value in values)


def _compare(path: Path, sign: str, value: Value, memory: Mapping[str, object]) -> bool:
    if ITEM_FIELDS[path[0]].kind is Kind.PROPERTIES:
        items = _items(path, memory)
        # An unset property equals the empty text, as an unset field does.
        is_unset = sign == "=" and value == "" and all(item is None for item in items)
        return is_unset or any(_property(sign, item, value) for item in items)
    field_value = _plain(path, memory)
    if ITEM_FIELDS[path[0]].ignores_case:
        field_value, value = fold_case(str(field_value)), fold_case(str(value))
    return field_value is not None and _OPERATORS[sign](field_value, value)


def _property(sign: str, item: object, value: Value) -> bool:
    if isinstance(item, bool) or isinstance(value, bool):
        return sign == "=" and isinstance(item, bool) and item is value
    if isinstance(item, int | float | Decimal) and isinstance(value, int | float | Decimal):
        return _OPERATORS[sign](_exact(item), _exact(value))
    return isinstance(item, str) and isinstance(value, str) and _OPERATORS[sign](item, value)


def _exact(number: float | Decimal) -> Decimal:
    return Decimal(str(number)) if isinstance(number, float) else Decimal(number)


def _plain(path: Path, memory: Mapping[str, object]) -> object:
    """Return the value of a field; the empty text for an unset text."""
    field = ITEM_FIELDS[path[0]]
    if field.name == "priority":
        importance = memory.get("importance")
        return priority_of(importance) if isinstance(importance, int | float) else None
    value = memory.get(field.column)
    return (value or "") if field.kind in {Kind.TEXT, Kind.DIGEST} else value


def _is_set(path: Path, memory: Mapping[str, object]) -> bool:
    field = ITEM_FIELDS[path[0]]
    if field.kind is Kind.PROPERTIES and len(path) > 1:
        return any(item is not None for item in _items(path, memory))
    if field.kind is Kind.TAGS:
        return bool(_collection(memory.get("tags")))
    value = _plain(path, memory)
    return value is not None and value != ""


def _items(path: Path, memory: Mapping[str, object]) -> list[object]:
    """Return the values at a path. A path continues in each item of a list, and ends at the items of a list."""
    values: list[object] = [memory.get(path[0])]
    for key in path[1:]:
        values = [value[key] for value in _flatten(values) if isinstance(value, Mapping) and key in value]
    # At the end, the items of lists within a list count too.
    return list(_flatten(list(_flatten(values))))


def _flatten(items: list[object]) -> Iterator[object]:
    for item in items:
        if isinstance(item, list):
            yield from item
        else:
            yield item


def _collection(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple | set | frozenset) else []
