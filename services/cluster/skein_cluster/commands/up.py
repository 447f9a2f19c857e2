"""`skein up` and `skein cluster`: run a cluster on this machine until a stop signal."""

from __future__ import annotations

import asyncio
import functools
import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import click
import uvloop
from rich import box
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from skein_client.connection import CREDENTIALS_FILE
from skein_cluster import registry
from skein_cluster.api import credentials
from skein_cluster.backup.signatures import BackupKey
from skein_cluster.cli import command_lines, options, output
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.config.unknown_settings import refuse_unknown_settings
from skein_cluster.processes import log_file, multi_process
from skein_cluster.processes.shared_ports import shared_port_cluster
from skein_cluster.processes.single_process import LocalCluster, single_process_cluster
from skein_cluster.processes.stop_signals import StopSignal
from skein_kit.backup_folder import BackupSettings
from skein_kit.host import open_files
from skein_kit.host.process import NotReady, export_traces
from skein_kit.settings import ProcessSettings, default_data_dir

LOG_FILE = "skein.log"
MAX_REPLICAS = 8
MAX_PROCESSES = 64
# The highest default port is 50057.
MAX_PORT_OFFSET = 15_000
_TRY_NEXT = (
    ("remember", command_lines.EXAMPLE),
    ("recall", command_lines.QUESTION),
    ("import", "jsonl", "FILE"),
    ("status",),
    ("tenants", "create", "NAME"),
)


def _shift_ports(_context: click.Context, _parameter: click.Parameter, offset: int) -> None:
    """Change the ports in the environment, which children inherit."""
    if offset:
        os.environ.update(registry.shifted_ports(os.environ, offset))


_port_offset_option = click.option(
    "--port-offset",
    type=click.IntRange(0, MAX_PORT_OFFSET),
    default=0,
    show_default=True,
    expose_value=False,
    callback=_shift_ports,
    help="Listen on ports that are N higher than the defaults, for a second cluster; a port that is set stays.",
)


@click.command()
@options.data_dir_option
@click.option("--log-stderr", is_flag=True, help=f"Log to stderr instead of {LOG_FILE} in the data folder.")
@click.option(
    "--processes",
    type=click.IntRange(1, MAX_PROCESSES),
    default=1,
    show_default=True,
    help="Number of processes that answer calls on the gateway's ports, to use several cores (Linux).",
)
@_port_offset_option
def up_command(data_dir: Path, *, log_stderr: bool, processes: int) -> None:
    """Run a whole cluster in this process, or in several, until Ctrl-C or SIGTERM.

    The database is SKEIN_DATABASE_URL if set, migrated as `skein migrate` does if its user may; else an embedded
    Postgres in the data folder. The first start creates a development tenant and writes credentials.json to the data
    folder. Later starts use the same data. SKEIN_GATEWAY_PORT, SKEIN_HTTP_PORT, SKEIN_ADMIN_PORT and similar settings
    change the ports; a second cluster takes --port-offset 10000 and a --data-dir of its own.
    """
    open_files.raise_limit()
    uvloop.run(_up(data_dir, log_stderr=log_stderr, processes=processes))


@click.command()
@options.data_dir_option
@click.option(
    "--replicas",
    "counts",
    multiple=True,
    metavar="SERVICE=N",
    help="Run N processes of a service (repeatable). Calls go to them in turn.",
)
@_port_offset_option
def cluster_command(data_dir: Path, counts: tuple[str, ...]) -> None:
    """Run a whole cluster, one process per service, until Ctrl-C or SIGTERM.

    It uses the same data folder and database as `skein up`. A service that ends is reported and not restarted.
    """
    open_files.raise_limit()
    uvloop.run(_cluster(data_dir, _replicas(counts)))


async def _up(data_dir: Path, *, log_stderr: bool, processes: int) -> None:
    refuse_unknown_settings(os.environ)
    settings = ProcessSettings.read()
    credentials.make_private(data_dir)
    log = None if log_stderr else data_dir / LOG_FILE
    with log_file.log_to_file(log, settings.log_level), export_traces(settings):
        try:
            run = (
                single_process_cluster
                if processes == 1
                else functools.partial(shared_port_cluster, processes=processes)
            )
            await _run_until_stopped(data_dir, run, never_ends, log=log)
        except NotReady as error:
            where = "on stderr" if log is None else f"in {log}"
            raise CommandError(
                f"{str(error).partition(' Their')[0]} The log {where} has the reason.", ExitCode.CANNOT_START
            ) from error


async def _cluster(data_dir: Path, replicas: Mapping[str, int]) -> None:
    refuse_unknown_settings(os.environ)
    run = functools.partial(multi_process.multi_process_cluster, replicas=replicas)
    await _run_until_stopped(data_dir, run, _report_ends, log=None)


def _replicas(counts: Sequence[str]) -> dict[str, int]:
    """Parse values such as "memory=2"."""
    result: dict[str, int] = {}
    services = [name for name in registry.PORTS if name != "pc2"]
    for text in counts:
        name, _, count = text.partition("=")
        if name not in services or not count.isdecimal() or not 1 <= int(count) <= MAX_REPLICAS:
            raise click.BadParameter(
                f"{text!r} should be SERVICE=N: one of {', '.join(services)}, and a number from 1 to {MAX_REPLICAS}.",
                param_hint="--replicas",
            )
        result[name] = int(count)
    return result


