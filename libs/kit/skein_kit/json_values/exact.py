"""JSON whose numbers stay as they are written: whole ones as int, others as Decimal, never as float. Knows no fields.

Protobuf's Struct has doubles alone, so a message carries such JSON twice: as a Struct, rounded, and as text.
"""

from __future__ import annotations

import json
import math
import re
import secrets
from collections import Counter
from decimal import Decimal
from typing import Any, NoReturn

# Bytes of JSON (UTF-8) that one field may hold; the protos say so where such fields are.
MAX_JSON_BYTES = 256 * 1024
# Levels of JSON. Protobuf reads 100 of messages: three for each of an object, and some for what wraps the answer.
MAX_DEPTH = 30
# Characters of one number. A double has 309 digits before the point, and Postgres keeps 16,383 behind it.
MAX_NUMBER_CHARACTERS = 1000
MAX_EXPONENT = 400
# Whole numbers up to here have a double each.
_LAST_WHOLE = 2**53
# Longer numbers are written with an exponent where that is shorter.
MAX_DIGITS = 100
_LONG_INTEGER = 10**MAX_DIGITS
_LONG_DIGITS = re.compile(rf"\d{{{MAX_DIGITS + 1}}}")
_EXPONENT = re.compile(r"[eE][+-]?0*(\d*)$")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
# Stands before a Decimal while the standard encoder writes it as text; random, so no caller's text holds it.
_MARK = secrets.token_hex(16)
_MARKED = re.compile(rf'"{_MARK}([^"]*)"')
_TOO_DEEP = f"is nested more than {MAX_DEPTH} levels deep"
TOO_LONG = f"holds more than {MAX_JSON_BYTES // 1024} KiB of JSON"
_LONG_NUMBER = f"holds a number of more than {MAX_NUMBER_CHARACTERS:,} characters"
_EXTREME_NUMBER = "holds a number beyond what a double can say, about 5e-324 to 1.8e308"
NO_NUMBER = "holds a number that JSON cannot say"
_HALF_CHARACTER = "holds half a character"


# What a terminal or a reader of lines acts on instead of showing it: controls but for tab and line feed, separators of
# lines, marks that turn the direction of text around.
CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


class InvalidJson(ValueError):
    """JSON that no field takes; the message says why, in words that follow the field's name."""


class ExactFloat(float):
    """A float that remembers the digits it was read from, for code that computes with some numbers and keeps others."""

    __slots__ = ("exact",)
    exact: Decimal

    @classmethod
    def read(cls, text: str) -> float:
        """Return a plain float where that says all, and infinity, which `serialize` refuses, for what is beyond."""
        double = float(text)
        if math.isinf(double) or len(text) > MAX_NUMBER_CHARACTERS:
            return math.inf
        exact = decimal(text)
        if not exact.is_finite() or (double == 0 and exact != 0):
            return math.inf
        found = cls(double)
        found.exact = exact
        return double if is_double(exact) else found


def is_double(number: int | Decimal) -> bool:
    """Say whether the shortest spelling of a double says a number, so that none of its digits is lost."""
    try:
        double = float(number)
    except OverflowError:
        return False
    if isinstance(number, int):
        return abs(number) <= _LAST_WHOLE
    return Decimal(repr(double)) == number


