"""The hash by which an equal memory is recognised. Pure."""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal, InvalidOperation


class _Numeral(str):
    """A number of JSON as it is written."""

    __slots__ = ()


def content_hash(type_name: str, content: str, data: str | None) -> bytes:
    """Return the SHA-256 of a memory's type, content and data (JSON text).

    Different data never has the same hash. Order of names, white space and the form in which Postgres writes a number
    do not count; 3 and 3.0 are different.
    """
    digest = hashlib.sha256(f"{type_name}\n{content}".encode())
    if data is not None:
        # No content holds a NUL character, so no content alone has the hash of one with data.
        digest.update(b"\0")
        digest.update(_canonical(json.loads(data, parse_int=_Numeral, parse_float=_Numeral)).encode())
    return digest.digest()


def hash_without_data(type_name: str, content: str) -> bytes:
    """Return the hash that versions before migration 37 gave a memory, whatever its data."""
    return hashlib.sha256(f"{type_name}\n{content}".encode()).digest()


def _canonical(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{_canonical(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_canonical, value)) + "]"
    return _number(value) if isinstance(value, _Numeral) else json.dumps(value)


def _number(numeral: str) -> str:
    """Write a number by sign, digits and exponent: 1e2 and 100 alike, 3.0 with the digits behind its point."""
    try:
        sign, digits, exponent = Decimal(numeral).as_tuple()
    except InvalidOperation:
        return numeral
    text = "".join(map(str, digits)).lstrip("0")
    if not isinstance(exponent, int):
        return numeral
    if exponent >= 0:
        short = text.rstrip("0")
        exponent = exponent + len(text) - len(short) if short else 0
        text = short
    # Postgres knows no negative zero.
    return f"{'-' if sign and text else ''}{text or '0'}e{exponent}"
