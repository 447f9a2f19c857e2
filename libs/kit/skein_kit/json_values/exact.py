"""JSON with exact numbers: integers as int, others as Decimal, none as float. Knows no messages.

Protobuf's Struct has doubles only. Therefore a message has free JSON twice: as a Struct, rounded, and as exact text.
"""

from __future__ import annotations

import json
import math
import re
import secrets
from collections import Counter
from decimal import Decimal
from typing import Any, NoReturn

# Limit of the JSON of one field, in bytes of UTF-8; the protos document it.
MAX_JSON_BYTES = 256 * 1024
# Levels of JSON. Protobuf reads 100 levels of messages: an object takes three, and the response some more.
MAX_DEPTH = 30
# Characters of one number. A double has up to 309 digits before the point; Postgres stores 16,383 after it.
MAX_NUMBER_CHARACTERS = 1000
MAX_EXPONENT = 400
# The largest integer up to which every integer is a double.
_LAST_WHOLE = 2**53
# Numbers with more digits are written with an exponent if that is shorter.
MAX_DIGITS = 100
_LONG_INTEGER = 10**MAX_DIGITS
_LONG_DIGITS = re.compile(rf"\d{{{MAX_DIGITS + 1}}}")
_EXPONENT = re.compile(r"[eE][+-]?0*(\d*)$")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
# Marks a Decimal, which the standard encoder writes as text; random, so that no caller's text contains it.
_MARK = secrets.token_hex(16)
_MARKED = re.compile(rf'"{_MARK}([^"]*)"')
_TOO_DEEP = f"is nested more than {MAX_DEPTH} levels deep"
TOO_LONG = f"holds more than {MAX_JSON_BYTES // 1024} KiB of JSON"
_LONG_NUMBER = f"holds a number of more than {MAX_NUMBER_CHARACTERS:,} characters"
_EXTREME_NUMBER = "holds a number beyond the range of a double, about 5e-324 to 1.8e308"
NO_NUMBER = "holds NaN or an infinity, which JSON does not have"
_HALF_CHARACTER = "holds half of a surrogate pair"

# Characters that terminals or line readers interpret: controls except tab and line feed, line separators, and marks
# of text direction.
CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


class InvalidJson(ValueError):
    """JSON that no field accepts; the message gives the reason, and continues a sentence after the field's name."""


class ExactFloat(float):
    """A float with its exact digits, for code that computes with some numbers and copies others."""

    __slots__ = ("exact",)
    exact: Decimal

    @classmethod
    def read(cls, text: str) -> float:
        """Return a plain float for an exact one, and infinity, which `serialize` refuses, for a number out of range."""
        double = float(text)
        if math.isinf(double) or len(text) > MAX_NUMBER_CHARACTERS:
            return math.inf
        exact = decimal(text)
        if not exact.is_finite() or (double == 0 and exact != 0):
            return math.inf
        if is_double(exact):
            return double
        number = cls(double)
        number.exact = exact
        return number


def is_double(number: int | Decimal) -> bool:
    """Return whether a number is a double, or the shortest decimal form of one: converting it loses no digit."""
    try:
        double = float(number)
    except OverflowError:
        return False
    if isinstance(number, int):
        return abs(number) <= _LAST_WHOLE
    return Decimal(repr(double)) == number


