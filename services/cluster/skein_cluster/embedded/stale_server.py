"""Stops a server that a killed process left on a data folder, or marks its pid file as stale.

The caller has the data folder's lock, so no process owns that server.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from skein_cluster.embedded.account import Account
from skein_cluster.embedded.errors import PostgresDidNotStart

POLL_SECONDS = 0.01
# SIGINT ends sessions and writes a checkpoint, SIGQUIT ends at once and requires recovery.
_SIGNALS = ((signal.SIGINT, 20.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0))


async def stop_stale_server(data_dir: Path, account: Account) -> None:
    """Return when no server runs on the folder and its pid file does not prevent a start."""
    pid = recorded_pid(data_dir)
    if pid is None:
        return
    for number, timeout in _SIGNALS:
        if await _is_gone(pid, data_dir, 0):
            break
        _send(pid, number)
        await _is_gone(pid, data_dir, timeout)
    if is_server_of(pid, data_dir):
        raise PostgresDidNotStart(f"process {pid}, a server that an earlier run left on {data_dir}, does not end")
    if recorded_pid(data_dir) == pid and _exists(pid):
        _mark_pid_file_stale(data_dir, account)


def recorded_pid(data_dir: Path) -> int | None:
    """Return the pid in the folder's `postmaster.pid`, if any."""
    try:
        pid_line, *_ = (data_dir / "postmaster.pid").read_text(encoding="utf-8", errors="replace").splitlines()
        return abs(int(pid_line))
    except (FileNotFoundError, ValueError):
        return None


async def _is_gone(pid: int, data_dir: Path, timeout: float) -> bool:
    """Tell whether the folder's server ended within `timeout` seconds."""
    deadline = asyncio.get_running_loop().time() + timeout
    while is_server_of(pid, data_dir):
        if asyncio.get_running_loop().time() >= deadline:
            return False
        await asyncio.sleep(POLL_SECONDS)
    return True


def _mark_pid_file_stale(data_dir: Path, account: Account) -> None:
    """Mark a pid file as stale whose number now belongs to another process (or a zombie).

    Postgres refuses to start while that process exists, unless it is its own parent: this process. The file stays,
    because its shared-memory line keeps a server from starting beside surviving backends of a killed one.
    """
    path = data_dir / "postmaster.pid"
    _, *other_lines = path.read_bytes().splitlines(keepends=True)
    fresh = data_dir / "postmaster.pid.disowned"
    fresh.write_bytes(b"".join([f"{os.getpid()}\n".encode(), *other_lines]))
    fresh.chmod(0o600)
    account.chown(fresh)
    fresh.replace(path)


def is_server_of(pid: int, data_dir: Path) -> bool:
    """Tell whether this process is a server on the folder, not another with the same number."""
    state, command = _process(pid)
    if state.startswith("Z") or not command or not command[0].endswith("postgres"):
        return False
    return str(data_dir) in command or _folder(pid) == data_dir


def _process(pid: int) -> tuple[str, list[str]]:
    """Return state and argument list; empty where there is no such process."""
    if sys.platform != "linux":
        ps_output = subprocess.run(
            ["/bin/ps", "-ww", "-o", "stat=,args=", "-p", str(pid)], capture_output=True, text=True, check=False
        ).stdout
        state, _, line = ps_output.strip().partition(" ")
        program, _, arguments = line.strip().partition(" -D ")
        return state, [program, arguments.partition(" -c ")[0]]
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return "", []
    # The second field is the program's name in brackets, which may itself contain brackets and spaces.
    state = stat.rpartition(b")")[2].split()[0].decode()
    return state, [os.fsdecode(argument) for argument in arguments.split(b"\0")]


def _folder(pid: int) -> Path | None:
    """Return a process's working directory if readable, which for a postmaster is its data folder."""
    try:
        return Path(f"/proc/{pid}/cwd").readlink()
    except OSError:
        return None


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
