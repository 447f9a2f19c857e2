"""The form of API keys: one text that names its tenant, proves itself and notices typing errors. No SQL, no clock.

    skein_ + base32(tenant id 16 | key id 16 | secret 32 | CRC-32 of these 4), lower case, without padding

The tenant comes first so that the lookup can say whose rows it may see before it reads any; the operator's keys carry
the nil tenant. A character stands for five bits, and CRC-32 finds every error within 32 bits: no single wrong character
gets as far as the database.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import zlib
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from skein_kit.database import NO_TENANT
from skein_kit.errors import FieldInvalid

PREFIX = "skein_"
_ID_BYTES = 16
_SECRET_BYTES = 32
_CHECK_BYTES = 4
_PAYLOAD_BYTES = 2 * _ID_BYTES + _SECRET_BYTES
# 68 bytes are 109 characters of five bits, and three of padding that we leave out.
_CHARACTERS = 109
_PADDING = "==="


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A tenant's key on its way in."""

    display_name: str
    permissions: list[str]
    # The agent that its calls act as; empty for none.
    agent_id: str
    # None: never.
    expire_time: datetime | None
    # The principal that makes it.
    created_by: str
    # The key that the principal is, which this one must not outlive; None when it is none.
    creator_id: UUID | None = None

    def ends(self, at: datetime, creator_ends: datetime | None) -> datetime | None:
        """Return when the key expires, which is no later than its creator does. Raises FieldInvalid for the past."""
        if self.expire_time is not None and self.expire_time <= at:
            raise FieldInvalid(violations=[("expire_time", "must lie in the future")])
        return min((end for end in (self.expire_time, creator_ends) if end is not None), default=None)


@dataclass(frozen=True, slots=True)
class Key:
    """One API key as its holder has it."""

    # NO_TENANT: a key of the operator.
    tenant_id: UUID
    key_id: UUID
    secret: bytes = field(repr=False)

    @classmethod
    def new(cls, tenant_id: UUID, key_id: UUID) -> Key:
        """Make a key with a fresh secret."""
        return cls(tenant_id, key_id, secrets.token_bytes(_SECRET_BYTES))

    @classmethod
    def parse(cls, text: str) -> Key | None:
        """Read a key; None for a text that is not exactly one."""
        encoded = text.removeprefix(PREFIX)
        if not text.startswith(PREFIX) or len(encoded) != _CHARACTERS or encoded != encoded.lower():
            return None
        try:
            raw = base64.b32decode(encoded.upper() + _PADDING)
        except (binascii.Error, ValueError):
            return None
        payload, check = raw[:_PAYLOAD_BYTES], raw[_PAYLOAD_BYTES:]
        if zlib.crc32(payload).to_bytes(_CHECK_BYTES) != check:
            return None
        key = cls(
            UUID(bytes=payload[:_ID_BYTES]),
            UUID(bytes=payload[_ID_BYTES : 2 * _ID_BYTES]),
            payload[2 * _ID_BYTES :],
        )
        # The last character has a bit to spare: of its two spellings only ours is the key.
        return key if key.text() == text else None

    @property
    def is_operators(self) -> bool:
        """Say whether the key belongs to the operator rather than to a tenant."""
        return self.tenant_id == NO_TENANT

    def text(self) -> str:
        """Return what its holder presents. Show it once, log it never."""
        payload = self.tenant_id.bytes + self.key_id.bytes + self.secret
        raw = payload + zlib.crc32(payload).to_bytes(_CHECK_BYTES)
        return PREFIX + base64.b32encode(raw).decode("ascii").rstrip("=").lower()

    def secret_hash(self) -> bytes:
        """Return what is stored: the secret is random, so nothing slower than SHA-256 is needed."""
        return hashlib.sha256(self.secret).digest()

    def proves(self, secret_hash: bytes) -> bool:
        """Say whether this is the key whose hash was stored, in a time that tells nothing."""
        return hmac.compare_digest(self.secret_hash(), secret_hash)
