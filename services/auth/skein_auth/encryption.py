"""Encryption of the secrets that auth stores, under the system key.

AES-256-GCM under a key derived from the system key with HKDF-SHA256 (RFC 5869). Encrypted bytes are a 12-byte nonce
and the ciphertext with its tag. The name is authenticated too, so that two rows cannot be exchanged.
"""

from __future__ import annotations

import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from skein_auth.settings import SystemKeys

_KEY_BYTES = 32
_NONCE_BYTES = 12
_PURPOSE = b"skein auth signing keys v1"


class DecryptionError(Exception):
    """The bytes are damaged, or were encrypted with another system key or under another name."""


class SecretCipher:
    """Encrypts with the current system key; decrypts with it or the one before."""

    def __init__(self, system_keys: SystemKeys) -> None:
        self._ciphers = [AESGCM(key) for key in derive_keys(system_keys, _PURPOSE)]

    def encrypt(self, secret: bytes, *, name: str) -> bytes:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._ciphers[0].encrypt(nonce, secret, name.encode())

    def decrypt(self, encrypted: bytes, *, name: str) -> bytes:
        """Return the secret. Raises DecryptionError."""
        nonce, ciphertext = encrypted[:_NONCE_BYTES], encrypted[_NONCE_BYTES:]
        for cipher in self._ciphers:
            try:
                return cipher.decrypt(nonce, ciphertext, name.encode())
            except (InvalidTag, ValueError):
                continue
        raise DecryptionError

    def is_current(self, encrypted: bytes, *, name: str) -> bool:
        """Return whether the current system key decrypts the bytes."""
        try:
            self._ciphers[0].decrypt(encrypted[:_NONCE_BYTES], encrypted[_NONCE_BYTES:], name.encode())
        except (InvalidTag, ValueError):
            return False
        return True


def derive_keys(system_keys: SystemKeys, purpose: bytes) -> list[bytes]:
    """Return a key of 32 bytes for one purpose from each system key, the current one first."""
    return [
        HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=purpose).derive(key.encode())
        for key in system_keys.keys
    ]
