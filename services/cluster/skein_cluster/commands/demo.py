"""`skein demo`: a short-lived cluster on free ports and in a temporary folder."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import uvloop
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from rich.rule import Rule
from rich.text import Text

from skein_client.connection import CREDENTIALS_FILE, data_dir
from skein_cluster import embedded, registry
from skein_cluster.cli import output
from skein_cluster.commands.up import LOG_FILE, print_overview
from skein_cluster.demo.scenario import run_demo
from skein_cluster.processes import log_file
from skein_cluster.processes.single_process import single_process_cluster
from skein_cluster.processes.stop_signals import StopSignal
from skein_kit.host import open_files
from skein_kit.telemetry.metrics import TRACING

_LOG_LINES = 20
_NEXT_STEPS = (
    ("make up", "runs a cluster on this machine: gRPC on 50050, HTTP on 8080, metrics on 9450,"),
    ("", "credentials in {credentials}"),
    ('.venv/bin/skein remember "…"', "stores a text"),
    ('.venv/bin/skein recall "…"', "finds it again"),
    (".venv/bin/skein import", "imports your own conversations: jsonl FILE, or locomo FILE"),
    ("make cluster", "runs each service in a process of its own"),
    ("make test", "runs the fast tests"),
)


@click.command()
def demo_command() -> None:
    """Start a temporary cluster, import the sample conversation, query it, show a trace, and delete it."""
    with _folder() as folder:
        log = folder / LOG_FILE
        open_files.raise_limit()
        try:
            uvloop.run(_demo(folder, log))
        except Exception:
            output.echo(log_file.tail(log, _LOG_LINES), err=True)
            raise


async def _demo(folder: Path, log: Path) -> None:
    spans = InMemorySpanExporter()
    out = output.stdout_console()
    started = time.monotonic()
    with log_file.log_to_file(log, "warning"), StopSignal.on_signals():
        TRACING.start(SimpleSpanProcessor(spans))
        try:
            out.print(Text("Starting a Skein cluster: Postgres, and eight services in one process …"))
            async with single_process_cluster(folder, environment=free_environment(), durable=False) as cluster:
                out.print(print_overview(cluster, folder, log, time.monotonic() - started, is_demo=True))
                await run_demo(cluster, spans)
                out.print(Rule("Next steps", align="left"))
        finally:
            TRACING.stop()
        credentials = data_dir(os.environ) / CREDENTIALS_FILE
        for command, description in _NEXT_STEPS:
            out.print(Text.assemble((f"  {command:<30}", "bold"), description.format(credentials=credentials)))
        out.print(
            Text(f"The demo cluster is stopped and its data deleted. Total time: {time.monotonic() - started:.0f} s.")
        )


def free_environment() -> dict[str, str]:
    """Return an environment with free ports and none of the caller's own settings."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SKEIN_")}
    ports = dict.fromkeys((*(f"SKEIN_{name.upper()}_PORT" for name in registry.PORTS), *registry.OTHER_PORTS), "0")
    return {**inherited, **ports, "SKEIN_LOG_LEVEL": "warning", "SKEIN_CANARY_SECONDS": "0"}


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="skein-demo-"))
    try:
        yield folder
    finally:
        embedded.delete_data_dir(folder / "postgres")
        shutil.rmtree(folder, ignore_errors=True)
