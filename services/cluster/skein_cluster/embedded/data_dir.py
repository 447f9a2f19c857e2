"""A cluster's data folder: its place, its lock, and its first creation.

Normally the data is at the requested path. The server's user may be unable to enter that folder, as for a clone in
root's home. Then the data is in `/var/lib/skein/<hash>-<random>`, and the requested path is a symbolic link to it. So
the data persists, moves with a renamed clone, and a new clone at an old path starts empty. `<data>.origin` beside it
names the requested path. Temporary data (`durable=False`) is below the temp directory then; a later run removes it once
its link is missing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from skein_cluster.embedded.account import Account
from skein_cluster.embedded.binaries import MAJOR
from skein_cluster.embedded.errors import DataDirInUse, DataDirUnusable
from skein_cluster.embedded.private_dir import digest, private_folder

SYSTEM_DATA = Path("/var/lib/skein")
# Postgres silently truncates longer paths (MAXPGPATH is 1024, including its own file names).
_MAX_PATH_BYTES = 900


@dataclass(frozen=True, kw_only=True, slots=True)
class DataDir:
    """A cluster's data folder: the requested path and the real one, which are mostly the same."""

    requested: Path
    real: Path
    is_new: bool

    @property
    def log(self) -> Path:
        """The server's log, beside the requested path."""
        return self.requested.with_name(f"{self.requested.name}.log")

    def prepare(self, account: Account) -> Path:
        """Create an empty folder for `initdb` beside the final path.

        Its name is new each time: the `initdb` of a start that was just killed may still be removing files.
        """
        self._remove_leftovers()
        new_folder = Path(tempfile.mkdtemp(prefix=self._prefix, dir=self.real.parent))
        account.chown(new_folder)
        return new_folder

    def complete(self, new_folder: Path) -> None:
        """Move a finished new cluster into place in one step, and create the link at the requested path."""
        new_folder.rename(self.real)
        self._remove_leftovers()
        if self.real != self.requested and not self.requested.is_symlink():
            self.real.with_name(f"{self.real.name}.origin").write_bytes(os.fsencode(self.requested))
            with contextlib.suppress(FileNotFoundError):
                self.requested.rmdir()
            self.requested.symlink_to(self.real)
        for folder in {self.real.parent, self.requested.parent}:
            _sync(folder)

    @property
    def _prefix(self) -> str:
        return f"{digest(self.requested)}.first-start-"

    def _remove_leftovers(self) -> None:
        """Remove leftovers of killed first starts."""
        for folder in self.real.parent.iterdir():
            if folder.name.startswith(self._prefix):
                shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def lock_data_dir(data_dir: Path, account: Account, *, durable: bool) -> Iterator[DataDir]:
    """Lock the data folder until the block ends; raise DataDirInUse when another process has the lock.

    The kernel drops the locks with the process, however it ends. Two locks where a link is involved, because a copied
    clone contains a second link to the same data.
    """
    requested = _absolute_path(data_dir)
    with contextlib.ExitStack() as locked:
        locked.enter_context(_locked(requested, requested))
        home = _find(requested, account, durable=durable)
        if home.real != requested:
            locked.enter_context(_locked(home.real, requested))
        try:
            yield home
        finally:
            # After an interrupted first start, the random name means that no other process waits for the lock.
            if home.real != requested and not home.real.exists():
                _lock_file(home.real).unlink(missing_ok=True)


def refuse_postgres_folder(data_dir: Path) -> None:
    """Raise DataDirUnusable for a data folder of Postgres, in which a cluster's folder would do harm."""
    if (data_dir / "PG_VERSION").exists():
        problem = "it is a folder of Postgres itself; name another data folder, or set SKEIN_DATABASE_URL"
        raise DataDirUnusable(data_dir, problem)


def delete_data_dir(data_dir: Path) -> None:
    """Remove a stopped cluster, its log, and its link if any; a missing cluster is no error."""
    requested = _absolute_path(data_dir)
    real = requested.resolve()
    with contextlib.ExitStack() as locked:
        locked.enter_context(_locked(requested, requested))
        if real != requested:
            locked.enter_context(_locked(real, requested))
        if (real / "PG_VERSION").exists():
            _remove(real)
        if requested.is_symlink():
            requested.unlink()
        for path in (real.with_name(f"{real.name}.origin"), requested.with_name(f"{requested.name}.log")):
            path.unlink(missing_ok=True)
        # The lock file stays: another process may have it open, about to lock it.
        if real != requested:
            _lock_file(real).unlink(missing_ok=True)


