"""A private folder under the temp directory: only we may write, and the server's user may enter."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from skein_cluster.embedded.account import Account
from skein_cluster.embedded.errors import PostgresDidNotStart

# The address of a Unix socket has at most 107 bytes on Linux and 103 on macOS.
SOCKET_PATH_BYTES = 103
_LONGEST_SOCKET = "0123456789abcdef/.s.PGSQL.65535"


def digest(path: Path) -> str:
    """Sixteen characters that stand for a path of any length."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


def private_folder(account: Account) -> Path:
    """Create or find the folder `skein-<uid>` in the first temp directory that is short and enterable.

    Another user's folder of that name is not trusted; the next temp directory is tried.
    """
    base_folders = dict.fromkeys(Path(base).resolve() for base in (tempfile.gettempdir(), "/tmp", "/var/tmp"))  # noqa: S108 - checked below
    for base in base_folders:
        folder = base / f"skein-{os.geteuid()}"
        is_short = len(os.fsencode(folder / _LONGEST_SOCKET)) <= SOCKET_PATH_BYTES
        # Postgres reads the socket folder as a list, with commas between and quotes around.
        is_unquoted = not {",", '"'} & set(str(folder))
        if (
            is_short
            and is_unquoted
            and account.may_enter(base)
            and _is_ours(folder, mode=0o711 if account.switch else 0o700)
        ):
            return folder
    raise PostgresDidNotStart(
        f"no usable folder for its socket in {', '.join(map(str, base_folders))}; set TMPDIR to a short path of yours"
    )


@contextlib.contextmanager
def socket_folder(account: Account, data_dir: Path) -> Iterator[Path]:
    """Create the folder of one cluster's socket, which only the server's user may enter; remove it at the end.

    Its name depends on the data folder alone, so that the address survives a restart.
    """
    folder = private_folder(account) / digest(data_dir)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    account.chown(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_ours(folder: Path, *, mode: int) -> bool:
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700)
    try:
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            return False
        folder.chmod(mode)
    except OSError:
        return False
    return True