def to_decimals(value: Any) -> Any:
    """Return JSON values with Decimals in place of ExactFloats."""
    if isinstance(value, ExactFloat):
        return value.exact
    if isinstance(value, dict):
        return {name: to_decimals(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [to_decimals(inner) for inner in value]
    return value


def loads(text: str | bytes) -> Any:
    """Parse JSON text that is valid already, such as a column's, or that `serialize` validates later.

    Raises ValueError for other text, NaN and infinities included.
    """
    return json.loads(text, parse_float=decimal, parse_constant=_no_constant)


def loads_mixed(text: str | bytes) -> Any:
    """Parse JSON with fractions as floats; as ExactFloats when a float would lose digits.

    Raises ValueError for other text, NaN and infinities included.
    """
    return json.loads(text, parse_float=ExactFloat.read, parse_constant=_no_constant)


def escape_active(text: str) -> str:
    """Return JSON text with every one of CONTROL_CHARACTERS escaped; they occur in strings only."""
    return CONTROL_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def dumps(
    value: object,
    *,
    sort_keys: bool = False,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] = (",", ":"),
) -> str:
    """Return JSON text, on one line without spaces unless indented. Raises ValueError for NaN and infinities."""
    decimals: list[Decimal] = []

    def mark(number: object) -> str:
        if not isinstance(number, Decimal):
            message = f"JSON has no {type(number).__name__}"
            raise TypeError(message)
        if not number.is_finite():
            message = "JSON has no infinities and no NaN"
            raise ValueError(message)
        decimals.append(number)
        return f"{_MARK}{_format_number(number)}"

    text = json.dumps(
        value,
        default=mark,
        allow_nan=False,
        sort_keys=sort_keys,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators if indent is None else None,
    )
    return _MARKED.sub(r"\1", text) if decimals else text


def parse(text: str) -> Any:
    """Parse a caller's JSON text strictly.

    Raises InvalidJson for text that is no JSON, for a duplicate name in an object, and for a number beyond the range of
    a double. The limits are MAX_NUMBER_CHARACTERS, MAX_DEPTH levels and MAX_JSON_BYTES.
    """
    try:
        value = json.loads(
            text, parse_float=_decimal, parse_int=_integer, parse_constant=_no_constant, object_pairs_hook=_object
        )
        check_depth(value)
    except InvalidJson:
        raise
    except RecursionError:
        raise InvalidJson(_TOO_DEEP) from None
    except ValueError as error:
        raise InvalidJson(f"is not JSON: {error}") from None
    if _SURROGATE.search(text):
        check_characters(value)
    if len(text.encode()) > MAX_JSON_BYTES:
        _check_size(value)
    return value


def serialize(value: object) -> str:
    """Return a caller's values as JSON text. Raises InvalidJson as `parse` does."""
    check_depth(value)
    value = to_decimals(value)
    check_numbers(value)
    text = dumps(value)
    try:
        length = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidJson(_HALF_CHARACTER) from None
    if length > MAX_JSON_BYTES:
        raise InvalidJson(TOO_LONG)
    return text


def equal_json(first: str | None, second: str | None) -> bool:
    """Return whether two JSON texts have equal values: 1 equals 1.0; numbers that differ in any digit are not equal."""
    if first is None or second is None:
        return first is second
    return first == second or equal_values(loads(first), loads(second), Decimal)


def to_floats(value: Any) -> Any:
    """Return values with floats in place of Decimals, for protobuf's parser."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {name: to_floats(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [to_floats(inner) for inner in value]
    return value


def canonical(value: object) -> str:
    """Return values as the JSON text of replies: sorted names, and one form for each number, whatever its source.

    The database writes all digits, 301 for 1e300; here a number of more than MAX_DIGITS has an exponent.
    """
    text = dumps(value, sort_keys=True)
    return dumps(_cut_digits(value), sort_keys=True) if _LONG_DIGITS.search(text) else text


def integer(text: str) -> int | Decimal:
    """Parse an integer; one that is too long for Python becomes a Decimal, which `serialize` refuses."""
    return int(text) if len(text) <= MAX_NUMBER_CHARACTERS else Decimal(text)


def decimal(text: str) -> Decimal:
    """Parse a number with a fraction or an exponent; one far out of range becomes NaN, which `serialize` refuses."""
    exponent = _EXPONENT.search(text)
    if exponent is not None and len(exponent.group(1)) > len(str(MAX_EXPONENT)) + 2:
        return Decimal("NaN")
    return Decimal(text)


def _integer(text: str) -> int:
    if len(text) > MAX_NUMBER_CHARACTERS:
        raise InvalidJson(_LONG_NUMBER)
    number = int(text)
    _check_number(number)
    return number


def _decimal(text: str) -> Decimal:
    if len(text) > MAX_NUMBER_CHARACTERS:
        raise InvalidJson(_LONG_NUMBER)
    exponent = _EXPONENT.search(text)
    if exponent is not None and int(exponent.group(1) or 0) > MAX_EXPONENT:
        raise InvalidJson(_EXTREME_NUMBER)
    number = Decimal(text)
    _check_number(number)
    return number


def _check_number(number: int | Decimal) -> None:
    try:
        double = float(number)
    except OverflowError:
        raise InvalidJson(_EXTREME_NUMBER) from None
    if math.isinf(double) or (double == 0 and number != 0):
        raise InvalidJson(_EXTREME_NUMBER)


def check_numbers(value: object) -> None:
    """Raise InvalidJson for a number that no field accepts."""
    if isinstance(value, dict):
        for inner in value.values():
            check_numbers(inner)
    elif isinstance(value, list):
        for inner in value:
            check_numbers(inner)
    elif isinstance(value, Decimal):
        _check_decimal(value)
    elif isinstance(value, int):
        _check_number(value)
    elif isinstance(value, float) and not math.isfinite(value):
        raise InvalidJson(NO_NUMBER)


def _check_decimal(number: Decimal) -> None:
    if not number.is_finite():
        raise InvalidJson(_EXTREME_NUMBER)
    _, digits, exponent = number.as_tuple()
    if len(digits) > MAX_NUMBER_CHARACTERS:
        raise InvalidJson(_LONG_NUMBER)
    if not -MAX_EXPONENT - len(digits) <= int(exponent) <= MAX_EXPONENT:
        raise InvalidJson(_EXTREME_NUMBER)
    _check_number(number)


def check_characters(value: object) -> None:
    """Raise InvalidJson for half of a surrogate pair, which JSON can escape and UTF-8 cannot encode."""
    try:
        dumps(value).encode()
    except UnicodeEncodeError:
        raise InvalidJson(_HALF_CHARACTER) from None


def _check_size(value: object) -> None:
    """Raise InvalidJson for JSON that is too long; spaces do not count."""
    if len(dumps(value).encode()) > MAX_JSON_BYTES:
        raise InvalidJson(TOO_LONG)


def _no_constant(name: str) -> NoReturn:
    message = f"is not JSON: there is no {name}"
    raise InvalidJson(message)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        duplicate = Counter(name for name, _ in pairs).most_common(1)[0][0]
        message = f"has the name {dumps(duplicate[:100])} twice in one object"
        raise InvalidJson(message)
    return members


def check_depth(value: object, remaining_levels: int = MAX_DEPTH) -> None:
    """Raise InvalidJson for a value that is nested more than MAX_DEPTH levels deep."""
    if not isinstance(value, dict | list):
        return
    if remaining_levels == 0:
        raise InvalidJson(_TOO_DEEP)
    for inner in value.values() if isinstance(value, dict) else value:
        check_depth(inner, remaining_levels - 1)


def equal_values(first: Any, second: Any, number: type[float | Decimal]) -> bool:
    """Compare two JSON values; numbers are converted by `number` first."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, dict):
        return (
            isinstance(second, dict)
            and first.keys() == second.keys()
            and all(equal_values(inner, second[name], number) for name, inner in first.items())
        )
    if isinstance(first, list):
        return (
            isinstance(second, list)
            and len(first) == len(second)
            and all(equal_values(*pair, number) for pair in zip(first, second, strict=True))
        )
    if isinstance(first, int | float | Decimal):
        return isinstance(second, int | float | Decimal) and number(first) == number(second)
    return type(first) is type(second) and bool(first == second)


def _cut_digits(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _cut_digits(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_cut_digits(inner) for inner in value]
    return Decimal(value) if isinstance(value, int) and abs(value) >= _LONG_INTEGER else value


def _format_number(number: Decimal) -> str:
    """Return a number as the database writes it, but a long one with an exponent; no digit is lost."""
    if not number:
        number = abs(number)
    if abs(int(number.as_tuple().exponent)) > MAX_NUMBER_CHARACTERS + MAX_EXPONENT:
        # All digits may be gigabytes; `serialize` refuses such a number.
        return str(number)
    text = format(number, "f")
    if len(text) <= MAX_DIGITS:
        return text
    sign, digits, exponent = number.as_tuple()
    significant = "".join(map(str, digits)).rstrip("0") or "0"
    short = Decimal((sign, tuple(map(int, significant)), int(exponent) + len(digits) - len(significant)))
    return min(text, str(short), key=len)
