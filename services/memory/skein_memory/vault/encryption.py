"""Encryption of secrets: AES-256-GCM under a key of the tenant, which the master key encrypts. No SQL.

The associated data of a ciphertext names its owner (tenant and memory, or tenant and key): rows cannot be swapped.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import secrets
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from skein_kit.ids import new_id
from skein_kit.settings import SettingInvalid
from skein_memory.errors import MasterKeyMissing, SecretUndecryptable

_KEY_BYTES = 32
_NONCE_BYTES = 12
_KEY_HINT = "make one with: python3 -c 'import secrets; print(secrets.token_hex(32))'"
_HEX = re.compile(r"[0-9a-fA-F]{64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Ciphertext:
    """A value that only the right key decrypts."""

    nonce: bytes
    ciphertext: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class MasterKey:
    """A key that encrypts tenants' keys, and its fingerprint in the database."""

    secret: bytes = field(repr=False)
    fingerprint: str

    @classmethod
    def of(cls, text: str, *, variable: str) -> Self:
        """Read 32 bytes as hex or base64. Raises SettingInvalid, which names the variable and never its value."""
        secret = _parse_key(text.strip())
        if len(secret) != _KEY_BYTES:
            raise SettingInvalid(f"{variable} should hold 32 bytes as hex or base64; {_KEY_HINT}.")
        return cls(secret=secret, fingerprint=hashlib.sha256(b"skein master key v1" + secret).hexdigest()[:16])


@dataclass(frozen=True, kw_only=True, slots=True)
class WrappedKey:
    """A tenant's key as the database stores it."""

    key_id: UUID
    master_key: str
    encrypted_key: Ciphertext


@dataclass(frozen=True, kw_only=True, slots=True)
class TenantKey:
    """A tenant's key, unwrapped."""

    key_id: UUID
    secret: bytes = field(repr=False)

    @classmethod
    def new(cls, at: datetime) -> Self:
        """Make a key of random bytes."""
        return cls(key_id=new_id(at), secret=secrets.token_bytes(_KEY_BYTES))

    def encrypt(self, value: str, *, tenant_id: UUID, memory_id: UUID) -> Ciphertext:
        """Encrypt a memory's secret."""
        return _encrypt(self.secret, value.encode(), _secret_owner(tenant_id, memory_id))

    def decrypt(self, encrypted: Ciphertext, *, tenant_id: UUID, memory_id: UUID) -> str:
        """Return a memory's secret. Raises SecretUndecryptable if the key or the memory is another one."""
        return _decrypt(self.secret, encrypted, _secret_owner(tenant_id, memory_id)).decode()


class MasterKeys:
    """The master key and the one before it, either of which may be missing."""

    def __init__(self, current: MasterKey | None, previous: MasterKey | None = None) -> None:
        """Wrap with `current`; unwrap with either."""
        self._current = current
        self._by_fingerprint = {key.fingerprint: key for key in (current, previous) if key is not None}

    @classmethod
    def of(cls, current: str, previous: str = "") -> Self:
        """Read the settings; empty ones are missing keys. Raises SettingInvalid."""
        return cls(
            MasterKey.of(current, variable="SKEIN_MASTER_KEY") if current.strip() else None,
            MasterKey.of(previous, variable="SKEIN_MASTER_KEY_PREVIOUS") if previous.strip() else None,
        )

    @property
    def current(self) -> str:
        """Return the fingerprint of the key that encrypts; empty without one."""
        return "" if self._current is None else self._current.fingerprint

    def check_has(self, fingerprints: set[str]) -> None:
        """Raise SettingInvalid unless every master key that is in use is configured."""
        missing = ", ".join(sorted(fingerprints - self._by_fingerprint.keys()))
        if not missing:
            return
        if self._current is None:
            message = (
                f"Set SKEIN_MASTER_KEY: the database has secrets that are encrypted under the master key {missing}."
            )
        else:
            message = (
                f"Secrets are encrypted under the master key {missing}, which is neither SKEIN_MASTER_KEY"
                f" ({self.current}) nor SKEIN_MASTER_KEY_PREVIOUS; set SKEIN_MASTER_KEY_PREVIOUS to it."
            )
        raise SettingInvalid(message)

    def check_current(self) -> None:
        """Require a current master key. Raises MasterKeyMissing."""
        if self._current is None:
            raise MasterKeyMissing

    def wrap(self, key: TenantKey, *, tenant_id: UUID) -> WrappedKey:
        """Encrypt a tenant's key. Raises MasterKeyMissing."""
        if self._current is None:
            raise MasterKeyMissing
        encrypted_key = _encrypt(self._current.secret, key.secret, _key_owner(tenant_id, key.key_id))
        return WrappedKey(key_id=key.key_id, master_key=self._current.fingerprint, encrypted_key=encrypted_key)

    def unwrap(self, wrapped: WrappedKey, *, tenant_id: UUID) -> TenantKey:
        """Decrypt a tenant's key. Raises SecretUndecryptable when its master key is not configured."""
        master_key = self._by_fingerprint.get(wrapped.master_key)
        if master_key is None:
            raise SecretUndecryptable(master_key=wrapped.master_key)
        secret = _decrypt(master_key.secret, wrapped.encrypted_key, _key_owner(tenant_id, wrapped.key_id))
        return TenantKey(key_id=wrapped.key_id, secret=secret)


def _parse_key(text: str) -> bytes:
    if _HEX.fullmatch(text):
        return bytes.fromhex(text)
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _secret_owner(tenant_id: UUID, memory_id: UUID) -> bytes:
    return b"skein secret v1" + tenant_id.bytes + memory_id.bytes


def _key_owner(tenant_id: UUID, key_id: UUID) -> bytes:
    return b"skein tenant key v1" + tenant_id.bytes + key_id.bytes


def _encrypt(key: bytes, value: bytes, associated_data: bytes) -> Ciphertext:
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return Ciphertext(nonce=nonce, ciphertext=AESGCM(key).encrypt(nonce, value, associated_data))


def _decrypt(key: bytes, encrypted: Ciphertext, associated_data: bytes) -> bytes:
    try:
        return AESGCM(key).decrypt(encrypted.nonce, encrypted.ciphertext, associated_data)
    except (InvalidTag, ValueError):
        raise SecretUndecryptable from None
