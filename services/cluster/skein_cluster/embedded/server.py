"""One embedded Postgres from first creation to orderly stop; one that ended by itself is restarted."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from skein_cluster.embedded import server_settings
from skein_cluster.embedded.account import Account
from skein_cluster.embedded.binaries import programs
from skein_cluster.embedded.data_dir import DataDir, lock_data_dir
from skein_cluster.embedded.errors import PostgresDidNotStart
from skein_cluster.embedded.private_dir import socket_folder
from skein_cluster.embedded.stale_server import POLL_SECONDS, stop_stale_server
from skein_kit.telemetry import logs

SUPERUSER = "postgres"
DEFAULT_PORT = 5432
START_SECONDS = 60.0
STOP_SECONDS = 30.0
QUIT_SECONDS = 5.0
LOG_BYTES = 10_000_000
LOG_LINES = 20
_NOTHING: Mapping[str, str] = MappingProxyType({})
_STATUS_LINE = 7
# Postgres' message while backends of a killed server still run.
_STILL_ENDING = "is still in use"
# Poll interval, and first pause after a failed start, which doubles each time.
_LOOK_SECONDS = 0.1
_FIRST_PAUSE_SECONDS = 0.5
_MAX_PAUSE_SECONDS = 15.0
# A server that ran longer counts as started.
_GOOD_SECONDS = 60.0

_log = logs.get("postgres")


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """A running embedded Postgres."""

    # The private folder of its socket, the same after every restart.
    host: str
    port: int
    # Pid of the first process: see `restart`.
    pid: int
    # The real data folder (see `skein_cluster.embedded.data_dir`).
    data_dir: Path
    # The folder with pg_basebackup, pg_dump and the rest, runnable by the server's user.
    binaries: Path
    durable: bool

    def dsn(self, *, user: str = SUPERUSER, database: str = "skein") -> dict[str, Any]:
        """Return the keywords for `asyncpg.connect` and `create_pool`."""
        return {"host": self.host, "port": self.port, "user": user, "database": database}

    def url(self, *, user: str, database: str) -> str:
        """Return the same as one string, for the SKEIN_DATABASE_URL of a child process."""
        host = quote(self.host, safe="")
        return f"postgresql://{quote(user, safe='')}@/{quote(database, safe='')}?host={host}&port={self.port}"


@contextlib.asynccontextmanager
async def running_server(
    data_dir: Path,
    *,
    durable: bool = True,
    settings: Mapping[str, str] = _NOTHING,
    tcp_port: int | None = None,
    start_seconds: float = START_SECONDS,
    stop_seconds: float = STOP_SECONDS,
    restart: bool = False,
) -> AsyncIterator[Server]:
    """Run a server on the data folder, created on first use, until the end of the block.

    Enter it in a thread that lives as long as the server, such as the main thread. The kernel ends the server with
    that thread, also when this process is killed. Connections through the socket are trusted, because only the server's
    user and root may enter its folder. On `tcp_port` at 127.0.0.1 a role needs a password.
    The settings are Postgres' own and visible in the list of processes: no secrets in them.
    With `restart`, a server that ends by itself is started again, as often as needed.
    Beside the data folder are `<name>.lock` and `<name>.log`, the latter emptied at a start that finds it over 10 MB.

    Raises DataDirInUse, DataDirUnusable or PostgresDidNotStart, all of them EmbeddedPostgresError.
    """
    account = Account.for_server()
    with lock_data_dir(data_dir, account, durable=durable) as home, log_of(home) as log:
        binaries = programs(account)
        launch = ServerPrograms(account=account, binaries=binaries, log=log, seconds=start_seconds)
        await stop_stale_server(home.real, account)
        if home.is_new:
            await launch.create(home, durable=durable)
        with socket_folder(account, home.real) as sockets:
            port = tcp_port or DEFAULT_PORT
            server_options = {
                **(server_settings.DURABLE_SETTINGS if durable else server_settings.EPHEMERAL_SETTINGS),
                **settings,
                "listen_addresses": "127.0.0.1" if tcp_port else "",
                "port": str(port),
                "unix_socket_directories": str(sockets),
                "unix_socket_permissions": "0700",
            }

            async def start() -> subprocess.Popen[bytes]:
                await stop_stale_server(home.real, account)
                return await launch.start(home.real, server_options)

            process = await launch.start(home.real, server_options)
            supervisor = ServerSupervisor(process, start)
            tasks = [asyncio.create_task(supervisor.supervise())] if restart else []
            try:
                yield Server(
                    host=str(sockets),
                    port=port,
                    pid=process.pid,
                    data_dir=home.real,
                    binaries=binaries,
                    durable=durable,
                )
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await stop(supervisor.process, stop_seconds)


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerPrograms:
    """The user, folder and start timeout of a server's programs."""

    account: Account
    binaries: Path
    log: io.FileIO
    seconds: float

    async def create(self, home: DataDir, *, durable: bool) -> None:
        """Create the cluster beside its place and move it there when it is complete."""
        folder = home.prepare(self.account)
        try:
            await self._initdb(folder, durable=durable)
        except BaseException:
            # Also after a cancellation: a partial cluster is useless.
            shutil.rmtree(folder, ignore_errors=True)
            raise
        home.complete(folder)

    async def _initdb(self, folder: Path, *, durable: bool) -> None:
        log_tail = _LogTail(self.log)
        command = [
            str(self.binaries / "initdb"),
            f"--pgdata={folder}",
            f"--username={SUPERUSER}",
            "--auth-local=trust",
            "--auth-host=scram-sha-256",
            "--encoding=UTF8",
            # Postgres' own C.UTF-8 orders alike on every machine, so an update of libc cannot break an index.
            "--locale=C.UTF-8",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--no-instructions",
        ]
        process = self.account.start(command if durable else [*command, "--no-sync"], log=self.log)
        try:
            if not await _ended(process, self.seconds):
                raise PostgresDidNotStart(f"initdb took longer than {self.seconds:g} s", log_lines=log_tail.lines())
        finally:
            _end_at_once(process)
        if process.returncode != 0:
            raise PostgresDidNotStart("initdb failed", log_lines=log_tail.lines())

    async def start(self, data_dir: Path, settings: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Return the server's process once it takes connections."""
        command = [str(self.binaries / "postgres"), "-D", str(data_dir)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        give_up = asyncio.get_running_loop().time() + self.seconds
        while True:
            log_tail = _LogTail(self.log)
            process = self.account.start(command, log=self.log)
            try:
                is_up = await _is_up(process, data_dir, give_up)
            except BaseException:
                _end_at_once(process)
                raise
            if is_up:
                return process
            _end_at_once(process)
            lines = log_tail.lines()
            if asyncio.get_running_loop().time() > give_up:
                raise PostgresDidNotStart(f"it was not ready after {self.seconds:g} s", log_lines=lines)
            if _STILL_ENDING not in lines:
                raise PostgresDidNotStart(f"it ended with code {process.returncode}", log_lines=lines)
            await asyncio.sleep(POLL_SECONDS)


class _LogTail:
    """The lines added to the log since its creation."""

    def __init__(self, log: io.FileIO) -> None:
        self._log = log
        self._start = os.fstat(log.fileno()).st_size

    def lines(self) -> str:
        size = os.fstat(self._log.fileno()).st_size
        start = max(self._start, size - LOG_LINES * 200)
        text = os.pread(self._log.fileno(), size - start, start).decode(errors="replace")
        return "\n".join(text.splitlines()[-LOG_LINES:])


@contextlib.contextmanager
def log_of(home: DataDir) -> Iterator[io.FileIO]:
    # Do not follow links: others may write to the folder.
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with io.FileIO(os.open(home.log, flags, 0o600), "a+") as log:
        if os.fstat(log.fileno()).st_size > LOG_BYTES:
            os.ftruncate(log.fileno(), 0)
        yield log


async def _is_up(process: subprocess.Popen[bytes], data_dir: Path, give_up: float) -> bool:
    """Wait until the server accepts connections (True), or has ended or timed out (False)."""
    while process.poll() is None and asyncio.get_running_loop().time() <= give_up:
        if _is_ready(data_dir, process.pid):
            return True
        await asyncio.sleep(POLL_SECONDS)
    return False


def _is_ready(data_dir: Path, pid: int) -> bool:
    """Tell whether *this* process is ready: the file of another server may contain `ready` as well."""
    try:
        lines = (data_dir / "postmaster.pid").read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return False
    if len(lines) <= _STATUS_LINE or lines[0].strip() != str(pid):
        return False
    # A standby is ready when it answers reads.
    follows = (data_dir / "standby.signal").exists()
    return lines[_STATUS_LINE].strip() in ({"ready", "standby"} if follows else {"ready"})


async def _ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    give_up = asyncio.get_running_loop().time() + seconds
    while process.poll() is None:
        if asyncio.get_running_loop().time() > give_up:
            return False
        await asyncio.sleep(POLL_SECONDS)
    return True


async def stop(process: subprocess.Popen[bytes], seconds: float) -> None:
    """End sessions and write a checkpoint; at once when that takes too long or we are cancelled."""
    try:
        process.send_signal(signal.SIGINT)
        await _ended(process, seconds)
    finally:
        _end_at_once(process)


def _end_at_once(process: subprocess.Popen[bytes]) -> None:
    """Kill the process without awaiting, so that a cancellation cannot interrupt it."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGQUIT)
    try:
        process.wait(QUIT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class ServerSupervisor:
    """The process of a server, which restarts replace when it ended by itself: killed, or stopped by a full disk.

    Recovery keeps every acknowledged write. Connections are refused until then.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], start: Callable[[], Awaitable[subprocess.Popen[bytes]]]
    ) -> None:
        """Supervise a running process; `start` creates another or raises PostgresDidNotStart."""
        self.process = process
        self._start = start

    async def supervise(self) -> None:
        """Restart the server whenever it ends, until cancelled. A failed start is logged and retried."""
        loop = asyncio.get_running_loop()
        started, pause = loop.time(), _FIRST_PAUSE_SECONDS
        while True:
            if self.process.poll() is None:
                await asyncio.sleep(_LOOK_SECONDS)
                continue
            _log.error("postgres_exited", code=self.process.returncode)
            if loop.time() - started > _GOOD_SECONDS:
                pause = _FIRST_PAUSE_SECONDS
            while not await self._restart(pause):
                pause = min(2 * pause, _MAX_PAUSE_SECONDS)
            started = loop.time()

    async def _restart(self, pause: float) -> bool:
        """Start the server once and return whether it runs; pause after a failure."""
        try:
            self.process = await self._start()
        except (PostgresDidNotStart, OSError) as error:
            # Also when the machine cannot start a process or write the server's files.
            _log.error("postgres_start_failed", why=str(error), pause_seconds=pause)
            await asyncio.sleep(pause)
            return False
        _log.warning("postgres_restarted", process=self.process.pid)
        return True
