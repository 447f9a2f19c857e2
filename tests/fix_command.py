"""The `skein` command as a process, and what it leaves behind."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fix_forked_command
from fix_cluster import test_environment

from skein_cluster import embedded
from skein_cluster.cli.exit_codes import ExitCode


@dataclass(frozen=True)
class CommandResult:
    """How a run of the command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


async def start(
    *arguments: str,
    environment: Mapping[str, str],
    stderr: int | None = None,
    stdin: int | None = None,
    ulimit: str = "",
) -> asyncio.subprocess.Process:
    """Start the command; `ulimit` says how the shell limits it, such as "-n 1024"."""
    limited = ("/bin/sh", "-c", f'ulimit {ulimit}; exec "$0" "$@"') if ulimit else ()
    return await asyncio.create_subprocess_exec(
        *(*limited, sys.executable),
        *("-m", "skein_cluster", *arguments),
        stdin=asyncio.subprocess.DEVNULL if stdin is None else stdin,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE if stderr is None else stderr,
        env={**environment, "PYTHONWARNINGS": "default"},
    )


async def skein(
    *arguments: str, environment: Mapping[str, str] | None = None, stdin: bytes | None = None, **more: str
) -> CommandResult:
    """Run the command to its end."""
    code, out, err = await fix_forked_command.run(
        list(arguments), {**(environment or test_environment()), **more}, stdin
    )
    return CommandResult(code, out.decode(), err.decode())


async def status(*arguments: str, environment: Mapping[str, str]) -> CommandResult:
    """Ask how a cluster is until all of it serves: on a machine that stands still, one service may say so late."""
    async with asyncio.timeout(120):
        while (ended := await skein("status", *arguments, environment=environment)).code != ExitCode.OK:
            assert ended.code == ExitCode.REFUSED, ended.err
    return ended


@dataclass(frozen=True)
class RunningCluster:
    """A `skein up` that says it is up."""

    process: asyncio.subprocess.Process
    data_dir: Path
    panel: str

    @property
    def credentials(self) -> dict[str, str]:
        values: dict[str, str] = json.loads((self.data_dir / "credentials.json").read_text("utf-8"))
        return values

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment in which other commands find this cluster."""
        return {**test_environment(), "SKEIN_DATA_DIR": str(self.data_dir)}

    async def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return await self.process.wait()


@asynccontextmanager
async def up(data_dir: Path, *arguments: str, ulimit: str = "", **settings: str) -> AsyncIterator[RunningCluster]:
    """Run `skein up` until the block ends, if it has not ended before."""
    environment = {**test_environment(), "SKEIN_DATA_DIR": str(data_dir), **settings}
    process = await start("up", *arguments, environment=environment, stderr=asyncio.subprocess.STDOUT, ulimit=ulimit)
    try:
        yield RunningCluster(process, data_dir, await _panel(process))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _panel(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or not lines[-1].startswith("╰"):
        line = (await process.stdout.readline()).decode()
        assert line, "".join(lines)
        lines.append(line)
    return "".join(lines)


def erase(data_dir: Path) -> None:
    """Remove the database, which for root lies outside of the data folder."""
    embedded.delete_data_dir(data_dir / "postgres")


def descendants(pid: int) -> set[int]:
    """Return the processes that a process started, directly or not."""
    parents = {int(entry.name): _stat(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    results = {pid}
    while grown := {child for child, stat in parents.items() if stat is not None and stat[1] in results} - results:
        results |= grown
    return results - {pid}


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits to be reaped does not."""
    stat = _stat(pid)
    return stat is not None and stat[0] != "Z"


async def all_gone(pids: set[int]) -> bool:
    """Wait a little for processes to end, and say whether all have."""
    for _ in range(1500):
        if not any(alive(pid) for pid in pids):
            return True
        await asyncio.sleep(0.02)
    return False


def _stat(pid: int) -> tuple[str, int] | None:
    """Return a process's state and parent; None when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, parent = text.rpartition(")")[2].split()[:2]
    return state, int(parent)
