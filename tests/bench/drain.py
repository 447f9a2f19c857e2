"""`python tests/bench/drain.py`: prints what it costs callers under load that replicas are replaced, one by one.

Nothing here is asserted. A second replica serves beside the one that is replaced; what is seen of it from outside is
timed: until it says that it is not ready, until it has ended, until the next one is ready. `--signal KILL` ends them
without a drain; `--every` takes all services and both of their replicas, which takes some minutes.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

# The folder of the tests, so that what lies in this one has a name.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import click
import fix_cluster
import uvloop
from bench import report
from bench.figures import percentile
from fix_fleet import COPIES, REPLICATED, Fleet, running_fleet
from fix_fleet_load import Load
from rich import box
from rich.table import Table

from skein_client.retry import RetryPolicy

_SIGNALS = {"TERM": signal.SIGTERM, "KILL": signal.SIGKILL}
# One that is called by the gateway, and the gateway.
_SOME = ("memory", "gateway")
_READY = 200
_LOOK_SECONDS = 0.01
# Calls of each caller before, between and after; and while nothing happens, to compare with.
_CALLS, _CALLS_ALONE = 10, 30


@dataclass(frozen=True, kw_only=True)
class CountingRetryPolicy(RetryPolicy):
    """The client's own way to repeat calls, counted."""

    counted: list[int] = field(default_factory=lambda: [0])

    def pause_before(self, attempt: int, retry_after: float | None, random: float) -> float:
        """Count one repetition."""
        self.counted[0] += 1
        return super().pause_before(attempt, retry_after, random)


@dataclass(frozen=True, kw_only=True, slots=True)
class Phases:
    """The seconds of one replacement."""

    # From the signal until the admin port says no, or is gone.
    refusing: float
    # From then until the process has ended.
    leaving: float
    # From the next one's start until it is ready.
    starting: float


@dataclass(frozen=True, kw_only=True, slots=True)
class DrainResult:
    """What happened to calls while replicas of one service were replaced."""

    service: str
    failed: int
    repeated: int
    # Of each call, repetitions included.
    latencies: Sequence[float]
    replaced: Sequence[Phases]

    def as_json(self) -> dict[str, Any]:
        """Return the figures for a program."""
        return {
            "service": self.service,
            "calls": len(self.latencies),
            "failed": self.failed,
            "repeated": self.repeated,
            "p50_ms": round(percentile(self.latencies, 0.5) * 1e3, 1),
            "p99_ms": round(percentile(self.latencies, 0.99) * 1e3, 1),
            "longest_ms": round(max(self.latencies, default=0.0) * 1e3, 1),
            **{
                f"{name}_seconds": round(fmean(getattr(phases, name) for phases in self.replaced), 2)
                for name in ("refusing", "leaving", "starting")
                if self.replaced
            },
        }


@click.command()
@click.option("--signal", "name", type=click.Choice(list(_SIGNALS)), default="TERM", show_default=True)
@click.option("--only", multiple=True, type=click.Choice(REPLICATED), help="This service; repeatable.")
@click.option("--every", is_flag=True, help="Every service, and both replicas of each.")
@click.option("--callers", type=click.IntRange(min=1), default=4, show_default=True, help="Calls in flight.")
@click.option(
    "--drain-seconds", type=click.FloatRange(min=0), default=1.0, show_default=True, help="SKEIN_DRAIN_SECONDS."
)
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures here.")
def main(
    *, name: str, only: Sequence[str], every: bool, callers: int, drain_seconds: float, json_file: Path | None
) -> None:
    """Print, for each service, how calls through the Python client fare while its replicas are replaced."""
    services = [each for each in REPLICATED if every or each in (only or _SOME)]
    copies = range(COPIES if every else 1)
    lines = uvloop.run(_roll(services, copies, _SIGNALS[name], callers, drain_seconds))
    if json_file is not None:
        json_file.write_text(json.dumps([line.as_json() for line in lines], indent=2) + "\n", "utf-8")


