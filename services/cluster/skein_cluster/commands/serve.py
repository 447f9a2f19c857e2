"""`skein serve`: services in this process, on an existing, migrated database."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

import click
import uvloop

from skein_cluster import registry
from skein_cluster.config.check import require_certificates
from skein_cluster.config.unknown_settings import refuse_unknown_settings
from skein_cluster.processes import log_file
from skein_cluster.processes.stop_signals import StopSignal
from skein_kit.host import open_files
from skein_kit.host.process import export_traces, run_services
from skein_kit.settings import ProcessSettings, SettingInvalid
from skein_kit.telemetry import logs

_PR_SET_PDEATHSIG = 1


@click.command()
@click.argument("services", nargs=-1, metavar="[SERVICE]...")
@click.option("--parent", type=int, hidden=True, help="End at once when this parent process ends.")
def serve_command(services: tuple[str, ...], parent: int | None) -> None:
    """Run services (all, or those named) in this process until SIGTERM.

    The database is SKEIN_DATABASE_URL. This command never migrates it: until `skein migrate` has run, services listen
    but are not ready. Other services are called at SKEIN_<SERVICE>_ADDRESS. Logs are JSON lines on stderr.
    """
    if parent is not None:
        _die_with(parent)
    open_files.raise_limit()
    uvloop.run(_serve(services or registry.NAMES))


async def _serve(names: tuple[str, ...]) -> None:
    refuse_unknown_settings(os.environ)
    settings = ProcessSettings.read()
    services = registry.load(names)
    require_certificates(names, os.environ)
    database_services = [service.name for service in services if service.has_database]
    if database_services and not settings.database_url:
        raise SettingInvalid(
            f"SKEIN_DATABASE_URL is needed by {', '.join(database_services)}: the Postgres to use, as postgresql://…"
        )
    logs.configure(settings.log_level)
    log = logs.get("skein")
    host = registry.host_of(settings, dict(os.environ), local_services=names)
    name = f"skein-{names[0]}" if len(names) == 1 else "skein"

    def cut_off(number: str) -> None:
        log.warning("shutdown_forced", signal=number)

    with export_traces(settings, name=name), StopSignal.on_signals(cut_off) as stopping:
        async with run_services(services, host) as cluster:
            log_file.freeze_startup_objects()
            log.info(
                "serving",
                services=[service.name for service in services],
                admin=cluster.admin,
                open_files=open_files.limit(),
            )
            await stopping.wait()
            log.info("stopping")
    log.info("stopped")


def _die_with(parent: int) -> None:
    """End this process when its parent ends in any way."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(0)
