"""What a call, a start and an hour without calls cost, by the size of the population.

    .venv/bin/python tests/bench/scale.py                                    # 10^5 and 10^6 entries
    .venv/bin/python tests/bench/scale.py --tenants 1000 --tenants 10000 --minutes 5 --months 0
    .venv/bin/python tests/bench/scale.py --json deploy/scale.json
    .venv/bin/python tests/bench/plot.py deploy/scale.json deploy/scale.svg

Nothing here is asserted. One tenant's rows come through the gateway; the others are copies of them, which the owner of
the database writes past the services. The cluster runs in one process beside its Postgres. What the cluster uses
without calls is measured first, and subtracted from each call's cost. The largest population is measured once more with
the partitions of past months. 10^7 entries are not written: their row is arithmetic from the two largest sizes.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench.household import SeededTenant
from bench.subject import Subject
from rich.console import Console

# The folder of the tests, so that what lies in this one has a name: `python tests/bench/scale.py` is how it is run.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import asyncpg
import click
import uvloop
from bench import report
from bench.costs import Background, Cost, background, costs, split
from bench.household import settled
from bench.population import copy_tenant, create_months, seed
from bench.subject import ONE_PROCESS, DidNotStart, data_folder, running
from rich import box
from rich.table import Table

from skein_client.connection import Connection
from skein_cluster.api.client import open_client, read_credentials
from skein_cluster.api.tenants import create_tenant

_TIMEOUT = 60.0
# Tenants that one step writes, so that a population that takes too long ends near its time.
_STEP = 2000
_SETTLE_SECONDS = 900.0
# The population that the arithmetic is for.
TARGET_ENTRIES = 10_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """What is measured with a population."""

    tenants: int
    entries: int
    # Months with partitions before the present one, and the seconds that their creation took.
    months: int
    months_seconds: float
    # False: the figures are arithmetic from smaller populations.
    is_measured: bool
    database_bytes: float
    # A start of the cluster, which looks for migrations to run: seconds, and processor time, Postgres included.
    start_seconds: float
    start_cpu_seconds: float
    # Without calls: probes, the worker's rounds and the canary.
    idle: Background
    calls: list[Cost]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Plan:
    counts: Sequence[int]
    entries: int
    minutes: float
    idle_seconds: float
    calls: int
    months: int


@click.command()
@click.option("--tenants", "counts", multiple=True, type=click.IntRange(min=1), help="Tenants; repeatable, growing.")
@click.option("--entries", type=click.IntRange(min=2), default=10, show_default=True, help="Of each tenant.")
@click.option("--minutes", default=15.0, show_default=True, help="For writing; a larger population is cut off there.")
@click.option("--idle", "idle_seconds", default=60.0, show_default=True, help="Seconds of idleness.")
@click.option("--calls", type=click.IntRange(min=8), default=200, show_default=True, help="Of each kind.")
@click.option("--months", type=click.IntRange(min=0), default=120, show_default=True, help="Past months, at last.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures here.")
def main(
    *,
    counts: Sequence[int],
    entries: int,
    minutes: float,
    idle_seconds: float,
    calls: int,
    months: int,
    json_file: Path | None,
) -> None:
    """Print what calls, idleness and a start cost, by the size of the population."""
    plan = _Plan(
        counts=sorted(counts or (10_000, 100_000)),
        entries=entries,
        minutes=minutes,
        idle_seconds=idle_seconds,
        calls=calls,
        months=months,
    )
    sizes: list[Size] = []
    try:
        uvloop.run(_bench(plan, sizes))
    except DidNotStart as error:
        raise click.ClickException(str(error)) from None
    finally:
        if sizes:
            report.console().print(table(sizes))
        if json_file is not None:
            json_file.write_text(json.dumps({"scale": [asdict(size) for size in sizes]}, indent=2) + "\n", "utf-8")


async def _bench(plan: _Plan, sizes: list[Size]) -> None:
    """Measure into `sizes`, so that those measured before something goes wrong are not lost."""
    out, remaining_seconds = report.console(), plan.minutes * 60
    with data_folder() as folder:
        async with running(folder, ONE_PROCESS) as subject:
            template = await seed(subject, subject.api_key, plan.entries)
            # Each size is measured in a tenant of its own, because what the calls write makes the next ones dearer.
            operator_key = read_credentials(folder / "credentials.json")["operator_key"]
            connection = Connection(endpoint=subject.addresses["gateway"], api_key=operator_key, timeout=_TIMEOUT)
            callers: list[tuple[str, SeededTenant]] = []
            async with open_client(connection) as operator:
                for number in range(len(plan.counts) + 1):
                    _, api_key = await create_tenant(operator, f"caller-{number}")
                    callers.append((api_key, await seed(subject, api_key, plan.entries)))
        present = 1
        for count, (api_key, caller) in zip(plan.counts, callers, strict=False):
            async with running(folder, ONE_PROCESS) as subject:
                started = time.monotonic()
                written = await _written(subject, template, count - present, started + remaining_seconds, out)
                remaining_seconds -= time.monotonic() - started
            if not written and sizes:
                break
            present += written
            size = await _measured(folder, plan, api_key, caller)
            sizes.append(replace(size, tenants=present, entries=present * plan.entries))
            out.print(table(sizes[-1:]))
        measured = list(sizes)
        if plan.months:
            async with running(folder, ONE_PROCESS) as subject:
                seconds = await create_months(subject.database_url, plan.months)
            size = await _measured(folder, plan, *callers[-1])
            last = measured[-1]
            sizes.append(
                replace(size, tenants=last.tenants, entries=last.entries, months=plan.months, months_seconds=seconds)
            )
    if len(measured) > 1:
        sizes.append(extrapolated(measured[-2], measured[-1], TARGET_ENTRIES))


async def _written(subject: Subject, template: SeededTenant, count: int, deadline: float, out: Console) -> int:
    """Write so many tenants, or those for which there is time; return how many."""
    written, started = 0, time.monotonic()
    while written < count and time.monotonic() < deadline:
        step = min(_STEP, count - written)
        await copy_tenant(subject.database_url, template.tenant_id, step)
        written += step
    await settled(subject, seconds=_SETTLE_SECONDS)
    connection = await asyncpg.connect(subject.database_url)
    try:
        # Else autovacuum does it while calls are measured, and its pages count as theirs.
        await connection.execute("VACUUM (ANALYZE)")
    finally:
        await connection.close()
    out.print(f"{written:,} tenants written in {time.monotonic() - started:.0f} s", style="dim")
    return written


async def _measured(folder: Path, plan: _Plan, api_key: str, caller: SeededTenant) -> Size:
    """Start the cluster on a population and measure; the caller knows how large it is."""
    started = time.perf_counter()
    async with running(folder, ONE_PROCESS) as subject:
        start_seconds, start_cpu_seconds = time.perf_counter() - started, sum(split(subject.pid))
        await asyncio.sleep(plan.idle_seconds / 2)
        idle = await background(subject, plan.idle_seconds)
        calls = await costs(subject, api_key, caller.memory_ids, plan.calls, idle)
        connection = await asyncpg.connect(subject.database_url)
        try:
            database_bytes = await connection.fetchval("SELECT pg_database_size(current_database())")
        finally:
            await connection.close()
    return Size(
        tenants=0,
        entries=0,
        months=0,
        months_seconds=0.0,
        is_measured=True,
        database_bytes=float(database_bytes),
        start_seconds=start_seconds,
        start_cpu_seconds=start_cpu_seconds,
        idle=idle,
        calls=calls,
    )


def extrapolated(small: Size, large: Size, entries: int) -> Size:
    """Compute a larger population from two measured ones.

    Bytes grow with the entries. All else grows with their logarithm, as the depth of a B-tree does: by as much for
    each factor of ten as between the two.
    """
    tens = math.log10(entries / large.entries) / math.log10(large.entries / small.entries)

    def further(before: float, after: float) -> float:
        return max(0.0, after + (after - before) * tens)

    per_entry = (large.database_bytes - small.database_bytes) / (large.entries - small.entries)
    calls = [
        Cost(
            rpc=after.rpc,
            p50_ms=further(before.p50_ms, after.p50_ms),
            p95_ms=further(before.p95_ms, after.p95_ms),
            python_ms=further(before.python_ms, after.python_ms),
            postgres_ms=further(before.postgres_ms, after.postgres_ms),
            pages=further(before.pages, after.pages),
        )
        for before, after in zip(small.calls, large.calls, strict=True)
    ]
    return Size(
        tenants=round(entries * large.tenants / large.entries),
        entries=entries,
        months=0,
        months_seconds=0.0,
        is_measured=False,
        database_bytes=large.database_bytes + per_entry * (entries - large.entries),
        start_seconds=further(small.start_seconds, large.start_seconds),
        start_cpu_seconds=further(small.start_cpu_seconds, large.start_cpu_seconds),
        idle=Background(
            python_share=further(small.idle.python_share, large.idle.python_share),
            postgres_share=further(small.idle.postgres_share, large.idle.postgres_share),
            pages_per_second=further(small.idle.pages_per_second, large.idle.pages_per_second),
        ),
        calls=calls,
    )


def table(sizes: Sequence[Size]) -> Table:
    """Lay out the populations: a row for each of them and call."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("tenants", "entries", "months", "GB", "start s", "CPU s", "idle % of a core", "pages/s"):
        made.add_column(name, justify="right")
    made.add_column("call", no_wrap=True)
    for name in ("Python ms", "Postgres ms", "pages"):
        made.add_column(name, justify="right")
    for size in sizes:
        months = f"{size.months}, made in {size.months_seconds:.1f} s" if size.months else ""
        first = [
            f"{size.tenants:,}",
            f"{size.entries:,}" if size.is_measured else f"{size.entries:,} by arithmetic",
            months,
            f"{size.database_bytes / 1e9:.2f}",
            f"{size.start_seconds:.1f}",
            f"{size.start_cpu_seconds:.1f}",
            f"{(size.idle.python_share + size.idle.postgres_share) * 100:.2f}",
            f"{size.idle.pages_per_second:,.0f}",
        ]
        for call in size.calls:
            made.add_row(*first, call.rpc, f"{call.python_ms:.2f}", f"{call.postgres_ms:.2f}", f"{call.pages:,.0f}")
            first = [""] * len(first)
    return made


if __name__ == "__main__":
    main()