async def _roll(
    services: Sequence[str], copies: Sequence[int], number: signal.Signals, callers: int, drain_seconds: float
) -> list[DrainResult]:
    out = report.console()
    policy = CountingRetryPolicy()
    began = time.monotonic()
    async with running_fleet(fix_cluster.test_environment()) as fleet:
        fleet.settings["SKEIN_DRAIN_SECONDS"] = str(drain_seconds)
        await fleet.start(*((name, 0) for name in REPLICATED), *((name, 1) for name in services))
        out.print(
            f"{len(fleet.replicas)} processes are ready after {time.monotonic() - began:.0f} s; load average "
            f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores",
            style="dim",
        )
        tenant = await fleet.new_tenant("bench")
        async with fleet.client(tenant, retries=policy) as client:
            load = Load(client, "drain", callers=callers)
            lines: list[DrainResult] = []
            async with load.running():
                await load.further(_CALLS)
                for service in (None, *services):
                    line = await _replaced(fleet, load, policy, service, copies, number)
                    out.print(f"  {line.service}: {len(line.latencies):,} calls, {line.failed} failed", style="dim")
                    lines.append(line)
            missing = await load.missing()
    out.print(_table(lines, number, drain_seconds))
    written = sum(len(write.memory_ids) for write in load.acknowledged)
    out.print(f"{written:,} memories were acknowledged; missing afterwards: {len(missing)}.")
    for error in load.errors:
        out.print(error)
    return lines


async def _replaced(
    fleet: Fleet,
    load: Load,
    policy: CountingRetryPolicy,
    service: str | None,
    copies: Sequence[int],
    number: signal.Signals,
) -> DrainResult:
    """Replace replicas of a service; None: do nothing for a while, to compare with."""
    latencies, failed, repeated = len(load.latencies), len(load.errors), policy.counted[0]
    replaced: list[Phases] = []
    if service is None:
        await load.further(_CALLS_ALONE)
    else:
        for copy in copies:
            replaced.append(await _replacement(fleet, service, copy, number))
            # Others hear of it, and it takes its share.
            await load.further(_CALLS)
    return DrainResult(
        service=service or "(nothing)",
        failed=len(load.errors) - failed,
        repeated=policy.counted[0] - repeated,
        latencies=load.latencies[latencies:],
        replaced=replaced,
    )


async def _replacement(fleet: Fleet, service: str, copy: int, number: signal.Signals) -> Phases:
    replica = fleet.replicas.pop((service, copy))
    began = time.monotonic()
    replica.signal(number)
    while await replica.readiness() == _READY:
        await asyncio.sleep(_LOOK_SECONDS)
    refused = time.monotonic()
    await replica.ended()
    ended = time.monotonic()
    await fleet.start((service, copy))
    return Phases(refusing=refused - began, leaving=ended - refused, starting=time.monotonic() - ended)


def _table(lines: Sequence[DrainResult], number: signal.Signals, drain_seconds: float) -> Table:
    title = f"{number.name}, one replica after the other; SKEIN_DRAIN_SECONDS={drain_seconds:g}"
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    made.add_column("replaced")
    for name in (
        *("calls", "failed", "repeated", "p50 ms", "p99 ms", "longest ms"),
        *("says no s", "leaves s", "next ready s"),
    ):
        made.add_column(name, justify="right")
    for line in lines:
        figures = line.as_json()
        made.add_row(
            line.service,
            *(f"{figures[name]:,}" for name in ("calls", "failed", "repeated")),
            *(f"{figures[name]:,.0f}" for name in ("p50_ms", "p99_ms", "longest_ms")),
            *(
                f"{figures[name]:.2f}" if name in figures else "–"
                for name in ("refusing_seconds", "leaving_seconds", "starting_seconds")
            ),
        )
    return made


if __name__ == "__main__":
    main()
