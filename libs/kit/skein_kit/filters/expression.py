"""Expressions of the filter language, and their text form.

A value has the type of its field: text, number, bool or a time with a zone. Numbers are float; numbers of properties
are Decimal, because they are compared exactly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Literal, TypeAlias

Value: TypeAlias = str | float | Decimal | bool | datetime
Operator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]
Mode: TypeAlias = Literal["any", "all", "none"]
# A field's name; for a property, `metadata` or `data` and the names of properties, each inside the previous one.
Path: TypeAlias = tuple[str, ...]

WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class And:
    """All parts are true; two or more parts."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one part is true; two or more parts."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part is false."""

    part: Expression


@dataclass(frozen=True, slots=True)
class Compare:
    """A field compares to a value."""

    path: Path
    operator: Operator
    value: Value


@dataclass(frozen=True, slots=True)
class In:
    """A field equals one of several values."""

    path: Path
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Contains:
    """A field contains a text, in any case of letters."""

    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class Has:
    """A field is set."""

    path: Path


@dataclass(frozen=True, slots=True)
class Tags:
    """The memory has any, all or none of several tags."""

    mode: Mode
    tags: tuple[str, ...]


Expression: TypeAlias = And | Or | Not | Compare | In | Contains | Has | Tags


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """Return the parts that must all be true: those below nested ANDs."""
    if not isinstance(expression, And):
        return (expression,)
    return tuple(inner for part in expression.parts for inner in conjuncts(part))


def format_expression(expression: Expression) -> str:  # noqa: PLR0911 - one for each kind of condition.
    """Return the text form of an expression, which parses to the same expression."""
    match expression:
        case And(parts):
            return " AND ".join(_inner(part) for part in parts)
        case Or(parts):
            return " OR ".join(_inner(part) for part in parts)
        case Not(part):
            return f"NOT {_inner(part)}"
        case Compare(path, operator, value):
            return f"{path_name(path)} {operator} {literal(value)}"
        case In(path, values):
            return f"{path_name(path)} IN ({_join(values, literal)})"
        case Contains(path, text):
            return f"{path_name(path)}:{literal(text)}"
        case Has(path):
            return f"has({path_name(path)})"
        case Tags(mode, tags):
            return f"tags:{mode}({_join(tags, literal)})"


def path_name(path: Path) -> str:
    """Return the text form of a path."""
    return ".".join(part if WORD.fullmatch(part) else quote(part) for part in path)


def literal(value: Value) -> str:
    """Return the text form of a value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return quote(value) if isinstance(value, str) else str(value)


def quote(text: str) -> str:
    """Return a text in quotes, with the escapes of JSON."""
    return json.dumps(text, ensure_ascii=False)


def _inner(part: Expression) -> str:
    return f"({format_expression(part)})" if isinstance(part, And | Or) else format_expression(part)


def _join(values: Iterable[Value], write: Callable[[Value], str]) -> str:
    return ", ".join(write(value) for value in values)
