"""Cold storage: files of JSON lines, packed, each known by its checksum. No SQL.

A file belongs to one tenant and one archive. It is written beside its place and moved there, so that what has its name
is whole.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein_kit.errors import ArchiveDamaged

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime
    from pathlib import Path
    from uuid import UUID

_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700


@dataclass(frozen=True, kw_only=True, slots=True)
class FileInfo:
    """A file that was written: the SHA-256 and the length of its bytes."""

    checksum: bytes
    byte_count: int


class ColdFiles:
    """The files of all tenants below one folder; services on several machines need one that they share."""

    def __init__(self, folder: Path) -> None:
        """Keep files below `folder`, which is made at the first use."""
        self._folder = folder

    async def write(self, tenant_id: UUID, archive_id: UUID, lines: Iterable[str]) -> FileInfo:
        """Store lines under a name that their checksum is part of."""
        return await asyncio.to_thread(self._write, tenant_id, archive_id, "\n".join(lines))

    async def read(self, tenant_id: UUID, archive_id: UUID, written: FileInfo) -> Sequence[str]:
        """Return the lines of a file. Raises ArchiveDamaged when it is missing or not what was written.

        A file with other bytes is refused before it is unpacked, and is read no further than the length written.
        """
        return await asyncio.to_thread(self._read, tenant_id, archive_id, written)

    async def delete(self, tenant_id: UUID, archive_id: UUID, checksum: bytes) -> None:
        """Remove a file, also one that is written in part; one that is not there is passed over."""
        await asyncio.to_thread(self._delete, self._path(tenant_id, archive_id, checksum))

    async def delete_tenant(self, tenant_id: UUID) -> int:
        """Remove every file of a tenant, also those that nothing names any more; return how many."""
        return await asyncio.to_thread(self._delete_tenant, tenant_id)

    async def sweep(self, tenant_id: UUID, named: Collection[tuple[UUID, bytes]], *, older_than: datetime) -> int:
        """Remove a tenant's files that nobody names, by archive and checksum, written before a time; return how many.

        A process that ended between two steps leaves such files. The time must lie so far back that whoever writes now
        has named its file by then.
        """
        return await asyncio.to_thread(self._sweep, tenant_id, named, older_than.timestamp())

    @staticmethod
    def pack(lines: Iterable[str]) -> tuple[bytes, FileInfo]:
        """Return lines as the bytes of a file, and what is to be known of it before it is written."""
        # Without a time, so that the same lines are the same file.
        packed = gzip.compress("\n".join(lines).encode(), mtime=0)
        return packed, FileInfo(checksum=hashlib.sha256(packed).digest(), byte_count=len(packed))

    async def write_packed(self, tenant_id: UUID, archive_id: UUID, packed: bytes, written: FileInfo) -> None:
        """Store what `pack` made."""
        await asyncio.to_thread(self._write_packed, tenant_id, archive_id, packed, written)

    def _write(self, tenant_id: UUID, archive_id: UUID, text: str) -> FileInfo:
        packed, written = self.pack([text])
        self._write_packed(tenant_id, archive_id, packed, written)
        return written

    def _write_packed(self, tenant_id: UUID, archive_id: UUID, packed: bytes, written: FileInfo) -> None:
        path = self._path(tenant_id, archive_id, written.checksum)
        made = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
        path.parent.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
        part = _part(path)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE_FILE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(packed)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        # A folder that is new is there after a power cut when the one that it lies in is on the disk as well.
        for folder in (path.parent, *(new.parent for new in made)):
            _sync(folder)

    def _read(self, tenant_id: UUID, archive_id: UUID, written: FileInfo) -> Sequence[str]:
        try:
            with open(self._path(tenant_id, archive_id, written.checksum), "rb", opener=_open_at_once) as file:
                packed = file.read(written.byte_count + 1) or b""
        except OSError as error:
            raise ArchiveDamaged(archive_id=str(archive_id)) from error
        if hashlib.sha256(packed).digest() != written.checksum:
            raise ArchiveDamaged(archive_id=str(archive_id))
        # These are the bytes that `pack` made, so they unpack to the lines that it was given.
        text = gzip.decompress(packed).decode()
        return text.split("\n") if text else []

    @staticmethod
    def _delete(path: Path) -> None:
        found = [file for file in (path, _part(path)) if file.exists()]
        for file in found:
            file.unlink(missing_ok=True)
        if found:
            # The folder may go with its tenant meanwhile.
            with suppress(FileNotFoundError):
                _sync(path.parent)

    def _delete_tenant(self, tenant_id: UUID) -> int:
        folder = self._folder / str(tenant_id)
        files = list(folder.iterdir()) if folder.is_dir() else []
        for file in files:
            file.unlink(missing_ok=True)
        with suppress(OSError):
            folder.rmdir()
        return len(files)

    def _sweep(self, tenant_id: UUID, named: Collection[tuple[UUID, bytes]], older_than: float) -> int:
        kept = {self._path(tenant_id, archive_id, checksum) for archive_id, checksum in named}
        folder, removed = self._folder / str(tenant_id), 0
        for file in list(folder.iterdir()) if folder.is_dir() else ():
            with suppress(FileNotFoundError):
                if file not in kept and file.stat().st_mtime < older_than:
                    file.unlink()
                    removed += 1
        return removed

    def _path(self, tenant_id: UUID, archive_id: UUID, checksum: bytes) -> Path:
        return self._folder / str(tenant_id) / f"{archive_id}-{checksum.hex()[:16]}.jsonl.gz"


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting: a pipe in its place would wait for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def _part(path: Path) -> Path:
    """Return where a file is written before it has its name. No two files are the same one, so nobody shares it."""
    return path.with_suffix(".part")