def to_decimals(value: Any) -> Any:
    """Return values with the Decimals that ExactFloats remember."""
    if isinstance(value, ExactFloat):
        return value.exact
    if isinstance(value, dict):
        return {name: to_decimals(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [to_decimals(inner) for inner in value]
    return value


def loads(text: str | bytes) -> Any:
    """Read JSON text that was checked before, such as a column's, or is checked by `serialize` afterwards.

    Raises ValueError for what is no JSON, NaN and infinities included.
    """
    return json.loads(text, parse_float=decimal, parse_constant=_no_constant)


def loads_mixed(text: str | bytes) -> Any:
    """Read JSON whose fractions are floats, ExactFloats where a float has not all digits.

    Raises ValueError for what is no JSON, NaN and infinities included.
    """
    return json.loads(text, parse_float=ExactFloat.read, parse_constant=_no_constant)


def escape_active(text: str) -> str:
    """Return the same JSON with every ACTIVE character escaped; such characters occur in strings alone."""
    return CONTROL_CHARACTERS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def dumps(
    value: object,
    *,
    sort_keys: bool = False,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] = (",", ":"),
) -> str:
    """Write JSON, in one line without spaces unless indented. Raises ValueError for NaN and infinities."""
    marks: list[Decimal] = []

    def marked(number: object) -> str:
        if not isinstance(number, Decimal):
            message = f"JSON has no {type(number).__name__}"
            raise TypeError(message)
        if not number.is_finite():
            message = "JSON has no infinities and no NaN"
            raise ValueError(message)
        marks.append(number)
        return f"{_MARK}{_format_number(number)}"

    text = json.dumps(
        value,
        default=marked,
        allow_nan=False,
        sort_keys=sort_keys,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators if indent is None else None,
    )
    return _MARKED.sub(r"\1", text) if marks else text


def parse(text: str) -> Any:
    """Read a caller's JSON text strictly.

    Raises InvalidJson for what is no JSON, for a name that an object has twice, for numbers beyond a double's range or
    of more than MAX_NUMBER_CHARACTERS, and for more than MAX_DEPTH levels or MAX_JSON_BYTES.
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
    """Write JSON that a caller gave as values. Raises InvalidJson as `parse` does."""
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


def equal_json(one: str | None, other: str | None) -> bool:
    """Say whether two JSON texts say the same: 1 and 1.0 do, numbers that differ in any digit do not."""
    if one is None or other is None:
        return one is other
    return one == other or equal_values(loads(one), loads(other), Decimal)


def to_floats(value: Any) -> Any:
    """Return values with floats for Decimals, as protobuf's parser takes them."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {name: to_floats(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [to_floats(inner) for inner in value]
    return value


def canonical(value: object) -> str:
    """Write JSON as every reply has it: names in order, and one spelling for a number, wherever it was read from.

    The database writes all digits, 301 of 1e300: numbers of more than MAX_DIGITS have an exponent here.
    """
    text = dumps(value, sort_keys=True)
    return dumps(_cut_digits(value), sort_keys=True) if _LONG_DIGITS.search(text) else text


def integer(text: str) -> int | Decimal:
    """Read the digits of a whole number; one that is too long for Python stays a Decimal, which `serialize` refuses."""
    return int(text) if len(text) <= MAX_NUMBER_CHARACTERS else Decimal(text)


def decimal(text: str) -> Decimal:
    """Read a number with a fraction or an exponent; one beyond all bounds is NaN, which `serialize` refuses."""
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
    """Raise InvalidJson for a number that no field takes."""
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
    """Raise InvalidJson for half of a surrogate pair, which JSON can say and no other text."""
    try:
        dumps(value).encode()
    except UnicodeEncodeError:
        raise InvalidJson(_HALF_CHARACTER) from None


def _check_size(value: object) -> None:
    """Refuse what is too long without spaces, which do not count."""
    if len(dumps(value).encode()) > MAX_JSON_BYTES:
        raise InvalidJson(TOO_LONG)


def _no_constant(name: str) -> NoReturn:
    message = f"is not JSON: there is no {name}"
    raise InvalidJson(message)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        message = f"has the name {dumps(twice[:100])} twice in one object"
        raise InvalidJson(message)
    return found


def check_depth(value: object, left: int = MAX_DEPTH) -> None:
    """Raise InvalidJson for what is nested more than MAX_DEPTH levels deep."""
    if not isinstance(value, dict | list):
        return
    if left == 0:
        raise InvalidJson(_TOO_DEEP)
    for inner in value.values() if isinstance(value, dict) else value:
        check_depth(inner, left - 1)


def equal_values(one: Any, other: Any, number: type[float | Decimal]) -> bool:
    """Compare two values, their numbers after `number` has made of them what is compared."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(equal_values(inner, other[name], number) for name, inner in one.items())
        )
    if isinstance(one, list):
        return (
            isinstance(other, list)
            and len(one) == len(other)
            and all(equal_values(*pair, number) for pair in zip(one, other, strict=True))
        )
    if isinstance(one, int | float | Decimal):
        return isinstance(other, int | float | Decimal) and number(one) == number(other)
    return type(one) is type(other) and bool(one == other)


def _cut_digits(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _cut_digits(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_cut_digits(inner) for inner in value]
    return Decimal(value) if isinstance(value, int) and abs(value) >= _LONG_INTEGER else value


def _format_number(number: Decimal) -> str:
    """Write a number as the database does, but long ones with an exponent; no digit is lost."""
    if not number:
        number = abs(number)
    if abs(int(number.as_tuple().exponent)) > MAX_NUMBER_CHARACTERS + MAX_EXPONENT:
        # What `serialize` refuses is not written in full either: it may be gigabytes.
        return str(number)
    text = format(number, "f")
    if len(text) <= MAX_DIGITS:
        return text
    sign, digits, exponent = number.as_tuple()
    kept = "".join(map(str, digits)).rstrip("0") or "0"
    short = Decimal((sign, tuple(map(int, kept)), int(exponent) + len(digits) - len(kept)))
    return min(text, str(short), key=len)
