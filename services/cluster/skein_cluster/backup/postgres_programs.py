"""Postgres' own programs, from the wheel or from the PATH, in a version that fits a server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.embedded.account import Account
from skein_cluster.embedded.binaries import programs
from skein_cluster.embedded.errors import PostgresDidNotStart

# Cached: each lookup starts several processes.
_PROGRAM_PATHS: dict[tuple[str, int, bool], Path] = {}
_VERSION = re.compile(r"\(PostgreSQL\) (\d+)")
_IDENTIFIER = re.compile(r"Database system identifier: +(\d+)")
_TIME = re.compile(r"(?:COMMIT|ABORT) (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}) UTC")


async def find_program(name: str, major: int, *, exactly: bool = False) -> Path:
    """Return a program of this major version, or of a later one unless `exact`. Raises CommandError.

    The wheel's comes first.
    """
    cached = _PROGRAM_PATHS.get((name, major, exactly))
    if cached is not None:
        return cached
    rejected: list[str] = []
    for path in _candidates(name):
        version = await _major(path)
        if version == major or (not exactly and version > major):
            _PROGRAM_PATHS[name, major, exactly] = path
            return path
        rejected.append(f"{path} of {version}")
    requirement = f"version {major}" if exactly else f"version {major} or later"
    rejected_text = f", and there is {', '.join(rejected)}" if rejected else ""
    raise CommandError(
        f"{name} of Postgres {requirement} is needed{rejected_text}; install it so that it is on the PATH.",
        ExitCode.CANNOT_START,
    )


async def system_identifier(data_folder: Path, major: int) -> str:
    """Return the system identifier of a data folder, running or not; empty if unknown."""
    control = await find_program("pg_controldata", major, exactly=True)
    _, output, _ = await run_program([str(control), str(data_folder)], environment={})
    match = _IDENTIFIER.search(output)
    return match.group(1) if match else ""


async def last_transaction(segment: Path, major: int) -> datetime | None:
    """Return the time of the last commit in a segment; None for none."""
    dump = await find_program("pg_waldump", major, exactly=True)
    # It may fail at a record that continues in the next segment; its output before that counts.
    _, output, _ = await run_program([str(dump), "--rmgr=Transaction", str(segment)], environment={})
    times = [datetime.fromisoformat(time).replace(tzinfo=UTC) for time in _TIME.findall(output)]
    return max(times, default=None)


async def run_program(
    command: Sequence[str], *, environment: Mapping[str, str], on_progress: Callable[[str], None] | None = None
) -> tuple[int, str, str]:
    """Run a program to its end; return its exit code, stdout and stderr.

    `on_progress` gets each line of stderr as it comes. A cancelled call ends the program and its children.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.environ.get("PATH", os.defpath), "TZ": "UTC", "LC_ALL": "C", **environment},
        cwd="/",
        start_new_session=True,
    )
    try:
        assert process.stdout is not None  # noqa: S101 - piped.
        assert process.stderr is not None  # noqa: S101 - piped.
        out, err = await asyncio.gather(process.stdout.read(), _read_lines(process.stderr, on_progress))
        await process.wait()
    finally:
        if process.returncode is None:
            # pg_basebackup's second process would keep the pipes open.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await asyncio.shield(process.wait())
    assert process.returncode is not None  # noqa: S101 - it has ended.
    return process.returncode, out.decode(errors="replace"), err


async def _read_lines(stream: asyncio.StreamReader, on_progress: Callable[[str], None] | None) -> str:
    chunks, line = [], ""
    while chunk := (await stream.read(4096)).decode(errors="replace"):
        chunks.append(chunk)
        # Progress lines end with a carriage return.
        *whole, line = re.split(r"[\r\n]", line + chunk)
        for each in whole:
            if on_progress is not None and each:
                on_progress(each)
    return "".join(chunks)


def _candidates(name: str) -> list[Path]:
    paths: list[Path] = []
    with contextlib.suppress(PostgresDidNotStart):
        paths.append(programs(Account.for_server()) / name)
    on_path = shutil.which(name)
    if on_path is not None:
        paths.append(Path(on_path))
    return [path for path in paths if path.exists()]


async def _major(path: Path) -> int:
    code, out, _ = await run_program([str(path), "--version"], environment={})
    match = _VERSION.search(out)
    return int(match.group(1)) if code == 0 and match else 0
