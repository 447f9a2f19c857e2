"""Cold storage: compressed files of JSON lines, each with its checksum in its name. No SQL.

A file belongs to one tenant and one archive. It is written under another name and then renamed, so that a file with a
final name is complete.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import os
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from uuid import UUID

from skein_kit.errors import ArchiveDamaged

_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700


@dataclass(frozen=True, kw_only=True, slots=True)
class FileInfo:
    """The SHA-256 and the length of a file, in bytes."""

    checksum: bytes
    byte_count: int


class ColdFiles:
    """The files of all tenants below one folder, which services on several machines must share."""

    def __init__(self, folder: Path) -> None:
        """Store files below `folder`, which is created at the first use."""
        self._folder = folder

    async def write(self, tenant_id: UUID, archive_id: UUID, lines: Iterable[str]) -> FileInfo:
        """Write lines to a file with their checksum in its name."""
        return await asyncio.to_thread(self._write, tenant_id, archive_id, "\n".join(lines))

    async def read(self, tenant_id: UUID, archive_id: UUID, file_info: FileInfo) -> Sequence[str]:
        """Return the lines of a file. Raises ArchiveDamaged when it is missing or differs from `file_info`.

        A file with other bytes is refused before it is decompressed, and never read beyond the expected length.
        """
        return await asyncio.to_thread(self._read, tenant_id, archive_id, file_info)

    async def delete(self, tenant_id: UUID, archive_id: UUID, checksum: bytes) -> None:
        """Delete a file, also a partly written one; ignore one that does not exist."""
        await asyncio.to_thread(self._delete, self._path(tenant_id, archive_id, checksum))

    async def delete_tenant(self, tenant_id: UUID) -> int:
        """Delete every file of a tenant, referenced or not; return their number."""
        return await asyncio.to_thread(self._delete_tenant, tenant_id)

    async def delete_unreferenced(
        self, tenant_id: UUID, referenced: Collection[tuple[UUID, bytes]], *, older_than: datetime
    ) -> int:
        """Delete a tenant's files that are not in `referenced` (archive id and checksum); return their number.

        A process that ended between two steps leaves such files. `older_than` must be longer ago than any write takes,
        because a new file is referenced only after it is written.
        """
        return await asyncio.to_thread(self._delete_unreferenced, tenant_id, referenced, older_than.timestamp())

    @staticmethod
    def pack(lines: Iterable[str]) -> tuple[bytes, FileInfo]:
        """Return the bytes of a file with these lines, and its checksum and length."""
        # Without a time, so that equal lines give equal files.
        packed = gzip.compress("\n".join(lines).encode(), mtime=0)
        return packed, FileInfo(checksum=hashlib.sha256(packed).digest(), byte_count=len(packed))

    async def write_packed(self, tenant_id: UUID, archive_id: UUID, packed: bytes, file_info: FileInfo) -> None:
        """Write the bytes that `pack` returned."""
        await asyncio.to_thread(self._write_packed, tenant_id, archive_id, packed, file_info)

    def _write(self, tenant_id: UUID, archive_id: UUID, text: str) -> FileInfo:
        packed, file_info = self.pack([text])
        self._write_packed(tenant_id, archive_id, packed, file_info)
        return file_info

    def _write_packed(self, tenant_id: UUID, archive_id: UUID, packed: bytes, file_info: FileInfo) -> None:
        path = self._path(tenant_id, archive_id, file_info.checksum)
        new_folders = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
        path.parent.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
        part = _part(path)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE_FILE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(packed)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        # A new folder survives a power failure only when its parent is synced too.
        for folder in (path.parent, *(new.parent for new in new_folders)):
            _sync(folder)

    def _read(self, tenant_id: UUID, archive_id: UUID, file_info: FileInfo) -> Sequence[str]:
        try:
            with open(self._path(tenant_id, archive_id, file_info.checksum), "rb", opener=_open_nonblocking) as file:
                packed = file.read(file_info.byte_count + 1) or b""
        except OSError as error:
            raise ArchiveDamaged(archive_id=str(archive_id)) from error
        if hashlib.sha256(packed).digest() != file_info.checksum:
            raise ArchiveDamaged(archive_id=str(archive_id))
        # The checksum matches, so these are the bytes of `pack`, and they decompress.
        text = gzip.decompress(packed).decode()
        return text.split("\n") if text else []

    @staticmethod
    def _delete(path: Path) -> None:
        files = [file for file in (path, _part(path)) if file.exists()]
        for file in files:
            file.unlink(missing_ok=True)
        if files:
            # The folder may be deleted with its tenant at the same time.
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

    def _delete_unreferenced(
        self, tenant_id: UUID, referenced: Collection[tuple[UUID, bytes]], older_than: float
    ) -> int:
        referenced_files = {self._path(tenant_id, archive_id, checksum) for archive_id, checksum in referenced}
        folder, deleted_count = self._folder / str(tenant_id), 0
        for file in list(folder.iterdir()) if folder.is_dir() else ():
            with suppress(FileNotFoundError):
                if file not in referenced_files and file.stat().st_mtime < older_than:
                    file.unlink()
                    deleted_count += 1
        return deleted_count

    def _path(self, tenant_id: UUID, archive_id: UUID, checksum: bytes) -> Path:
        return self._folder / str(tenant_id) / f"{archive_id}-{checksum.hex()[:16]}.jsonl.gz"


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open_nonblocking(path: str, flags: int) -> int:
    """Open a file without blocking: opening a pipe would wait for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def _part(path: Path) -> Path:
    """Return a unique name under which a file is written before it gets its final name."""
    return path.with_suffix(".part")
