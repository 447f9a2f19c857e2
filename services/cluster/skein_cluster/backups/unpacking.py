"""Reading a backup's files against the list that came with them: to verify them, or to write them for a server."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import tarfile
import zlib
from typing import TYPE_CHECKING, Protocol

from skein_cluster.backups.folder import BASE, POSTGRES_MANIFEST, WAL_OF_BASE, BackupDamaged
from skein_cluster.backups.postgres_manifest import PostgresManifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_CHUNK = 1 << 20
_MODE_FILE, _MODE_FOLDER = 0o600, 0o700


class Content(Protocol):
    """What a member of an archive is read from."""

    def read(self, size: int, /) -> bytes:
        """Return up to so many bytes; none at the end."""


def problems(folder: Path) -> list[str]:
    """Return what is wrong with the files of a backup: each by its name."""
    try:
        manifest = PostgresManifest.read(folder / POSTGRES_MANIFEST)
    except BackupDamaged as damaged:
        return [str(damaged)]
    found, seen = [], set[str]()
    try:
        with _readable(folder / BASE):
            for member, content in _members(folder / BASE):
                if content is None:
                    continue
                seen.add(member.name)
                if problem := _differs(member.name, _measured(content), manifest):
                    found.append(problem)
    except BackupDamaged as damaged:
        return [*found, str(damaged)]
    found += [f"{BASE}: {name} is missing." for name in sorted(manifest.files.keys() - seen)]
    return found


def unpack(folder: Path, to: Path, own: Callable[[Path], None], told: Callable[[int], None]) -> None:
    """Write a backup's data where a server can run on it; `own` gives each file to the server's user.

    `told` hears of every byte that was written. Raises BackupDamaged at the first file that is not as it was.
    """
    manifest = PostgresManifest.read(folder / POSTGRES_MANIFEST)
    seen = set[str]()
    with _readable(folder / BASE):
        for member, content in _members(folder / BASE):
            written = _write(_inside(to, member), content, own, told)
            if written is not None:
                seen.add(member.name)
                if problem := _differs(member.name, written, manifest):
                    raise BackupDamaged(problem)
    if missing := manifest.files.keys() - seen:
        message = f"{BASE}: {min(missing)} is missing."
        raise BackupDamaged(message)
    with _readable(folder / WAL_OF_BASE):
        for member, content in _members(folder / WAL_OF_BASE):
            _write(_inside(to / "pg_wal", member), content, own, told)


def unpack_log(folder: Path, to: Path) -> None:
    """Write the log that a backup carries itself. Raises BackupDamaged."""
    with _readable(folder / WAL_OF_BASE):
        for member, content in _members(folder / WAL_OF_BASE):
            _write(_inside(to, member), content, _keep, _hear_nothing)


def _members(path: Path) -> Iterator[tuple[tarfile.TarInfo, Content | None]]:
    """Yield each member with what it holds; None for a folder."""
    # Packed in several parts, which tarfile's own reader of packed streams does not go on with.
    with gzip.open(path) as packed, tarfile.open(fileobj=packed, mode="r|") as archive:
        for member in archive:
            if member.isdir():
                yield member, None
            elif member.isfile():
                yield member, archive.extractfile(member)
            else:
                message = f"{path.name}: {member.name} is neither a file nor a folder."
                raise BackupDamaged(message)


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Raise BackupDamaged where a packed file, read in the block, is not what it was."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error, tarfile.TarError) as error:
        message = f"{path.name} cannot be read ({type(error).__name__})."
        raise BackupDamaged(message) from None


def _inside(to: Path, member: tarfile.TarInfo) -> Path:
    path = to / member.name
    if ".." in path.parts or member.name.startswith("/"):
        message = f"{member.name} leads out of the folder."
        raise BackupDamaged(message)
    return path


def _write(
    path: Path, content: Content | None, own: Callable[[Path], None], told: Callable[[int], None]
) -> tuple[int, str] | None:
    """Write a file and return its size and checksum; None for a folder."""
    if content is None:
        path.mkdir(mode=_MODE_FOLDER, parents=True, exist_ok=True)
        own(path)
        return None
    path.parent.mkdir(mode=_MODE_FOLDER, parents=True, exist_ok=True)
    digest, size = hashlib.sha256(), 0
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE_FILE), "wb") as file:
        while chunk := content.read(_CHUNK):
            file.write(chunk)
            digest.update(chunk)
            size += len(chunk)
            told(len(chunk))
    own(path)
    return size, digest.hexdigest()


def _measured(content: Content) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    while chunk := content.read(_CHUNK):
        digest.update(chunk)
        size += len(chunk)
    return size, digest.hexdigest()


def _differs(name: str, measured: tuple[int, str], manifest: PostgresManifest) -> str:
    expected = manifest.files.get(name)
    if expected is None:
        return f"{BASE}: {name} is not on the list of files."
    if measured[0] != expected[0]:
        return f"{BASE}: {name} has {measured[0]} bytes, and had {expected[0]}."
    return "" if measured[1] == expected[1] else f"{BASE}: {name} was changed after it was written."


def _keep(_path: Path) -> None:
    """Leave a file to whom it belongs."""


def _hear_nothing(_count: int) -> None:
    """Tell nobody."""
