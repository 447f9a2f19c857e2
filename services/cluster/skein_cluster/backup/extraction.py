"""Reads a backup's files and checks them against their manifest, to verify or to extract them."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, Self

from skein_cluster.backup.postgres_manifest import PostgresManifest
from skein_cluster.backup.repository import BASE, POSTGRES_MANIFEST, WAL_OF_BASE, BackupDamaged, sha256
from skein_cluster.backup.wal_signatures import CHECKSUMS

_CHUNK = 1 << 20
# Files of a server's folder that are configuration, start a recovery or name other places. Some hold commands, which a
# server would run. They are compared with the manifest and not written.
_CONFIGURATION = frozenset(
    {"recovery.signal", "standby.signal", "recovery.done", "tablespace_map", "postmaster.opts", "postmaster.pid"}
)
_CONFIGURATION_SUFFIX = ".conf"
_MODE_FILE, _MODE_FOLDER = 0o600, 0o700
# Postgres' archives have headers of one block. Other types announce texts of any length.
_TYPES = frozenset({tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE})


class Header(tarfile.TarInfo):
    """A tar header of a type that Postgres writes."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Read a header. Raises BackupDamaged for types whose text would be read into memory."""
        header = super().frombuf(buf, encoding, errors)
        if header.type not in _TYPES:
            raise BackupDamaged(f"{header.name} is neither a file nor a folder.")
        return header


class Content(Protocol):
    """The content of an archive's member."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; b"" at the end."""


def file_problems(folder: Path) -> list[str]:
    """Return the problems of a backup's files by name."""
    try:
        manifest = PostgresManifest.read(folder / POSTGRES_MANIFEST)
    except BackupDamaged as damaged:
        return [str(damaged)]
    result, names = [], set[str]()
    try:
        with _readable(folder / BASE):
            for member, content in _members(folder / BASE):
                if content is None:
                    continue
                names.add(member.name)
                problem = _size_problem(member, manifest) or _content_problem(
                    member.name, _size_and_checksum(content), manifest
                )
                if problem:
                    result.append(problem)
    except BackupDamaged as damaged:
        return [*result, str(damaged)]
    result += [f"{BASE}: {name} is missing." for name in sorted(manifest.files.keys() - names)]
    return result


def extract(
    folder: Path,
    files: Mapping[str, Mapping[str, Any]],
    to: Path,
    set_owner: Callable[[Path], None],
    on_progress: Callable[[int], None],
) -> None:
    """Extract a backup's data for a server, without its configuration; `set_owner` gives files to the server's user.

    `files` has the size and SHA-256 of each packed file; `on_progress` gets the number of written bytes. Raises
    BackupDamaged at the first damaged file, before more bytes are written than it had.
    """
    for name in (POSTGRES_MANIFEST, WAL_OF_BASE):
        # No other manifest covers these files.
        _check_packed_file(folder / name, files.get(name, {}))
    manifest = PostgresManifest.read(folder / POSTGRES_MANIFEST)
    names = set[str]()
    with _readable(folder / BASE):
        for member, content in _members(folder / BASE):
            if content is not None and (problem := _size_problem(member, manifest)):
                raise BackupDamaged(problem)
            path = _inside(to, member)
            if content is not None and is_configuration(member.name):
                written: tuple[int, str] | None = _size_and_checksum(content)
            else:
                written = _write(path, content, set_owner, on_progress)
            if written is not None:
                names.add(member.name)
                if problem := _content_problem(member.name, written, manifest):
                    raise BackupDamaged(problem)
    if missing := manifest.files.keys() - names:
        raise BackupDamaged(f"{BASE}: {min(missing)} is missing.")
    with _readable(folder / WAL_OF_BASE):
        for member, content in _members(folder / WAL_OF_BASE):
            _write(_inside(to / "pg_wal", member), content, set_owner, on_progress)


