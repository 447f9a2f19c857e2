"""What a condition is made of. Values are of the field's kind: text, number, bool or time with its zone.

Numbers are float, but of properties Decimal: these are compared exactly.
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
# A field's name: of one part, or of `metadata` or `data` and the names of properties, one inside another.
Path: TypeAlias = tuple[str, ...]

WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class And:
    """All of them hold; two or more."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one of them holds; two or more."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """It does not hold."""

    part: Expression


@dataclass(frozen=True, slots=True)
class Compare:
    """A field against a value."""

    path: Path
    operator: Operator
    value: Value


@dataclass(frozen=True, slots=True)
class In:
    """A field is one of some values."""

    path: Path
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Contains:
    """A text holds another one, whatever the case of letters."""

    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class Has:
    """A field is set."""

    path: Path


@dataclass(frozen=True, slots=True)
class Tags:
    """The memory carries any, all or none of some tags."""

    mode: Mode
    tags: tuple[str, ...]


Expression: TypeAlias = And | Or | Not | Compare | In | Contains | Has | Tags


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """Return conditions that must all hold, as far down as only AND leads."""
    if not isinstance(expression, And):
        return (expression,)
    return tuple(below for part in expression.parts for below in conjuncts(part))


def format_expression(expression: Expression) -> str:  # noqa: PLR0911 - one for each kind of condition.
    """Return the text that reads as this expression."""
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
            return f"{path_name(path)} IN ({_listed(values, literal)})"
        case Contains(path, text):
            return f"{path_name(path)}:{literal(text)}"
        case Has(path):
            return f"has({path_name(path)})"
        case Tags(mode, tags):
            return f"tags:{mode}({_listed(tags, literal)})"


def path_name(path: Path) -> str:
    """Return a field's name as it is written."""
    return ".".join(part if WORD.fullmatch(part) else quoted(part) for part in path)


def literal(value: Value) -> str:
    """Return a value as it is written."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return quoted(value) if isinstance(value, str) else str(value)


def quoted(text: str) -> str:
    """Return a text in quotes, as JSON has it."""
    return json.dumps(text, ensure_ascii=False)


def _inner(part: Expression) -> str:
    return f"({format_expression(part)})" if isinstance(part, And | Or) else format_expression(part)


def _listed(values: Iterable[Value], write: Callable[[Value], str]) -> str:
    return ", ".join(write(value) for value in values)
