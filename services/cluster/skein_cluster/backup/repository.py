"""The backup repository: its layout, the description of each backup, and its locks.

`backups/<id>/` holds one backup, `wal/` the write-ahead log, `cold/` the files of cold storage, each once. A backup is
written to `backups/.part-…` and renamed when it is on disk, so the list never has a partial one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from skein_cluster.backup.signatures import BackupKey, TrustedKeys
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.embedded.account import Account
from skein_kit.backup_folder import BACKUPS, MANIFEST

FORMAT = 1
BASE, WAL_OF_BASE, POSTGRES_MANIFEST = "base.tar.gz", "pg_wal.tar.gz", "backup_manifest"
_PART = ".part-"
_OWNER, _LOCK = "owner.json", ".lock"
# Suffix of a partial file of cold storage.
COLD_PART = ".part"
_PRIVATE, _PRIVATE_FILE = 0o700, 0o600


class BackupDamaged(Exception):
    """A backup was changed or is incomplete; the message names the file and the problem."""


class BackupUnsigned(BackupDamaged):
    """No trusted key has signed a backup."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Backup:
    """The description of one backup."""

    backup_id: str
    # Start of the backup; finish_time is the earliest restorable time.
    start_time: datetime
    finish_time: datetime
    timeline: int
    start_lsn: str
    stop_lsn: str
    system_identifier: str
    postgres_version: str
    wal_segment_bytes: int
    schema_version: int
    skein_version: str
    database: str
    superuser: str
    # The embedded cluster's data folder; empty for a database by URL.
    data_dir: str
    # Whether the write-ahead log went to this repository, so that later points in time can be restored.
    has_log: bool
    # Size of the data in the server.
    database_bytes: int
    # Size and SHA-256 of each file.
    files: Mapping[str, Mapping[str, Any]]
    # Files of cold storage, "memory/<tenant>/<file>".
    cold: Sequence[str]
    # Signature of all of it; empty before it is signed.
    signature: str = ""

    @property
    def byte_count(self) -> int:
        """Return the size of its own files."""
        return sum(file["bytes"] for file in self.files.values())

    @property
    def major(self) -> int:
        """Return the major version of the server."""
        return int(self.postgres_version.split(".", maxsplit=1)[0])

    def text(self) -> str:
        """Return a JSON document with its own checksum."""
        document = self._document()
        return json.dumps({**document, "checksum": _checksum(document)}, indent=1, sort_keys=True) + "\n"

    def signed_by(self, key: BackupKey) -> Backup:
        """Return the backup with a signature of everything that its description states."""
        return dataclasses.replace(self, signature=key.sign(self.signed_bytes()))

    def signed_bytes(self) -> bytes:
        """Return what the signature covers: the files' checksums, and with them every byte of the backup."""
        document = self._document()
        del document["signature"]
        return b"skein-backup/1\n" + _canonical(document)

    def _document(self) -> dict[str, Any]:
        document: dict[str, Any] = {"format": FORMAT, **dataclasses.asdict(self)}
        document["start_time"], document["finish_time"] = self.start_time.isoformat(), self.finish_time.isoformat()
        return document

    @classmethod
    def read(cls, path: Path) -> Backup:
        """Read the document. Raises BackupDamaged."""
        try:
            document = json.loads(path.read_text("utf-8"))
            checksum, number = document.pop("checksum"), document.pop("format")
            if checksum != _checksum({"format": number, **document}):
                raise BackupDamaged(f"{path} was changed after it was written.")
            if number != FORMAT:
                raise BackupDamaged(f"{path} is of format {number}, and this version of Skein reads {FORMAT}.")
            for name in ("start_time", "finish_time"):
                document[name] = datetime.fromisoformat(document[name]).astimezone(UTC)
            return cls(**document)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BackupDamaged(f"{path} cannot be read ({type(error).__name__}).") from None


