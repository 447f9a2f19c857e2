"""Tokens: one text that names its tenant and its row, proves itself and notices typing errors. No SQL, no clock.

    prefix + base32(tenant id 16 | token id 16 | secret 32 | check digits 12 | CRC-32 of these 4), lower case

The tenant comes first so that the lookup can say whose rows it may see before it reads any; the nil tenant stands for
none. A character stands for five bits, and CRC-32 finds every error within 32 bits: no single wrong character gets as
far as the database. The check digits are an HMAC-SHA256 under a key of the cluster's, cut to 96 bits: a process that
has the key recognises an invented token without the database. They prove nothing more; the secret does.
Tokens of some kinds, and API keys of earlier versions, have no check digits.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import zlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Iterable

# API keys of tenants and of the operator.
API_KEY_PREFIX = "skein_"
# A legacy token has at least so many characters.
MIN_LEGACY = 32
# A JSON Web Token has so many dots.
_JWT_DOTS = 2
_ID_BYTES = 16
SECRET_BYTES = 32
_CRC_BYTES = 4
_PAYLOAD_BYTES = 2 * _ID_BYTES + SECRET_BYTES
_CHECK_DIGITS_BYTES = 12
# The padding that base32 has and tokens leave out, by their characters: 68 bytes without check digits, 80 with them.
_PADDING = {109: "===", 128: ""}


# Characters that the two ids determine by themselves; the next one holds bits of the secret as well.
_ID_CHARACTERS = 2 * _ID_BYTES * 8 // 5


def public_prefix(prefix: str, tenant_id: UUID, token_id: UUID) -> str:
    """Return the beginning of a token that its ids determine; it holds nothing of the secret."""
    encoded = base64.b32encode(tenant_id.bytes + token_id.bytes).decode("ascii").lower()
    return prefix + encoded[:_ID_CHARACTERS]


def is_jwt(credential: str) -> bool:
    """Say whether a credential has the form of a JSON Web Token."""
    return credential.count(".") == _JWT_DOTS


@dataclass(frozen=True, slots=True)
class BearerToken:
    """One token as its holder has it."""

    prefix: str
    tenant_id: UUID
    token_id: UUID
    secret: bytes = field(repr=False)
    # Empty: the token has none.
    check_digits: bytes = field(default=b"", repr=False)

    @classmethod
    def made(cls, prefix: str, tenant_id: UUID, token_id: UUID, secret: bytes | None = None) -> Self:
        """Make a token without check digits, with a fresh secret unless one of 32 bytes is given."""
        return cls(prefix, tenant_id, token_id, secrets.token_bytes(SECRET_BYTES) if secret is None else secret)

    def with_check_digits(self, check_key: bytes) -> Self:
        """Return the same token with the check digits that a key makes."""
        return replace(self, check_digits=self._digits(check_key))

    def has_check_digits_of(self, check_keys: Iterable[bytes]) -> bool:
        """Say whether one of the keys made the token's check digits."""
        return any([hmac.compare_digest(self.check_digits, self._digits(key)) for key in check_keys])  # noqa: C419 - in a time that tells nothing.

    @classmethod
    def read(cls, prefix: str, text: str) -> Self | None:
        """Read a token; None for a text that is not exactly one of this prefix."""
        encoded = text.removeprefix(prefix)
        padding = _PADDING.get(len(encoded))
        if not text.startswith(prefix) or padding is None or encoded != encoded.lower():
            return None
        try:
            raw = base64.b32decode(encoded.upper() + padding)
        except (binascii.Error, ValueError):
            return None
        payload, crc = raw[:-_CRC_BYTES], raw[-_CRC_BYTES:]
        if zlib.crc32(payload).to_bytes(_CRC_BYTES) != crc:
            return None
        token = cls(
            prefix,
            UUID(bytes=payload[:_ID_BYTES]),
            UUID(bytes=payload[_ID_BYTES : 2 * _ID_BYTES]),
            payload[2 * _ID_BYTES : _PAYLOAD_BYTES],
            payload[_PAYLOAD_BYTES:],
        )
        # Without check digits the last character has a bit to spare: of its two spellings only ours is the token.
        return token if not padding or token.text() == text else None

    def text(self) -> str:
        """Return what its holder presents. Show it once, log it never."""
        payload = self._payload() + self.check_digits
        raw = payload + zlib.crc32(payload).to_bytes(_CRC_BYTES)
        return self.prefix + base64.b32encode(raw).decode("ascii").rstrip("=").lower()

    def secret_hash(self) -> bytes:
        """Return what is stored: the secret is random, so nothing slower than SHA-256 is needed."""
        return hashlib.sha256(self.secret).digest()

    def proves(self, secret_hash: bytes) -> bool:
        """Say whether this is the token whose hash was stored, in a time that tells nothing."""
        return hmac.compare_digest(self.secret_hash(), secret_hash)

    def _payload(self) -> bytes:
        return self.tenant_id.bytes + self.token_id.bytes + self.secret

    def _digits(self, check_key: bytes) -> bytes:
        """Return the check digits under a key; those of a token of another kind are others."""
        message = self.prefix.encode() + b"\0" + self._payload()
        return hmac.digest(check_key, message, "sha256")[:_CHECK_DIGITS_BYTES]