async def _run_until_stopped(
    data_dir: Path,
    open_cluster: Callable[[Path], AbstractAsyncContextManager[LocalCluster]],
    watch: Callable[[LocalCluster], asyncio.Future[None]],
    *,
    log: Path | None,
) -> None:
    started = time.monotonic()
    with StopSignal.on_signals() as stopping:
        async with open_cluster(data_dir) as cluster:
            log_file.freeze_startup_objects()
            output.stdout_console().print(print_overview(cluster, data_dir, log, time.monotonic() - started))
            watcher = watch(cluster)
            await stopping.wait()
            watcher.cancel()
            output.stdout_console().print("Stopping …")
    output.stdout_console().print(
        "Stopped." if not stopping.is_set else "Stopped. The data is kept; the same command starts the cluster again."
    )


def never_ends(_cluster: LocalCluster) -> asyncio.Future[None]:
    """Return a future that never completes: services of one process end together, others are started again."""
    return asyncio.get_running_loop().create_future()


def _report_ends(cluster: LocalCluster) -> asyncio.Future[None]:
    async def report() -> None:
        async for name in multi_process.watch_exits(cluster):
            output.stderr_console().print(Text(f"{name} ended and is not restarted; see {cluster.logs[name]}."))

    return asyncio.ensure_future(report())


def print_overview(
    cluster: LocalCluster, data_dir: Path, log: Path | None, seconds: float, *, is_demo: bool = False
) -> Panel:
    """Show the addresses and files, and commands to try."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    admins = dict.fromkeys(cluster.admins.values())
    metrics = f"http://{next(iter(admins))}/metrics (also /livez, /readyz)"
    if len(admins) > 1:
        metrics = ", ".join(f"{name} {admin.rpartition(':')[2]}" for name, admin in cluster.admins.items())
    logs = ", ".join(str(path) for path in (log, data_dir / "logs" if cluster.logs else None) if path is not None)
    console = cluster.credentials.http
    if "console" in cluster.addresses:
        console = f"{console.partition('://')[0]}://{credentials.reachable_address(cluster.addresses['console'])}"
    lines = [
        ("gRPC", cluster.credentials.endpoint),
        ("HTTP", cluster.credentials.http),
        ("console", "" if is_demo else f"{console}/ (sign in with the api_key of the credentials)"),
        ("metrics", metrics),
        ("pc2", pc2_ports(cluster)),
        ("database", _outside_database(data_dir)),
        ("credentials", str(data_dir / CREDENTIALS_FILE)),
        # Verifies the backups when this machine is lost.
        ("backup key", _backup_key(cluster, data_dir)),
        ("logs", logs or "stderr"),
    ]
    for name, value in lines:
        if value:
            grid.add_row(name, Text(value))
    if not is_demo:
        grid.add_row("", "")
        for number, command in enumerate(_try_next(data_dir)):
            grid.add_row("try next" if number == 0 else "", Text(command))
        grid.add_row("stop", "Ctrl-C")
    title = f"Skein is up ({seconds:.1f} s)"
    return Panel(grid, title=title, title_align="left", box=box.ROUNDED, expand=False, padding=(0, 1))


def _outside_database(data_dir: Path) -> str:
    """Return a warning if the database lies outside of the data folder; empty otherwise."""
    database = data_dir / "postgres"
    if not database.is_symlink():
        return ""
    return (
        f"NOT in the data folder but in {database.resolve()}, because the user who runs Postgres cannot enter the "
        "data folder. A copy or a mount of the data folder lacks it: make a backup with `skein backup create`, or use "
        "a data folder below one that every user can enter, such as /srv/skein."
    )


def _backup_key(cluster: LocalCluster, data_dir: Path) -> str:
    """Return the public key of the archived log; empty for a cluster that archives none."""
    is_archived = cluster.embedded is not None and BackupSettings.read().backup_dir is not None
    return f"{BackupKey.of(data_dir).public} (keep it elsewhere)" if is_archived else ""


def _try_next(data_dir: Path) -> list[str]:
    """Return command lines for another terminal, with the data folder if needed."""
    exports = (
        [f"export SKEIN_DATA_DIR={shlex.quote(str(data_dir.absolute()))}"] if data_dir != default_data_dir() else []
    )
    # The overview has the data folder already.
    return [*exports, *(command_lines.command_line(*arguments, environment={}) for arguments in _TRY_NEXT)]


def pc2_ports(cluster: LocalCluster) -> str:
    """Return the assistants' ports; a remapped port shows the port that it listens on."""
    ports = [
        (str(number), address.rpartition(":")[2])
        for number in registry.PC2_PORTS
        if (address := cluster.addresses.get(f"pc2:{number}")) is not None
    ]
    return ", ".join(number if number == port else f"{number} at {port}" for number, port in ports)