def is_configuration(name: str) -> bool:
    """Return whether a file of an archive is configuration of its server: the new server has its own."""
    path = name.removeprefix("./")
    # What a server noted to be signed would be signed for the new one.
    return path.endswith(_CONFIGURATION_SUFFIX) or path in _CONFIGURATION or path.startswith(f"{CHECKSUMS}/")


def extract_wal(folder: Path, to: Path) -> None:
    """Extract the backup's set_owner write-ahead log. Raises BackupDamaged."""
    with _readable(folder / WAL_OF_BASE):
        for member, content in _members(folder / WAL_OF_BASE):
            _write(_inside(to, member), content, _ignore_file, _ignore_progress)


def _members(path: Path) -> Iterator[tuple[tarfile.TarInfo, Content | None]]:
    """Yield each member with its content; None for a folder."""
    # The file has several gzip members, which tarfile's set_owner reader does not support.
    with gzip.open(path) as packed, tarfile.open(fileobj=packed, mode="r|", tarinfo=Header) as archive:
        for member in archive:
            if member.isdir():
                yield member, None
            elif member.isfile():
                yield member, archive.extractfile(member)
            else:
                raise BackupDamaged(f"{path.name}: {member.name} is neither a file nor a folder.")
        # The end of the archive is before the last checksum, which gzip compares at the end of the file.
        while packed.read(_CHUNK):
            pass


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Raise BackupDamaged when a packed file, read in the block, is damaged."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error, tarfile.TarError) as error:
        raise BackupDamaged(f"{path.name} cannot be read ({type(error).__name__}).") from None


def _inside(to: Path, member: tarfile.TarInfo) -> Path:
    path = to / member.name
    if ".." in path.parts or member.name.startswith("/"):
        raise BackupDamaged(f"{member.name} is outside the folder.")
    return path


def _write(
    path: Path, content: Content | None, set_owner: Callable[[Path], None], on_progress: Callable[[int], None]
) -> tuple[int, str] | None:
    """Write a file and return its size and checksum; None for a folder."""
    if content is None:
        path.mkdir(mode=_MODE_FOLDER, parents=True, exist_ok=True)
        set_owner(path)
        return None
    path.parent.mkdir(mode=_MODE_FOLDER, parents=True, exist_ok=True)
    digest, size = hashlib.sha256(), 0
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE_FILE), "wb") as file:
        while chunk := content.read(_CHUNK):
            file.write(chunk)
            digest.update(chunk)
            size += len(chunk)
            on_progress(len(chunk))
    set_owner(path)
    return size, digest.hexdigest()


def _size_and_checksum(content: Content) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    while chunk := content.read(_CHUNK):
        digest.update(chunk)
        size += len(chunk)
    return size, digest.hexdigest()


def _check_packed_file(path: Path, expected: Mapping[str, Any]) -> None:
    """Raise BackupDamaged for a packed file with another checksum."""
    try:
        is_undamaged = path.stat().st_size == expected.get("bytes") and sha256(path) == expected.get("sha256")
    except OSError as error:
        raise BackupDamaged(f"{path.name} cannot be read ({type(error).__name__}).") from None
    if not is_undamaged:
        raise BackupDamaged(f"{path.name} was changed after it was written.")


def _size_problem(member: tarfile.TarInfo, manifest: PostgresManifest) -> str:
    """Return the problem of a member's size, before its bytes are read; "" for none."""
    expected = manifest.files.get(member.name)
    if expected is None:
        return f"{BASE}: {member.name} is not on the list of files."
    return (
        "" if member.size == expected[0] else f"{BASE}: {member.name} has {member.size} bytes, and had {expected[0]}."
    )


def _content_problem(name: str, size_and_checksum: tuple[int, str], manifest: PostgresManifest) -> str:
    """Return the problem of a member's bytes; a truncated archive has fewer."""
    return "" if size_and_checksum == manifest.files[name] else f"{BASE}: {name} was changed after it was written."


def _ignore_file(_path: Path) -> None:
    """Keep a file's owner."""


def _ignore_progress(_count: int) -> None:
    """Ignore progress."""