def _remove(folder: Path) -> None:
    """Remove a folder while a killed server may still be removing files in it."""
    while folder.exists():
        # (From Python 3.13 on that is no error.)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)


def _absolute_path(data_dir: Path) -> Path:
    absolute = data_dir.expanduser().absolute()
    absolute.parent.mkdir(parents=True, exist_ok=True)
    return absolute.parent.resolve() / absolute.name


def _find(requested: Path, account: Account, *, durable: bool) -> DataDir:
    real = requested.resolve()
    if requested.is_symlink() and not real.exists():
        if durable or real.parent != private_folder(account):
            raise DataDirUnusable(
                requested,
                f"it is a link to {real}, which does not exist; restore it, or remove the link to start empty",
            )
        requested.unlink()
        real = requested
    if len(os.fsencode(real)) > _MAX_PATH_BYTES:
        raise DataDirUnusable(requested, f"the path is longer than {_MAX_PATH_BYTES} bytes; use a shorter one")
    enterable = account.may_enter(real.parent)
    if _holds_cluster(real, account):
        if not enterable:
            raise DataDirUnusable(requested, f"{_name(account.user)}, who runs the server, cannot enter {real.parent}")
        return DataDir(requested=requested, real=real, is_new=False)
    if enterable:
        return DataDir(requested=requested, real=real, is_new=True)
    if requested.is_symlink():
        raise DataDirUnusable(requested, f"{_name(account.user)}, who runs the server, cannot enter {real.parent}")
    if durable:
        base = _system_data(requested)
    else:
        base = private_folder(account)
        _remove_orphans(base)
    elsewhere = base / f"{digest(requested)}-{secrets.token_hex(4)}"
    return DataDir(requested=requested, real=elsewhere, is_new=True)


def _remove_orphans(base: Path) -> None:
    """Remove temporary data whose link does not exist any more, as after a test run."""
    for note in base.glob("*.origin"):
        real = note.with_suffix("")
        with contextlib.suppress(DataDirInUse, FileNotFoundError):
            link = Path(os.fsdecode(note.read_bytes()))
            if link.resolve() == real:
                continue
            with _locked(real, real):
                shutil.rmtree(real, ignore_errors=True)
                note.unlink()
                _lock_file(real).unlink()


def _holds_cluster(real: Path, account: Account) -> bool:
    """Tell whether the folder has a cluster that this process can run; False when it is empty."""
    try:
        names = os.listdir(real)  # noqa: PTH208 - it raises NotADirectoryError for a file
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        raise DataDirUnusable(real, "it is not a folder") from None
    except PermissionError:
        owner = _name(real.stat().st_uid)
        raise DataDirUnusable(real, f"it belongs to {owner} and cannot be read by {_name(os.geteuid())}") from None
    if not names:
        return False
    if "PG_VERSION" not in names:
        raise DataDirUnusable(real, "it contains other files; use an empty folder or a new one")
    version = (real / "PG_VERSION").read_text(encoding="ascii").strip()
    if version != str(MAJOR):
        raise DataDirUnusable(real, f"it contains data of Postgres {version}, and this is {MAJOR}; dump and import it")
    owner_id = real.stat().st_uid
    if owner_id != account.user:
        owner, needed = _name(owner_id), _name(account.user)
        raise DataDirUnusable(
            real, f"it belongs to {owner}, and the server runs as {needed}; start it as {owner}, or chown -R it"
        )
    return True


def _system_data(requested: Path) -> Path:
    try:
        SYSTEM_DATA.mkdir(mode=0o711, parents=True, exist_ok=True)
        SYSTEM_DATA.chmod(0o711)
    except OSError as error:
        problem = (
            f"Postgres does not run as root, no other user can enter {requested.parent}, and {SYSTEM_DATA} cannot be "
            f"created ({error.strerror}); use a data folder that all users can enter"
        )
        raise DataDirUnusable(requested, problem) from None
    return SYSTEM_DATA


def _lock_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


@contextlib.contextmanager
def _locked(path: Path, requested: Path) -> Iterator[None]:
    # Do not follow links: others may write to the folder.
    handle = os.open(_lock_file(path), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataDirInUse(requested, os.read(handle, 20).decode().strip()) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
