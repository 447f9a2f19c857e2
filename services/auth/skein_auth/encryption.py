"""Sealing: how the private halves of signing keys lie in the database, useless without the system key.

AES-256-GCM under a key derived from the system key with HKDF-SHA256 (RFC 5869). Sealed bytes are a 12-byte nonce and
the ciphertext with its tag; the name that they were sealed under is authenticated, so that no two rows change places.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

if TYPE_CHECKING:
    from skein_auth.settings import SystemKeys

_KEY_BYTES = 32
_NONCE_BYTES = 12
_PURPOSE = b"skein auth signing keys v1"


class DecryptionError(Exception):
    """Sealed bytes do not open: they were sealed with another system key, under another name, or are damaged."""


class SecretCipher:
    """Seals with the current system key, opens with it or the one before."""

    def __init__(self, system_keys: SystemKeys) -> None:
        self._ciphers = [AESGCM(key) for key in derive_keys(system_keys, _PURPOSE)]

    def seal(self, secret: bytes, *, name: str) -> bytes:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._ciphers[0].encrypt(nonce, secret, name.encode())

    def open(self, sealed: bytes, *, name: str) -> bytes:
        """Return the secret, or raise DecryptionError."""
        nonce, ciphertext = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        for cipher in self._ciphers:
            try:
                return cipher.decrypt(nonce, ciphertext, name.encode())
            except (InvalidTag, ValueError):
                continue
        raise DecryptionError

    def is_current(self, sealed: bytes, *, name: str) -> bool:
        """Say whether the bytes open with the current system key, and not only with the one before."""
        try:
            self._ciphers[0].decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], name.encode())
        except (InvalidTag, ValueError):
            return False
        return True


def derive_keys(system_keys: SystemKeys, purpose: bytes) -> list[bytes]:
    """Return a key of 32 bytes for one purpose from each system key, the current one first."""
    return [
        HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=purpose).derive(key.encode())
        for key in system_keys.keys
    ]
