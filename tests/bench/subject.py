"""The cluster that is measured: a `skein up` of its own, on free ports and a data folder that goes with it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from fix_identities import identity_environment

from skein_cluster import embedded, registry
from skein_cluster.processes.ports import free_ports

ONE_PROCESS, PROCESSES = "one process", "one each"
FORMS: Mapping[str, tuple[str, ...]] = {ONE_PROCESS: ("up",), PROCESSES: ("cluster",)}
_UP = "Skein is up"
_START_SECONDS = 120.0
_STOP_SECONDS = 60.0
_HOST = "127.0.0.1"
# Lines of postmaster.pid, from 0.
_PORT_LINE, _SOCKETS_LINE = 3, 4


# What is measured is the cluster, not its limits on calls.
_UNLIMITED = dict.fromkeys(
    ("SKEIN_TENANT_REQUESTS_PER_SECOND",),
    "1000000",
)


class DidNotStart(Exception):
    """The cluster did not come up; the message is what it said."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A cluster that is up."""

    form: str
    pid: int
    # "127.0.0.1:50051" of each service.
    addresses: Mapping[str, str]
    # "127.0.0.1:8080" of the gateway's HTTP.
    http: str
    # "127.0.0.1:9450" of its metrics; of the first service's process when there are several.
    admin: str
    api_key: str
    # As the superuser.
    database_url: str


@contextlib.contextmanager
def data_folder() -> Iterator[Path]:
    """Lend an empty folder, and remove it with the database in it, wherever that lies."""
    folder = Path(tempfile.mkdtemp(prefix="skein-bench-"))
    try:
        yield folder
    finally:
        embedded.delete_data_dir(folder / "postgres")
        shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def running(
    folder: Path, form: str, *, program: Sequence[str] = ("-m", "skein_cluster"), **settings: str
) -> AsyncIterator[Subject]:
    """Run a cluster in one of the FORMS until the block ends, then let it drain. Raises DidNotStart.

    `program` is the `skein` command as the interpreter is told it.
    """
    with _ports(form) as ports:
        async with _running(folder, form, program, {**ports, **settings}) as subject:
            yield subject


@asynccontextmanager
async def _running(folder: Path, form: str, program: Sequence[str], ports: Mapping[str, str]) -> AsyncIterator[Subject]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SKEIN_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *(*program, *FORMS[form]),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**inherited, **_UNLIMITED, **identity_environment(), **ports, "SKEIN_DATA_DIR": str(folder)},
        # A Ctrl-C on the terminal reaches us alone; we stop the cluster when we are done with it.
        start_new_session=True,
    )
    try:
        await _came_up(process)
        yield Subject(
            form=form,
            pid=process.pid,
            addresses={name: f"{_HOST}:{ports[f'SKEIN_{name.upper()}_PORT']}" for name in registry.PORTS},
            http=f"{_HOST}:{ports['SKEIN_HTTP_PORT']}",
            admin=f"{_HOST}:{ports['SKEIN_ADMIN_PORT']}",
            api_key=json.loads((folder / "credentials.json").read_text("utf-8"))["api_key"],
            database_url=_database_url(folder),
        )
    finally:
        try:
            await asyncio.shield(_stopped(process))
        finally:
            # A second Ctrl-C does not wait; Postgres ends with the process that started it.
            if process.returncode is None:
                process.kill()


@contextlib.contextmanager
def _ports(form: str) -> Iterator[dict[str, str]]:
    names = [f"SKEIN_{name.upper()}_PORT" for name in registry.PORTS]
    with free_ports([*names, *registry.OTHER_PORTS], _HOST) as free:
        # Each process has an admin port of its own, and the assistants' ports follow one another: they find free ones.
        free["SKEIN_PC2_BASE_PORT"] = "0"
        if form == PROCESSES:
            free["SKEIN_ADMIN_PORT"] = "0"
        yield free


async def _came_up(process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None
    output = ""
    try:
        async with asyncio.timeout(_START_SECONDS):
            while _UP not in output:
                line = (await process.stdout.readline()).decode(errors="replace")
                if not line:
                    raise DidNotStart(output.strip().removeprefix("Error: "))
                output += line
    except TimeoutError:
        message = f"The cluster was not up after {_START_SECONDS:.0f} s. {output.strip()}"
        raise DidNotStart(message) from None


async def _stopped(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            # To the end of what it says, so that it never waits for a reader.
            await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()


def _database_url(folder: Path) -> str:
    lines = (folder / "postgres" / "postmaster.pid").read_text("utf-8").splitlines()
    host = quote(lines[_SOCKETS_LINE].strip(), safe="")
    return f"postgresql://postgres@/skein?host={host}&port={lines[_PORT_LINE].strip()}"
