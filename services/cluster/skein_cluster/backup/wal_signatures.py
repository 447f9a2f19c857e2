"""Signatures of the archived log: the server notes the checksum of each file, and this process signs it.

The checksum is of the server's own file, in its own folder, so that nothing is signed that another program put into the
archive. `wal/NAME.sig` has the signature of `wal/NAME.gz`.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import os
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from skein_cluster.backup.repository import synchronize
from skein_cluster.backup.signatures import BackupKey, TrustedKeys
from skein_kit.background import background_tasks

SUFFIX = ".sig"
# The folder in the server's folder where it notes checksums.
CHECKSUMS = "skein_wal_checksums"
_SIGN_SECONDS = 1.0
_CHUNK = 1 << 20
_HEX_DIGITS = 64
# The largest segment of Postgres.
_MAX_BYTES = 1 << 30


@asynccontextmanager
async def signed_archive(data: Path, wal: Path, key: BackupKey) -> AsyncIterator[None]:
    """Sign what the server of the folder `data` archives while the block runs, what it did before, and at its end."""

    async def sign_periodically() -> None:
        while True:
            await asyncio.to_thread(sign_archived, data, wal, key)
            await asyncio.sleep(_SIGN_SECONDS)

    try:
        async with background_tasks(backup_signatures=sign_periodically):
            yield
    finally:
        sign_archived(data, wal, key)


def sign_archived(data: Path, wal: Path, key: BackupKey) -> None:
    """Sign the files whose checksums the server of the folder `data` noted.

    A note is removed when its signature is on the disk, so that a power cut leaves one of them.
    """
    folder = data / CHECKSUMS
    for noted in sorted(folder.iterdir()) if folder.is_dir() else ():
        if noted.name.startswith("."):
            continue
        # At the end, a round on a thread may still sign the same files.
        with contextlib.suppress(FileNotFoundError):
            checksum = noted.read_text("ascii")[:_HEX_DIGITS]
            part = wal / f".{noted.name}{SUFFIX}.part"
            with part.open("w", encoding="ascii") as file:
                file.write(key.sign(_signed_bytes(noted.name, checksum)))
                file.flush()
                os.fsync(file.fileno())
            part.replace(wal / f"{noted.name}{SUFFIX}")
            synchronize(wal)
            noted.unlink()


def is_signed(packed: Path, trusted: TrustedKeys) -> bool:
    """Return whether a trusted key has signed an archived file as it is."""
    name = packed.name.removesuffix(".gz")
    try:
        signature = packed.with_name(f"{name}{SUFFIX}").read_text("ascii")
        digest, size = hashlib.sha256(), 0
        with gzip.open(packed) as file:
            while (chunk := file.read(_CHUNK)) and size <= _MAX_BYTES:
                digest.update(chunk)
                size += len(chunk)
    except (OSError, EOFError, zlib.error, ValueError):
        return False
    return trusted.have_signed(_signed_bytes(name, digest.hexdigest()), signature)


def remove_signature(packed: Path) -> None:
    """Remove the signature of an archived file."""
    with contextlib.suppress(FileNotFoundError):
        packed.with_name(packed.name.removesuffix(".gz") + SUFFIX).unlink()


def _signed_bytes(name: str, checksum: str) -> bytes:
    return f"skein-backup-log/1\n{name}\n{checksum}\n".encode()
