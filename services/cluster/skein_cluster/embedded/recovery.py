"""A cluster restored from files: it runs beside its final path until it is complete, then moves there in one step.

The final path stays empty and locked before that, so no server can start there, and a killed restore leaves no partial
database.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from skein_cluster.embedded import server_settings
from skein_cluster.embedded.account import Account
from skein_cluster.embedded.binaries import programs
from skein_cluster.embedded.data_dir import DataDir, lock_data_dir
from skein_cluster.embedded.errors import DataDirUnusable
from skein_cluster.embedded.private_dir import socket_folder
from skein_cluster.embedded.server import DEFAULT_PORT, STOP_SECONDS, Server, ServerPrograms, log_of, stop
from skein_cluster.embedded.stale_server import is_server_of

_STATUS_LINE = 7
_PORT_LINE = 3
_SOCKET_LINE = 4
# Settings of the original server that may name files missing on this machine.
_OURS_ALONE = {"shared_preload_libraries": "", "hot_standby": "off", "listen_addresses": ""}
# As initdb writes it for the socket; backups of the restored server connect for replication.
_TRUSTED = "local all all trust\nlocal replication all trust\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class RestoreTarget:
    """A locked place, and the folder where its data is prepared."""

    account: Account
    home: DataDir
    launch: ServerPrograms

    def folder(self) -> Path:
        """Create an empty folder for the data; remove an earlier one."""
        return self.home.prepare(self.account)

    @contextlib.asynccontextmanager
    async def running(self, folder: Path, settings: Mapping[str, str]) -> AsyncIterator[Server]:
        """Run a server on the folder's data; recovery has finished when the block begins.

        Raises PostgresDidNotStart with the last lines of its log.
        """
        _completed(folder, self.account)
        with socket_folder(self.account, folder) as sockets:
            # Trust every user who may enter the folder, also against the backup's own file.
            trust = sockets / "pg_hba.conf"
            trust.write_text(_TRUSTED, "utf-8")
            self.account.chown(trust)
            server_options = {
                **server_settings.DURABLE_SETTINGS,
                **_OURS_ALONE,
                **settings,
                "hba_file": str(trust),
                "port": str(DEFAULT_PORT),
                "unix_socket_directories": str(sockets),
                "unix_socket_permissions": "0700",
            }
            process = await self.launch.start(folder, server_options)
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
        """Sync the folder to disk and move it to its place."""
        os.sync()
        self.home.complete(folder)


@contextlib.contextmanager
def prepare_restore(data_dir: Path, *, seconds: float) -> Iterator[RestoreTarget]:
    """Lock an empty place until the block ends; `seconds` limits recovery.

    Raises DataDirInUse, and DataDirUnusable when the place is not empty.
    """
    account = Account.for_server()
    with lock_data_dir(data_dir, account, durable=True) as home, log_of(home) as log:
        if not home.is_new:
            raise DataDirUnusable(home.requested, "it contains a database already; restore to an empty folder")
        launch = ServerPrograms(account=account, binaries=programs(account), log=log, seconds=seconds)
        yield RestoreTarget(account=account, home=home, launch=launch)


def find_server(data_dir: Path) -> Server | None:
    """Return the server that runs on a data folder by its pid file; None for none."""
    real = data_dir.resolve()
    try:
        lines = (real / "postmaster.pid").read_text(encoding="utf-8", errors="replace").splitlines()
        pid, port, sockets = int(lines[0]), int(lines[_PORT_LINE]), lines[_SOCKET_LINE].strip()
        is_ready = lines[_STATUS_LINE].strip() == "ready"
        os.kill(pid, 0)
    except (OSError, IndexError, ValueError):
        # No server, or the file or process belongs to another user.
        return None
    # After a power cut another process may have the number.
    if not is_ready or not sockets or not is_server_of(pid, real):
        return None
    account = Account.for_server()
    return Server(host=sockets, port=port, pid=pid, data_dir=real, binaries=programs(account), durable=True)


def _completed(folder: Path, account: Account) -> None:
    """Add files that a server reads at its start and that some installations keep elsewhere."""
    for name, text in (("postgresql.conf", ""), ("pg_ident.conf", ""), ("pg_hba.conf", _TRUSTED)):
        path = folder / name
        if not path.exists():
            path.write_text(text, "utf-8")
            path.chmod(0o600)
            account.chown(path)


def delete_data(folder: Path) -> None:
    """Remove temporary data."""
    shutil.rmtree(folder, ignore_errors=True)
