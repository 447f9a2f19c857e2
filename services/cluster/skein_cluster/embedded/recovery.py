"""A cluster brought back from files: run beside its place until it is whole, then moved there in one step.

Nothing lies at the place before that, so whoever starts a server there meanwhile is refused, and a restore that was
killed leaves nothing that could be taken for a database.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein_cluster.embedded import server_settings
from skein_cluster.embedded.account import Account
from skein_cluster.embedded.binaries import programs
from skein_cluster.embedded.data_dir import lock_data_dir
from skein_cluster.embedded.errors import DataDirUnusable
from skein_cluster.embedded.private_dir import socket_folder
from skein_cluster.embedded.server import DEFAULT_PORT, STOP_SECONDS, Server, ServerPrograms, log_of, stop
from skein_cluster.embedded.stale_server import is_server_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping
    from pathlib import Path

    from skein_cluster.embedded.data_dir import DataDir

_STATUS_LINE = 7
_PORT_LINE = 3
_SOCKET_LINE = 4
# Of what a backup was made of, these may name what is not on this machine.
_OURS_ALONE = {"shared_preload_libraries": "", "hot_standby": "off", "listen_addresses": ""}
_TRUSTED = "local all all trust\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class RestoreTarget:
    """A place that nobody else can use, and where its data is made ready."""

    account: Account
    home: DataDir
    launch: ServerPrograms

    def folder(self) -> Path:
        """Make an empty folder for the data; one that was made before is removed."""
        return self.home.prepare(self.account)

    @contextlib.asynccontextmanager
    async def running(self, folder: Path, settings: Mapping[str, str]) -> AsyncIterator[Server]:
        """Run a server on the folder's data, which is whole when the block begins, as far as recovery brings it.

        Raises PostgresDidNotStart with the last lines of its log.
        """
        _completed(folder, self.account)
        with socket_folder(self.account, folder) as sockets:
            # Whoever may enter the folder is trusted, whatever the backup's own file asks of them.
            trust = sockets / "pg_hba.conf"
            trust.write_text(_TRUSTED, "utf-8")
            self.account.own(trust)
            chosen = {
                **server_settings.DURABLE_SETTINGS,
                **_OURS_ALONE,
                **settings,
                "hba_file": str(trust),
                "port": str(DEFAULT_PORT),
                "unix_socket_directories": str(sockets),
                "unix_socket_permissions": "0700",
            }
            process = await self.launch.start(folder, chosen)
            try:
                yield Server(
                    host=str(sockets),
                    port=DEFAULT_PORT,
                    pid=process.pid,
                    data_dir=folder,
                    binaries=self.launch.binaries,
                    durable=True,
                )
            finally:
                await stop(process, STOP_SECONDS)

    def complete(self, folder: Path) -> None:
        """Move the folder to its place, with everything in it on the disk."""
        os.sync()
        self.home.complete(folder)


@contextlib.contextmanager
def prepare_restore(data_dir: Path, *, seconds: float) -> Iterator[RestoreTarget]:
    """Hold an empty place until the block ends; recovery gets so many seconds.

    Raises DataDirInUse, and DataDirUnusable where something lies already.
    """
    account = Account.for_server()
    with lock_data_dir(data_dir, account, durable=True) as home, log_of(home) as log:
        if not home.is_new:
            raise DataDirUnusable(home.requested, "it holds a database already; restore into an empty folder")
        launch = ServerPrograms(account=account, binaries=programs(account), log=log, seconds=seconds)
        yield RestoreTarget(account=account, home=home, launch=launch)


def find_server(data_dir: Path) -> Server | None:
    """Return the server that runs on a data folder, as its own pid file tells; None when there is none."""
    real = data_dir.resolve()
    try:
        lines = (real / "postmaster.pid").read_text(encoding="utf-8", errors="replace").splitlines()
        pid, port, sockets = int(lines[0]), int(lines[_PORT_LINE]), lines[_SOCKET_LINE].strip()
        is_ready = lines[_STATUS_LINE].strip() == "ready"
        os.kill(pid, 0)
    except (OSError, IndexError, ValueError):
        # There is none, or the file or the process is another user's.
        return None
    # After a power cut the number may be another process's.
    if not is_ready or not sockets or not is_server_of(pid, real):
        return None
    account = Account.for_server()
    return Server(host=sockets, port=port, pid=pid, data_dir=real, binaries=programs(account), durable=True)


def _completed(folder: Path, account: Account) -> None:
    """Add the files that a server reads at its start and that lie elsewhere in some installations."""
    for name, text in (("postgresql.conf", ""), ("pg_ident.conf", ""), ("pg_hba.conf", _TRUSTED)):
        path = folder / name
        if not path.exists():
            path.write_text(text, "utf-8")
            path.chmod(0o600)
            account.own(path)


def delete_data(folder: Path) -> None:
    """Remove data that served its purpose."""
    shutil.rmtree(folder, ignore_errors=True)
