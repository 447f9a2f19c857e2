"""Bearer tokens: one text with tenant, row, secret, MAC and checksum. No SQL, no clock.

    prefix + base32(tenant id 16 | token id 16 | secret 32 | MAC 12 | CRC-32 of these 4), lower case; lengths in bytes

The tenant comes first, because the lookup must choose a tenant before it reads any row; the nil tenant means none.
A character holds five bits and CRC-32 detects every error within 32 bits, so a mistyped character never reaches the
database. The MAC is an HMAC-SHA256 with a key of the cluster, cut to 96 bits. A process with the key rejects a forged
token without the database. Only the secret proves the holder. Tokens of some kinds, and API keys of earlier versions,
have no MAC.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Self
from uuid import UUID

# API keys of tenants and of the operator.
API_KEY_PREFIX = "skein_"
# The shortest legacy token, in characters.
MIN_LEGACY = 32
# The dots of a JSON Web Token.
_JWT_DOTS = 2
_ID_BYTES = 16
SECRET_BYTES = 32
_CRC_BYTES = 4
_PAYLOAD_BYTES = 2 * _ID_BYTES + SECRET_BYTES
_MAC_BYTES = 12
# The padding of base32, which tokens leave out, by their number of characters: 68 bytes without a MAC, 80 with one.
_PADDING = {109: "===", 128: ""}


# Characters that hold only the two ids; the next one holds bits of the secret too.
_ID_CHARACTERS = 2 * _ID_BYTES * 8 // 5


def public_prefix(prefix: str, tenant_id: UUID, token_id: UUID) -> str:
    """Return the prefix of a token with these ids; it contains nothing of the secret."""
    encoded = base64.b32encode(tenant_id.bytes + token_id.bytes).decode("ascii").lower()
    return prefix + encoded[:_ID_CHARACTERS]


def is_jwt(credential: str) -> bool:
    """Return whether a credential has the form of a JSON Web Token."""
    return credential.count(".") == _JWT_DOTS


@dataclass(frozen=True, slots=True)
class BearerToken:
    """One bearer token."""

    prefix: str
    tenant_id: UUID
    token_id: UUID
    secret: bytes = field(repr=False)
    # The MAC; empty for a token without one.
    mac: bytes = field(default=b"", repr=False)

    @classmethod
    def generate(cls, prefix: str, tenant_id: UUID, token_id: UUID, secret: bytes | None = None) -> Self:
        """Generate a token without a MAC; `secret` has 32 bytes, by default random ones."""
        return cls(prefix, tenant_id, token_id, secrets.token_bytes(SECRET_BYTES) if secret is None else secret)

    def with_mac(self, key: bytes) -> Self:
        """Return the same token with its MAC under a key."""
        return replace(self, mac=self._mac(key))

    def has_valid_mac(self, keys: Iterable[bytes]) -> bool:
        """Return whether the token's MAC is valid under one of the keys, in constant time."""
        return any([hmac.compare_digest(self.mac, self._mac(key)) for key in keys])  # noqa: C419 - in constant time.

    @classmethod
    def decode(cls, prefix: str, text: str) -> Self | None:
        """Parse a token; return None for a text that is no token with this prefix."""
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
        # Without a MAC the last character has an unused bit: only one of its two spellings is valid.
        return token if not padding or token.encode() == text else None

    def encode(self) -> str:
        """Return the text that the holder sends. Show it once and never log it."""
        payload = self._payload() + self.mac
        raw = payload + zlib.crc32(payload).to_bytes(_CRC_BYTES)
        return self.prefix + base64.b32encode(raw).decode("ascii").rstrip("=").lower()

    def secret_hash(self) -> bytes:
        """Return the stored hash, 32 bytes. The secret is random, so SHA-256 is slow enough."""
        return hashlib.sha256(self.secret).digest()

    def matches_hash(self, secret_hash: bytes) -> bool:
        """Return whether the token has this stored hash, in constant time."""
        return hmac.compare_digest(self.secret_hash(), secret_hash)

    def _payload(self) -> bytes:
        return self.tenant_id.bytes + self.token_id.bytes + self.secret

    def _mac(self, key: bytes) -> bytes:
        """Return the MAC under a key; it covers the prefix, so that no token is valid as one of another kind."""
        message = self.prefix.encode() + b"\0" + self._payload()
        return hmac.digest(key, message, "sha256")[:_MAC_BYTES]
