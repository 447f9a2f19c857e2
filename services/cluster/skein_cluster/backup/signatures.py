"""The key that signs a cluster's backups, and the keys that a restore trusts. Knows no layout of backups.

The private key is a file of the data folder, and in no backup. Its public half is short text, which belongs where the
machine cannot take it along.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from skein_cluster.cli.exit_codes import CommandError, ExitCode

KEY_FILE = "backup.key"
_PREFIX = "skein-backup-"
_MODE = 0o600


@dataclass(frozen=True, kw_only=True, slots=True)
class BackupKey:
    """The key that signs."""

    private: Ed25519PrivateKey
    # The call that read it has made it.
    is_new: bool

    @classmethod
    def of(cls, data_dir: Path) -> Self:
        """Return the key of a data folder, which is made at the first call. Raises CommandError."""
        path = data_dir / KEY_FILE
        if not path.exists():
            _write(path, Ed25519PrivateKey.generate())
            return cls(private=_read(path), is_new=True)
        return cls(private=_read(path), is_new=False)

    @property
    def public(self) -> str:
        """Return the public half as text."""
        return _text(self.private.public_key())

    def sign(self, content: bytes) -> str:
        """Return the signature of a content, in hexadecimal digits."""
        return self.private.sign(content).hex()


@dataclass(frozen=True, slots=True)
class TrustedKeys:
    """Public keys, any of which may have signed."""

    keys: tuple[Ed25519PublicKey, ...]

    @classmethod
    def of(cls, texts: Iterable[str], data_dirs: Iterable[Path] = ()) -> Self:
        """Trust public keys, and the keys of data folders that have one. Raises CommandError."""
        private = [_read(folder / KEY_FILE) for folder in data_dirs if (folder / KEY_FILE).exists()]
        return cls((*map(_parse, texts), *(key.public_key() for key in private)))

    def have_signed(self, content: bytes, signature: str) -> bool:
        """Return whether one of the keys has signed a content."""
        try:
            raw = bytes.fromhex(signature)
        except ValueError:
            return False
        for key in self.keys:
            with contextlib.suppress(InvalidSignature):
                key.verify(raw, content)
                return True
        return False


def _text(key: Ed25519PublicKey) -> str:
    raw = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return _PREFIX + base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


def _parse(text: str) -> Ed25519PublicKey:
    """Read a public key, or the file that has it."""
    stripped = text.strip()
    with contextlib.suppress(OSError, ValueError):
        if not stripped.startswith(_PREFIX) and Path(stripped).is_file():
            stripped = Path(stripped).read_text("utf-8").strip()
    encoded = stripped.removeprefix(_PREFIX)
    try:
        if encoded != stripped:
            return Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    except (ValueError, binascii.Error):
        pass
    raise CommandError(f"{text!r} is no public key of backups, which begins with {_PREFIX}.", ExitCode.USAGE)


def _write(path: Path, key: Ed25519PrivateKey) -> None:
    content = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Another process may make one at the same time: the first stays.
    with contextlib.suppress(FileExistsError):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def _read(path: Path) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise CommandError(f"{path} is not the key of backups that Skein made; restore it.", ExitCode.CANNOT_START)
    return key
