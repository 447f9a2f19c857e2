"""`python tests/bench/footprint.py`: prints what each service's process takes of memory and processor, idle and busy.

Nothing here is asserted. deploy/kubernetes asks for resources by these figures. The cluster is a `skein cluster` of its
own, a process for each service, on free ports and a new data folder.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

# The folder of the tests, so that what lies in this one has a name: it is run as a program.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import click
import uvloop
from bench import household, processes, report, ways
from bench.load import Limits, measured
from bench.subject import PROCESSES, data_folder, running
from rich.table import Table

from skein_cluster import registry

_MEMORIES = _MESSAGES = 2000
_IN_FLIGHT = 8
_MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Footprint:
    """A service's process at one moment."""

    resident_bytes: int
    cpu_seconds: float


@click.command()
@click.option("--seconds", default=10.0, show_default=True, help="Of idleness, and of each kind of load.")
def main(*, seconds: float) -> None:
    """Print resident memory and processor time of each service: fresh, idle with data, and busy."""
    uvloop.run(_print(seconds))


async def _print(seconds: float) -> None:
    with data_folder() as folder:
        async with running(folder, PROCESSES) as subject:
            fresh = footprints(subject.pid)
            home = await household.moved_in(subject, memories=_MEMORIES, messages=_MESSAGES)
            before, started = footprints(subject.pid), time.perf_counter()
            await asyncio.sleep(seconds)
            idle, idle_seconds = footprints(subject.pid), time.perf_counter() - started
            started = time.perf_counter()
            numbers, rates = itertools.count(), []
            async with ways.gateway(subject, ways.Material(home.memory_ids, 1)) as way:
                for operation in (ways.GET, ways.RECALL, ways.CREATE, ways.APPEND):
                    figures = await measured(
                        way.operations[operation],
                        numbers,
                        in_flight=_IN_FLIGHT,
                        limits=Limits(calls=1_000_000, seconds=seconds),
                        server_cpu=lambda: 0.0,
                    )
                    rates.append(f"{operation} {len(figures.latencies) / figures.seconds:.0f}/s")
            busy, busy_seconds = footprints(subject.pid), time.perf_counter() - started
    table = Table(title=f"{_IN_FLIGHT} calls in flight through the gateway: {', '.join(rates)}")
    for heading in ("service", "fresh MiB", "idle MiB", "busy MiB", "idle cores", "busy cores"):
        table.add_column(heading, justify="left" if heading == "service" else "right")
    for name in (*registry.NAMES, "postgres"):
        table.add_row(
            name,
            *(f"{each[name].resident_bytes / _MIB:.0f}" for each in (fresh, idle, busy)),
            f"{(idle[name].cpu_seconds - before[name].cpu_seconds) / idle_seconds:.3f}",
            f"{(busy[name].cpu_seconds - idle[name].cpu_seconds) / busy_seconds:.2f}",
        )
    report.console().print(table)
    report.console().print(
        f"{os.cpu_count()} cores, shared with the load client. Postgres' memory counts what its processes share once "
        "for each.",
        style="dim",
    )


def footprints(pid: int) -> dict[str, Footprint]:
    """Return the footprint of each service's process, and of Postgres' processes together."""
    result = dict.fromkeys((*registry.NAMES, "postgres"), Footprint(resident_bytes=0, cpu_seconds=0.0))
    for process in processes.family(pid):
        if process.pid != pid:
            name = _name_of(process)
            result[name] = Footprint(
                resident_bytes=result[name].resident_bytes + process.resident_bytes,
                cpu_seconds=result[name].cpu_seconds + process.cpu_seconds,
            )
    return result


def _name_of(process: processes.Process) -> str:
    """Return the service that the process was started to serve, else "postgres"."""
    words = Path(f"/proc/{process.pid}/cmdline").read_text("utf-8").split("\0")
    return words[words.index("serve") + 1] if "serve" in words else "postgres"


if __name__ == "__main__":
    main()
