"""Hashes of memories: `content_hash` is the same for equal memories, `fingerprint` for duplicates. No I/O."""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal, InvalidOperation
from uuid import UUID

_PREFIX = 160

# Fingerprints of memories with a key lie in the lower half of all numbers, so that they can be walked alone.
_UPPER_HALF = 1 << 127

FIRST_WITHOUT_KEY = UUID(int=_UPPER_HALF)


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
    """Return the hash of releases before migration 37, which left the data out."""
    return hashlib.sha256(f"{type_name}\n{content}".encode()).digest()


def _canonical(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{_canonical(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_canonical, value)) + "]"
    return _number(value) if isinstance(value, _Numeral) else json.dumps(value)


def _number(numeral: str) -> str:
    """Write a number by sign, digits and exponent: 1e2 and 100 alike, 3.0 with the digits after its point."""
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


def normalize_spaces(text: str) -> str:
    """Return a text in lower case, its spaces reduced to single ones between words."""
    return " ".join(text.lower().split())


def fingerprint(type_name: str, *, key: str | None, title: str | None, content: str, content_hash: bytes) -> UUID:
    """Return a number that memories of one type share when they have the same key, or title, or beginning.

    The title counts where there is no key, the first 160 characters where there is no title either. Case and spaces do
    not matter.
    """
    if key and normalize_spaces(key):
        kind, text = "key", normalize_spaces(key)
    elif title and normalize_spaces(title):
        kind, text = "title", normalize_spaces(title)
    else:
        kind, text = "text", normalize_spaces(content)[:_PREFIX]
        if not text:
            # Only structured content: the same when all of it is the same.
            kind, text = "data", content_hash.hex()
    digest = hashlib.sha256(f"{type_name}\n{kind}\n{text}".encode()).digest()[:16]
    number = int.from_bytes(digest, "big") & (_UPPER_HALF - 1)
    return UUID(int=number if kind == "key" else number | _UPPER_HALF)


def has_key(number: UUID) -> bool:
    """Return whether a fingerprint is that of memories with a key."""
    return number < FIRST_WITHOUT_KEY
