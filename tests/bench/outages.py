"""`make soak`: what callers see when any process of a cluster is killed, two of each service on one machine.

    .venv/bin/python tests/bench/outages.py
    .venv/bin/python tests/bench/outages.py --only memory --only postgres

Two gateways and two of each other service serve over a durable Postgres with a streaming replica, through a PgBouncer
where deploy/edge-tools.sh has put one. Each process is ended by SIGKILL in turn, and a service stays away while it is
measured. It fails when something acknowledged is lost, when an error may not be repeated, or when calls that begin
five seconds later are still slow.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# The folder of the tests, so that what lies in this one has a name: `python tests/bench/outages.py` is how it is run.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import click
import fix_cluster
from bench import report
from bench.figures import percentile
from fix_fleet_load import Load
from fix_pgbouncer import installed
from fix_several import PGBOUNCER, Part, Several, running_several
from rich import box
from rich.table import Table

from skein_client.retry import RetryPolicy

_CALLERS = 2
_TIMEOUT = 30.0
# After these callers see no more of it.
_BACK_SECONDS = 5.0
# The p99 that counts as what it was: of a few hundred calls it varies.
_SHARE, _MARGIN_SECONDS = 2.0, 0.1
# Callers see every refusal, and repeat the call themselves.
_ONCE = RetryPolicy(attempts=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outage:
    """What callers saw of one killed process."""

    part: Part
    # Refused calls by status; each was repeated.
    refusals: Mapping[str, int]
    # Of the calls that were under way until five seconds after the kill, from the kill on, repetitions included.
    longest_seconds: float
    # Of those that began in the seconds after them.
    calls: int
    p99_seconds: float

    def is_over(self, calm_p99_seconds: float) -> bool:
        """Return whether calls are as fast again as before."""
        limit = max(_SHARE * calm_p99_seconds, calm_p99_seconds + _MARGIN_SECONDS)
        return self.calls > 0 and self.p99_seconds <= limit


@click.command()
@click.option("--only", multiple=True, help="The name of a service, or postgres, replica, pgbouncer; repeatable.")
@click.option("--seconds", type=click.FloatRange(min=2.0), default=10.0, show_default=True, help="Of each measurement.")
def main(*, only: Sequence[str], seconds: float) -> None:
    """Kill each process in turn under load; exit with 1 when something is lost or slow for longer than 5 s."""
    sys.exit(0 if asyncio.run(_bench(only, seconds)) else 1)


async def _bench(only: Sequence[str], seconds: float) -> bool:
    out = report.console()
    is_pooled = installed() is not None
    if not is_pooled:
        out.print("PgBouncer is missing, so nothing is between services and Postgres.", style="dim")
    async with running_several(fix_cluster.test_environment(), pooled=is_pooled) as several:
        parts = [part for part in several.parts if not only or part.name in only]
        tenant = await several.fleet.new_tenant("outages")
        async with several.fleet.client(tenant, retries=_ONCE, timeout=_TIMEOUT) as client:
            load = Load(client, "outages", callers=_CALLERS, repeats=True)
            async with load.running():
                await load.further(20)
                calm = await _p99(load, seconds)
                outages: list[Outage] = []
                for part in parts:
                    outages.append(await _outage(several, load, part, seconds))
                    out.print(f"{part}: {_refusals(outages[-1])}", style="dim")
            return await _judged(load, outages, calm)


async def _outage(several: Several, load: Load, part: Part, seconds: float) -> Outage:
    refused, killed = len(load.refusals), time.perf_counter()
    await several.kill(part)
    if part.name == PGBOUNCER:
        # As its supervisor does.
        await several.bring_back(part)
    await asyncio.sleep(max(0.0, killed + _BACK_SECONDS - time.perf_counter()))
    after = time.perf_counter()
    await asyncio.sleep(seconds)
    # A call that began meanwhile may still wait.
    await load.further(1)
    # A call of before the kill may still have waited for its answer.
    early = [
        min(latency, begin + latency - killed)
        for begin, latency in zip(load.begins, load.latencies, strict=True)
        if begin < after and begin + latency > killed
    ]
    late = _latencies(load, after, after + seconds)
    if part.name != PGBOUNCER:
        await several.bring_back(part)
    await load.further(10)
    return Outage(
        part=part,
        refusals=Counter(error.status.name for error in load.refusals[refused:]),
        longest_seconds=max(early, default=0.0),
        calls=len(late),
        p99_seconds=percentile(late, 0.99),
    )


async def _p99(load: Load, seconds: float) -> float:
    started = time.perf_counter()
    await asyncio.sleep(seconds)
    return percentile(_latencies(load, started, started + seconds), 0.99)


def _latencies(load: Load, start: float, end: float) -> list[float]:
    """Return how long the calls took that began between two times."""
    return [seconds for begin, seconds in zip(load.begins, load.latencies, strict=True) if start <= begin < end]


async def _judged(load: Load, outages: Sequence[Outage], calm: float) -> bool:
    """Print the table and the verdict; say whether nothing was lost and everything was over in time."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=f"p99 before: {calm * 1e3:.0f} ms", title_justify="left")
    made.add_column("killed", no_wrap=True)
    for name in ("longest ms", "calls", "p99 ms after 5 s"):
        made.add_column(name, justify="right")
    made.add_column("refused and repeated")
    made.add_column("")
    failures = []
    for outage in outages:
        verdict = "" if outage.is_over(calm) else "SLOW"
        if verdict:
            failures.append(f"{outage.part} is slow after {_BACK_SECONDS:.0f} s")
        cells = (
            f"{outage.longest_seconds * 1e3:,.0f}",
            f"{outage.calls:,}",
            f"{outage.p99_seconds * 1e3:,.0f}",
            _refusals(outage),
        )
        made.add_row(str(outage.part), *cells, verdict)
    out = report.console()
    out.print(made)
    stored, acknowledged = await load.transcripts()
    lost = [*await load.missing(), *await load.halves(), *await load.differing()]
    failures += [f"{len(lost)} writes are lost or differ"] if lost else []
    failures += ["a session differs"] if stored != acknowledged else []
    failures += [f"not to be repeated: {error}" for error in load.errors]
    writes = len(load.acknowledged)
    out.print(f"FAIL: {'; '.join(failures)}." if failures else f"PASS: {writes:,} acknowledged writes, none is lost.")
    return not failures


def _refusals(outage: Outage) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(outage.refusals.items())) or "none"


if __name__ == "__main__":
    main()