def _checksum(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(_canonical(document)).hexdigest()


def _canonical(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class BackupRepository:
    """The folder."""

    path: Path
    # Only what one of these keys has signed is there; None: everything.
    trusted: TrustedKeys | None = None

    @property
    def wal(self) -> Path:
        """Folder of the write-ahead log."""
        return self.path / "wal"

    @property
    def cold(self) -> Path:
        """Folder of the files of cold storage."""
        return self.path / "cold"

    def of(self, backup: Backup) -> Path:
        """Return the folder of a backup."""
        return self.path / BACKUPS / backup.backup_id

    def make(self) -> None:
        """Create the folder; the server's user must be able to enter its log. Raises CommandError."""
        mode = 0o711 if Account.for_server().switch else _PRIVATE
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=mode)
            (self.path / BACKUPS).mkdir(exist_ok=True, mode=_PRIVATE)
        except OSError as error:
            raise CommandError(
                f"{self.path} cannot be used for backups ({error.strerror}); name another folder.",
                ExitCode.CANNOT_START,
            ) from None

    def owner(self) -> tuple[str, str]:
        """Return the log's system identifier, and that server's last data folder; empty for none, or unsigned."""
        try:
            document = json.loads((self.path / _OWNER).read_text("utf-8"))
            owner = str(document["system_identifier"]), str(document["data_dir"])
            signature = str(document["signature"])
        except (OSError, ValueError, KeyError, TypeError):
            return "", ""
        if self.trusted is None or self.trusted.have_signed(_owner_bytes(*owner), signature):
            return owner
        return "", ""

    def set_owner(self, system_identifier: str, data_dir: Path, key: BackupKey) -> None:
        """Set the database that the log belongs to."""
        part, owner = self.path / f".{_OWNER}", (system_identifier, str(data_dir.absolute()))
        document = {"system_identifier": owner[0], "data_dir": owner[1], "signature": key.sign(_owner_bytes(*owner))}
        part.write_text(json.dumps(document), "utf-8")
        synchronize(part)
        part.replace(self.path / _OWNER)

    def backups(self) -> list[Backup]:
        """Return the complete backups, oldest first, without those that cannot be read or trusted."""
        backups: list[Backup] = []
        for folder in self._folders():
            with contextlib.suppress(BackupDamaged):
                backups.append(self._read(folder))
        return sorted(backups, key=lambda backup: (backup.finish_time, backup.backup_id))

    def unreadable(self) -> list[str]:
        """Return the ids of backups that cannot be read."""
        readable = {backup.backup_id for backup in self.backups()}
        return sorted(folder.name for folder in self._folders() if folder.name not in readable)

    def get_backup(self, backup_id: str) -> Backup:
        """Return one backup. Raises CommandError, and BackupDamaged."""
        if backup_id not in {folder.name for folder in self._folders()}:
            raise CommandError(
                f"There is no backup {backup_id!r} in {self.path}; `skein backup list` lists the backups.",
                ExitCode.REFUSED,
            )
        return self._read(self.path / BACKUPS / backup_id)

    def _read(self, folder: Path) -> Backup:
        """Read the description of a backup. Raises BackupDamaged, and BackupUnsigned."""
        backup = Backup.read(folder / MANIFEST)
        if backup.backup_id != folder.name:
            raise BackupDamaged(f"{folder / MANIFEST} is the description of {backup.backup_id}.")
        if self.trusted is not None and not self.trusted.have_signed(backup.signed_bytes(), backup.signature):
            raise BackupUnsigned(f"No trusted key has signed {folder / MANIFEST}.")
        return backup

    @contextlib.contextmanager
    def write_lock(self) -> Iterator[None]:
        """Hold the exclusive lock of the repository until the block ends. Raises CommandError."""
        self.make()
        with self._locked(fcntl.LOCK_EX):
            for leftover in (self.path / BACKUPS).glob(f"{_PART}*"):
                shutil.rmtree(leftover, ignore_errors=True)
            for leftover in self.cold.glob(f"*/*/*{COLD_PART}"):
                leftover.unlink(missing_ok=True)
            yield

    @contextlib.contextmanager
    def read_lock(self) -> Iterator[None]:
        """Hold the shared lock of the repository, against removals, until the block ends. Raises CommandError."""
        with self._locked(fcntl.LOCK_SH):
            yield

    @contextlib.contextmanager
    def _locked(self, kind: int) -> Iterator[None]:
        try:
            handle = os.open(self.path / _LOCK, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            # Nothing can be removed from a read-only folder, so no lock is needed.
            if kind == fcntl.LOCK_EX:
                raise
            yield
            return
        try:
            try:
                fcntl.flock(handle, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CommandError(
                    f"Another `skein backup` is running in {self.path}; wait until it ends.", ExitCode.REFUSED
                ) from None
            yield
        finally:
            os.close(handle)

    @contextlib.contextmanager
    def part(self, backup_id: str) -> Iterator[Path]:
        """Create an empty folder for a new backup; leftovers are removed after the block."""
        folder = self.path / BACKUPS / f"{_PART}{backup_id}"
        folder.mkdir(mode=_PRIVATE)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def complete(self, part: Path, backup: Backup) -> None:
        """Publish a backup under its name after syncing it to disk."""
        (part / MANIFEST).write_text(backup.text(), "utf-8")
        for file in part.iterdir():
            file.chmod(_PRIVATE_FILE)
            synchronize(file)
        synchronize(part)
        part.rename(self.of(backup))
        synchronize(self.path / BACKUPS)

    def remove(self, backup: Backup) -> None:
        """Remove a backup, its name first, so that a partial one is never listed."""
        removed = self.path / BACKUPS / f"{_PART}{backup.backup_id}"
        self.of(backup).rename(removed)
        shutil.rmtree(removed)

    def new_id(self, at: datetime) -> str:
        """Return a free id by the time: 20261121T221530Z."""
        name = at.strftime("%Y%m%dT%H%M%SZ")
        existing_names = {folder.name for folder in self._folders()}
        return next(
            candidate
            for number in range(len(existing_names) + 1)
            if (candidate := f"{name}-{number}" if number else name) not in existing_names
        )

    def _folders(self) -> list[Path]:
        try:
            return [path for path in (self.path / BACKUPS).iterdir() if path.is_dir() and not path.name.startswith(".")]
        except (FileNotFoundError, NotADirectoryError):
            return []


def _owner_bytes(system_identifier: str, data_dir: str) -> bytes:
    return b"skein-backup-owner/1\n" + _canonical({"system_identifier": system_identifier, "data_dir": data_dir})


def sha256(path: Path) -> str:
    """Return a file's checksum."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def synchronize(path: Path) -> None:
    """Sync a file or folder to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
