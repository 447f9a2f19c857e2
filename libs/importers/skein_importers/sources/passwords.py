"""Converts password hashes and secrets of other systems to forms of AuthService. No I/O.

PBKDF2 with SHA-256 is written as `pbkdf2_sha256$ITERATIONS$SALT$HASH`, also as `pbkdf2$...`, `pbkdf2-sha256$...`, and
with colons. Salt and hash are base64, base64url or hexadecimal. `SALT:HASH` has MemoryVault's 100,000 iterations.
argon2id is read in its usual form.
"""

from __future__ import annotations

import base64
import binascii
import re

_ITERATIONS = 100_000
_SHA256 = 32
_ALGORITHMS = frozenset({"pbkdf2", "pbkdf2_sha256", "pbkdf2-sha256"})
_PARTS = 4
_HEX = re.compile(r"([0-9a-fA-F]{2})+")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")


def password_hash_of(stored: str) -> str:
    """Return a password hash in CreateAccount's form; "" for an unknown form."""
    text = stored.strip()
    if text.startswith("$argon2id$"):
        return text
    parts = text.split("$") if "$" in text else text.split(":")
    if len(parts) == _PARTS and parts[0].lower() in _ALGORITHMS and parts[1].isascii() and parts[1].isdigit():
        iterations, salt, digest = int(parts[1]), parts[2], parts[3]
    elif len(parts) == 2 and "$" not in text:  # noqa: PLR2004 - salt and hash.
        iterations, salt, digest = _ITERATIONS, parts[0], parts[1]
    else:
        return ""
    key = _bytes(digest, _SHA256)
    # The salt has the encoding of the hash.
    salt_bytes = _bytes(salt, 0, is_hex=len(digest) == 2 * _SHA256)
    if key is None or not salt_bytes:
        return ""
    return f"pbkdf2_sha256${iterations}${base64.b64encode(salt_bytes).decode()}${base64.b64encode(key).decode()}"


def sha256_of(stored: str) -> str:
    """Return a SHA-256 in hexadecimal, from hexadecimal, base64 or base64url; "" for anything else."""
    decoded = _bytes(stored.strip().removeprefix("sha256:"), _SHA256)
    return "" if decoded is None else decoded.hex()


def _bytes(text: str, length: int, *, is_hex: bool | None = None) -> bytes | None:
    """Decode bytes, of `length` if set; None for anything else."""
    if (is_hex if is_hex is not None else len(text) == 2 * length) and _HEX.fullmatch(text):
        return bytes.fromhex(text)
    if is_hex or not _BASE64.fullmatch(text):
        return None
    standard_base64 = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        decoded = base64.b64decode(standard_base64 + "=" * (-len(standard_base64) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
    return decoded if len(decoded) == length or not length else None
