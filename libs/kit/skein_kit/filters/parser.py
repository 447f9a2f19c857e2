"""Parses the filter language. Raises an error with the position of the first problem."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import MINYEAR, UTC, date, datetime, time, tzinfo
from decimal import Decimal
from typing import NoReturn, TypeVar

from skein_kit.errors import FilterFieldUnknown, FilterInvalid
from skein_kit.filters.expression import (
    WORD,
    And,
    Compare,
    Contains,
    Expression,
    Has,
    In,
    Mode,
    Not,
    Operator,
    Or,
    Path,
    Tags,
    Value,
    path_name,
)
from skein_kit.filters.fields import CONTENT_FIELDS, FIELDS, Field, Kind
from skein_kit.json_values import exact as exact_json
from skein_kit.json_values.exact import MAX_NUMBER_CHARACTERS
from skein_kit.text.unicode_form import compared_form, plain_form

Item = TypeVar("Item")

MAX_CHARACTERS = 4000
MAX_DEPTH = 10
MAX_CONDITIONS = 50
MAX_VALUES = 100
MAX_PATH = 10

_SPACE = re.compile(r"\s*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"' + r"|'(?:[^'\\]|\\.)*'", re.DOTALL)
_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BARE = re.compile(r"""[^\s()"',=<>!]+""")
_OPERATOR = re.compile(r"!=|<=|>=|=|<|>|:")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
_ESCAPED = re.compile(r"\\.|\"", re.DOTALL)
_AS_JSON = {"\\'": "'", '"': '\\"'}
_MODES: dict[str, Mode] = {"any": "any", "all": "all", "none": "none"}


def parse(
    text: str, field_path: str = "where", known_fields: Mapping[str, Field] = FIELDS, *, zone: tzinfo = UTC
) -> Expression | None:
    """Parse a condition; return None for an empty text. `field_path` is the field of the request that errors name.

    A date is its whole day in `zone`. Raises FilterInvalid, and FilterFieldUnknown for a field that is not one of
    `known_fields`.
    """
    return _Parser(text, field_path, known_fields, zone).parse_text()


def may_name_day(text: str) -> bool:
    """Return whether the meaning of a condition may depend on the zone."""
    return _DATE.search(text) is not None


@dataclass(frozen=True, slots=True)
class _Day:
    """A date as a value: all of its day in a zone."""

    first: datetime
    # The last time of the day that the database can store.
    last: datetime

    @classmethod
    def of(cls, day: date, zone: tzinfo) -> _Day:
        # Where clocks are set back at midnight, the day ends with the second of two equal times.
        times = (time(), time.max.replace(fold=1))
        return cls(*(_in_utc(datetime.combine(day, moment, zone)) for moment in times))

    def includes(self, path: Path) -> Expression:
        """Return the condition that a time is of this day."""
        return And((Compare(path, ">=", self.first), Compare(path, "<=", self.last)))


