"""Tokens: one text that names its tenant and its row, proves itself and notices typing errors. No SQL, no clock.

    prefix + base32(tenant id 16 | token id 16 | secret 32 | CRC-32 of these 4), lower case, without padding

The tenant comes first so that the lookup can say whose rows it may see before it reads any; the nil tenant stands for
none. A character stands for five bits, and CRC-32 finds every error within 32 bits: no single wrong character gets as
far as the database.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import zlib
from dataclasses import dataclass, field
from typing import Self
from uuid import UUID

_ID_BYTES = 16
SECRET_BYTES = 32
_CHECK_BYTES = 4
_PAYLOAD_BYTES = 2 * _ID_BYTES + SECRET_BYTES
# 68 bytes are 109 characters of five bits, and three of padding that we leave out.
_CHARACTERS = 109
_PADDING = "==="


# Characters that the two ids determine by themselves; the next one holds bits of the secret as well.
_ID_CHARACTERS = 2 * _ID_BYTES * 8 // 5


def public_prefix(prefix: str, tenant_id: UUID, token_id: UUID) -> str:
    """Return the beginning of a token that its ids determine; it holds nothing of the secret."""
    encoded = base64.b32encode(tenant_id.bytes + token_id.bytes).decode("ascii").lower()
    return prefix + encoded[:_ID_CHARACTERS]


@dataclass(frozen=True, slots=True)
class Token:
    """One token as its holder has it."""

    prefix: str
    tenant_id: UUID
    token_id: UUID
    secret: bytes = field(repr=False)

    @classmethod
    def made(cls, prefix: str, tenant_id: UUID, token_id: UUID, secret: bytes | None = None) -> Self:
        """Make a token, with a fresh secret unless one of 32 bytes is given."""
        return cls(prefix, tenant_id, token_id, secrets.token_bytes(SECRET_BYTES) if secret is None else secret)

    @classmethod
    def read(cls, prefix: str, text: str) -> Self | None:
        """Read a token; None for a text that is not exactly one of this prefix."""
        encoded = text.removeprefix(prefix)
        if not text.startswith(prefix) or len(encoded) != _CHARACTERS or encoded != encoded.lower():
            return None
        try:
            raw = base64.b32decode(encoded.upper() + _PADDING)
        except (binascii.Error, ValueError):
            return None
        payload, check = raw[:_PAYLOAD_BYTES], raw[_PAYLOAD_BYTES:]
        if zlib.crc32(payload).to_bytes(_CHECK_BYTES) != check:
            return None
        token = cls(
            prefix,
            UUID(bytes=payload[:_ID_BYTES]),
            UUID(bytes=payload[_ID_BYTES : 2 * _ID_BYTES]),
            payload[2 * _ID_BYTES :],
        )
        # The last character has a bit to spare: of its two spellings only ours is the token.
        return token if token.text() == text else None

    def text(self) -> str:
        """Return what its holder presents. Show it once, log it never."""
        payload = self.tenant_id.bytes + self.token_id.bytes + self.secret
        raw = payload + zlib.crc32(payload).to_bytes(_CHECK_BYTES)
        return self.prefix + base64.b32encode(raw).decode("ascii").rstrip("=").lower()

    def secret_hash(self) -> bytes:
        """Return what is stored: the secret is random, so nothing slower than SHA-256 is needed."""
        return hashlib.sha256(self.secret).digest()

    def proves(self, secret_hash: bytes) -> bool:
        """Say whether this is the token whose hash was stored, in a time that tells nothing."""
        return hmac.compare_digest(self.secret_hash(), secret_hash)
