"""The part of an expression that depends on the fields of one kind of items. The other conditions are decided by it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from skein_kit.filters.evaluator import matches
from skein_kit.filters.expression import And, Expression, Not, Or, Tags
from skein_kit.filters.fields import FIELDS, ITEM_KINDS, MESSAGE_FIELDS, Field

_FIELDS_OF: Mapping[str, Mapping[str, Field]] = MappingProxyType(
    dict(zip(ITEM_KINDS, (FIELDS, MESSAGE_FIELDS), strict=True))
)


def for_kind(expression: Expression, kind: str) -> Expression | bool:
    """Return the expression for items of one kind, without conditions on `kind` and on fields that the kind lacks.

    Those fields are unset. The result is true or false where it is the same for all items of the kind.
    """
    match expression:
        case And(parts):
            return _join(parts, kind, And, neutral=True)
        case Or(parts):
            return _join(parts, kind, Or, neutral=False)
        case Not(part):
            inner = for_kind(part, kind)
            return not inner if isinstance(inner, bool) else Not(inner)
        case Tags():
            name = "tags"
        case _:
            name = expression.path[0]
    return expression if name in _FIELDS_OF[kind] else matches(expression, {"kind": kind})


def _join(parts: tuple[Expression, ...], kind: str, conjunction: type[And | Or], *, neutral: bool) -> Expression | bool:
    """Join parts of which `neutral` changes nothing, and its opposite decides."""
    remaining: list[Expression] = []
    for part in parts:
        inner = for_kind(part, kind)
        if not isinstance(inner, bool):
            remaining.append(inner)
        elif inner is not neutral:
            return inner
    if len(remaining) > 1:
        return conjunction(tuple(remaining))
    return remaining[0] if remaining else neutral