def _in_utc(moment: datetime) -> datetime:
    """Return a time in UTC; before the first and after the last year, the nearest one that exists."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC) if moment.year == MINYEAR else datetime.max.replace(tzinfo=UTC)


def _comparison(path: Path, operator: Operator, value: Value | _Day) -> Expression:
    if not isinstance(value, _Day):
        return Compare(path, operator, value)
    match operator:
        case "=":
            return value.includes(path)
        case "!=":
            return Not(value.includes(path))
        case "<" | ">=":
            return Compare(path, operator, value.first)
        case "<=" | ">":
            return Compare(path, operator, value.last)


class _Parser:
    """A recursive descent over one text."""

    def __init__(self, text: str, field_path: str, known_fields: Mapping[str, Field], zone: tzinfo) -> None:
        self._text = text
        self._field_path = field_path
        self._known_fields = known_fields
        self._zone = zone
        self._position = 0
        self._depth = 0
        self._conditions = 0

    def parse_text(self) -> Expression | None:
        if len(self._text) > MAX_CHARACTERS:
            self._error(f"is longer than {MAX_CHARACTERS} characters", at=MAX_CHARACTERS)
        if "\0" in self._text:
            self._error("holds a NUL character", at=self._text.index("\0"))
        self._skip()
        if self._position == len(self._text):
            return None
        expression = self._expression()
        if self._position < len(self._text):
            self._error("expected AND, OR or the end")
        return expression

    def _expression(self) -> Expression:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._error(f"goes deeper than {MAX_DEPTH} levels")
        parts, conjunction = [self._factor()], ""
        start = self._position
        while word := self._word("AND", "OR"):
            if conjunction and word != conjunction:
                self._error("AND and OR beside each other need parentheses", at=start)
            conjunction = word
            parts.append(self._factor())
            start = self._position
        self._depth -= 1
        if not conjunction:
            return parts[0]
        return And(tuple(parts)) if conjunction == "AND" else Or(tuple(parts))

    def _factor(self) -> Expression:
        if self._word("NOT"):
            self._depth += 1
            if self._depth > MAX_DEPTH:
                self._error(f"goes deeper than {MAX_DEPTH} levels")
            negation = Not(self._factor())
            self._depth -= 1
            return negation
        if self._accept("("):
            expression = self._expression()
            self._expect(")")
            return expression
        return self._condition()

    def _condition(self) -> Expression:
        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            self._error(f"has more than {MAX_CONDITIONS} conditions")
        start = self._position
        if self._word("has"):
            if self._accept("("):
                path, _ = self._field()
                self._expect(")")
                return Has(path)
            self._position = start
        start = self._position
        path, field = self._field()
        if self._word("IN"):
            self._expect("(")
            return self._in(path, field, start)
        operator = self._match(_OPERATOR)
        if operator is None:
            self._error("expected one of = != < <= > >= : IN")
        if operator == ":":
            return self._colon(path, field, start)
        if field.kind is Kind.TAGS or (field.kind is Kind.PROPERTIES and len(path) == 1):
            self._error(f"{path_name(path)} cannot be compared with {operator}", at=start)
        if operator in {"<", "<=", ">", ">="} and field.kind in {Kind.TEXT, Kind.BOOLEAN, Kind.DIGEST}:
            self._error(f"{path_name(path)} has no order: compare it with =, != or IN", at=start)
        value = self._value(path, field)
        if isinstance(value, bool) and operator not in {"=", "!="}:
            self._error(f"{path_name(path)} has no order: compare it with =, != or IN", at=start)
        return _comparison(path, _operator(operator), value)

    def _in(self, path: Path, field: Field, start: int) -> Expression:
        if field.kind is Kind.TAGS or (field.kind is Kind.PROPERTIES and len(path) == 1):
            self._error(f"{path_name(path)} cannot be compared with IN", at=start)
        values = self._list(lambda: self._value(path, field))
        times = tuple(value for value in values if not isinstance(value, _Day))
        parts: list[Expression] = [In(path, times)] if times else []
        parts += [value.includes(path) for value in values if isinstance(value, _Day)]
        return Or(tuple(parts)) if len(parts) > 1 else parts[0]

    def _colon(self, path: Path, field: Field, start: int) -> Expression:
        if self._accept("*"):
            return Has(path)
        if field.kind is Kind.TAGS:
            word = self._word(*_MODES)
            if word and self._accept("("):
                return Tags(_MODES[word], tuple(dict.fromkeys(map(plain_form, self._list(self._string)))))
            return Tags("any", (plain_form(word or self._string()),))
        if field.kind is Kind.TEXT and not field.values:
            text = self._string()
            if not text:
                self._error("expected at least one character to look for")
            return Contains(path, compared_form(text) or text)
        if field.kind is Kind.PROPERTIES and len(path) > 1:
            return _comparison(path, "=", self._value(path, field))
        return self._error(f"{path_name(path)} cannot be compared with :", at=start)

    def _list(self, parse_item: Callable[[], Item]) -> list[Item]:
        values: list[Item] = []
        while True:
            values.append(parse_item())
            if len(values) > MAX_VALUES:
                self._error(f"lists more than {MAX_VALUES} values")
            if not self._accept(","):
                break
        self._expect(")")
        return values

    def _field(self) -> tuple[Path, Field]:
        start = self._position
        name = self._match(WORD, skip=False)
        if name is None:
            self._error("expected the name of a field")
        field = self._known_fields.get(name)
        path = [name]
        while self._text.startswith(".", self._position):
            self._position += 1
            text = self._match(_STRING, skip=False)
            key = self._match(_KEY, skip=False) if text is None else self._unquote(text)
            if key is None:
                self._error("expected the name of a property")
            path.append(key)
        self._skip()
        if field is None or (len(path) > 1 and field.kind is not Kind.PROPERTIES):
            field_names = ", ".join(sorted(self._known_fields))
            raise FilterFieldUnknown(
                violations=[
                    (
                        self._field_path,
                        f"at {start}: no field is called {'.'.join(path)[:100]!r}; there are {field_names}",
                    )
                ],
                offset=start,
            )
        if len(path) > MAX_PATH:
            self._error(f"{path_name(tuple(path))[:100]} goes deeper than {MAX_PATH} names", at=start)
        return tuple(path), field

    def _value(self, path: Path, field: Field) -> Value | _Day:
        start = self._position
        text = self._match(_STRING)
        bare_text = self._match(_BARE) if text is None else None
        if text is None and bare_text is None:
            self._error("expected a value")
        content = bare_text if text is None else self._unquote(text, at=start)
        assert content is not None  # noqa: S101 - one of the two matched.
        value = _convert(field, content, self._zone, is_bare=text is None)
        if value is None:
            expected = ", ".join(field.values) or _EXPECTED[field.kind]
            self._error(f"{path_name(path)} is compared with {expected}", at=start)
        return value

    def _string(self) -> str:
        start = self._position
        text = self._match(_STRING)
        if text is not None:
            return self._unquote(text, at=start)
        bare_text = self._match(_BARE)
        if bare_text is None:
            self._error("expected a text")
        return bare_text

    def _unquote(self, text: str, *, at: int | None = None) -> str:
        body = text[1:-1]
        if text[0] == "'":
            body = _ESCAPED.sub(lambda match: _AS_JSON.get(match.group(), match.group()), body)
        try:
            content = json.loads(f'"{body}"', strict=False)
            content.encode()
        except ValueError:
            self._error("the text in quotes has an escape that JSON does not know", at=at)
        if "\0" in content:
            self._error("holds a NUL character", at=at)
        return str(content)

    def _word(self, *words: str) -> str:
        """Consume one of several words if it comes next; return it, or the empty text."""
        match = WORD.match(self._text, self._position)
        if match is None or match.group() not in words:
            return ""
        self._position = match.end()
        self._skip()
        return match.group()

    def _match(self, pattern: re.Pattern[str], *, skip: bool = True) -> str | None:
        match = pattern.match(self._text, self._position)
        if match is None:
            return None
        self._position = match.end()
        if skip:
            self._skip()
        return match.group()

    def _accept(self, mark: str) -> bool:
        if not self._text.startswith(mark, self._position):
            return False
        self._position += len(mark)
        self._skip()
        return True

    def _expect(self, mark: str) -> None:
        if not self._accept(mark):
            self._error(f"expected {mark!r}")

    def _skip(self) -> None:
        match = _SPACE.match(self._text, self._position)
        self._position = match.end() if match else self._position

    def _error(self, problem: str, *, at: int | None = None) -> NoReturn:
        offset = self._position if at is None else at
        raise FilterInvalid(violations=[(self._field_path, f"at {offset}: {problem}")], offset=offset)


_EXPECTED = {
    Kind.TEXT: "a text",
    Kind.NUMBER: "a number",
    Kind.TIME: "a time as RFC 3339 has it, with its zone, or a date, which is its whole day",
    Kind.BOOLEAN: "true or false",
    Kind.DIGEST: "64 hexadecimal digits",
    Kind.PROPERTIES: "a text, a number, true or false",
    Kind.TAGS: "tags",
}


def _operator(text: str) -> Operator:
    operators: dict[str, Operator] = {"=": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
    return operators[text]


def _convert(  # noqa: PLR0911 - one for each kind.
    field: Field, text: str, zone: tzinfo, *, is_bare: bool
) -> Value | _Day | None:
    """Convert a text to the type of the field; return None when the field has no such value."""
    match field.kind:
        case Kind.TEXT:
            text = text if field.name in CONTENT_FIELDS else plain_form(text)
            return text if not field.values or text in field.values else None
        case Kind.NUMBER:
            return _number(text) if is_bare else None
        case Kind.TIME:
            return _time(text, zone)
        case Kind.BOOLEAN:
            return {"true": True, "false": False}.get(text)
        case Kind.DIGEST:
            return text.lower() if _DIGEST.fullmatch(text) else None
        case Kind.PROPERTIES:
            if not is_bare:
                return text
            boolean = {"true": True, "false": False}.get(text)
            number = _exact(text) if boolean is None else boolean
            return text if number is None else number
        case Kind.TAGS:
            return None


def _number(text: str) -> float | None:
    if not _NUMBER.fullmatch(text):
        return None
    number = float(text)
    return number if math.isfinite(number) else None


def _exact(text: str) -> Decimal | None:
    """Return a number with all of its digits; None for other text, and beyond the range of a double."""
    if _number(text) is None or len(text) > MAX_NUMBER_CHARACTERS:
        return None
    exact = exact_json.decimal(text)
    return exact if exact.is_finite() else None


def _time(text: str, zone: tzinfo) -> datetime | _Day | None:
    try:
        if _DATE.fullmatch(text):
            return _Day.of(date.fromisoformat(text), zone)
        moment = datetime.fromisoformat(text)
        return None if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
