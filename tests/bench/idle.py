"""What tenants cost that rest, and what a call costs beside them: by the number of tenants.

    .venv/bin/python tests/bench/idle.py                                    # 1 to 10,000 tenants
    .venv/bin/python tests/bench/idle.py --tenants 1 --tenants 100000 --entries 2
    .venv/bin/python tests/bench/idle.py --json idle.json
    .venv/bin/python tests/bench/plot.py idle.json idle.svg

Nothing here is asserted. One tenant's rows come through the gateway; the others are copies of them, which the owner of
the database writes past the services. The cluster runs in one process beside its Postgres.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.subject import Subject

# The folder of the tests, so that what lies in this one has a name: `python tests/bench/idle.py` is how it is run.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

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
# Statements that are printed, those that took the most time.
_STATEMENTS = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """What is measured with so many tenants."""

    tenants: int
    entries: int
    # Processor time in shares of one core while nothing is called.
    python_share: float
    postgres_share: float
    # A start of the cluster: seconds, and processor time of our process and of Postgres.
    start_seconds: float
    start_cpu_seconds: float
    calls: list[Cost]


@click.command()
@click.option("--tenants", "counts", multiple=True, type=click.IntRange(min=1), help="Tenants; repeatable, growing.")
@click.option("--entries", type=click.IntRange(min=2), default=10, show_default=True, help="Of each tenant.")
@click.option("--idle", "idle_seconds", default=120.0, show_default=True, help="Seconds of idleness.")
@click.option("--settle", "settle_seconds", default=60.0, show_default=True, help="Seconds before it.")
@click.option("--calls", type=click.IntRange(min=0), default=400, show_default=True, help="Of each kind.")
@click.option("--months", type=click.IntRange(min=0), default=0, help="Months with partitions before the present one.")
@click.option("--statements", is_flag=True, help="Print which statements ran while nothing was called.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures here.")
def main(
    *,
    counts: Sequence[int],
    entries: int,
    idle_seconds: float,
    settle_seconds: float,
    calls: int,
    months: int,
    statements: bool,
    json_file: Path | None,
) -> None:
    """Print the processor time of idleness and of calls, by the number of tenants that rest."""
    plan = _Plan(
        counts=sorted(counts or (1, 1000, 10_000)),
        entries=entries,
        idle_seconds=idle_seconds,
        settle_seconds=settle_seconds,
        calls=calls,
        statements=statements,
        months=months,
    )
    rows: list[Row] = []
    try:
        uvloop.run(_bench(plan, rows))
    except DidNotStart as error:
        raise click.ClickException(str(error)) from None
    finally:
        if rows:
            report.console().print(table(rows))
        if json_file is not None:
            json_file.write_text(json.dumps({"idle": [asdict(row) for row in rows]}, indent=2) + "\n", "utf-8")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Plan:
    counts: Sequence[int]
    entries: int
    idle_seconds: float
    settle_seconds: float
    calls: int
    statements: bool
    months: int


async def _bench(plan: _Plan, rows: list[Row]) -> None:
    """Measure into `rows`, so that those measured before something goes wrong are not lost."""
    out = report.console()
    with data_folder() as folder:
        async with running(folder, ONE_PROCESS) as subject:
            template = await seed(subject, subject.api_key, plan.entries)
            # Calls are made in a tenant of their own, because copies of what they write would be many.
            operator_key = read_credentials(folder / "credentials.json")["operator_key"]
            connection = Connection(endpoint=subject.addresses["gateway"], api_key=operator_key, timeout=_TIMEOUT)
            async with open_client(connection) as operator:
                _, api_key = await create_tenant(operator, "caller")
            caller = await seed(subject, api_key, plan.entries)
            if plan.months:
                seconds = await create_months(subject.database_url, plan.months)
                out.print(f"partitions of {plan.months} months created in {seconds:.1f} s", style="dim")
        present = 1
        for count in plan.counts:
            if count > present:
                async with running(folder, ONE_PROCESS) as subject:
                    started = time.perf_counter()
                    await copy_tenant(subject.database_url, template.tenant_id, count - present)
                    await settled(subject)
                    out.print(f"{count:,} tenants written in {time.perf_counter() - started:.0f} s", style="dim")
                    present = count
            started = time.perf_counter()
            async with running(folder, ONE_PROCESS) as subject:
                start_seconds, start_cpu_seconds = time.perf_counter() - started, sum(split(subject.pid))
                await asyncio.sleep(plan.settle_seconds)
                idle = await _idle(subject, plan)
                calls = await costs(subject, api_key, caller.memory_ids, plan.calls, idle) if plan.calls else []
            rows.append(
                Row(
                    tenants=count,
                    entries=count * plan.entries,
                    python_share=idle.python_share,
                    postgres_share=idle.postgres_share,
                    start_seconds=start_seconds,
                    start_cpu_seconds=start_cpu_seconds,
                    calls=calls,
                )
            )
            out.print(table(rows[-1:]))


async def _idle(subject: Subject, plan: _Plan) -> Background:
    """Measure the cluster while nothing is called."""
    counters, started = _counters(subject.admin), time.perf_counter()
    idle = await background(subject, plan.idle_seconds)
    if plan.statements:
        _print_counters(counters, _counters(subject.admin), time.perf_counter() - started)
    return idle


def _counters(admin: str) -> dict[str, tuple[float, float]]:
    """Return how often each RPC was called and each named query ran, and the seconds that they took."""
    with urllib.request.urlopen(f"http://{admin}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    values: dict[str, float] = {}
    for line in lines:
        if line.startswith(("skein_rpc_duration_seconds_", "skein_database_query_duration_seconds_")):
            name, _, value = line.rpartition(" ")
            values[name] = float(value)
    return {
        name.replace("_count{", "{"): (value, values.get(name.replace("_count{", "_sum{"), 0.0))
        for name, value in values.items()
        if "_count{" in name
    }


def _print_counters(
    before: Mapping[str, tuple[float, float]], after: Mapping[str, tuple[float, float]], seconds: float
) -> None:
    nothing = (0.0, 0.0)
    spent = {name: (value[1] - before.get(name, nothing)[1]) for name, value in after.items()}
    for name in sorted(spent, key=spent.__getitem__, reverse=True)[:_STATEMENTS]:
        calls = after[name][0] - before.get(name, nothing)[0]
        if calls:
            line = f"{calls / seconds:9.2f} a second, {spent[name] / seconds * 1e3:8.2f} ms a second: {name}"
            report.console().print(line, style="dim", soft_wrap=True)


def table(rows: Sequence[Row]) -> Table:
    """Lay out idleness and calls: a row for each number of tenants and call."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("tenants", "entries", "start s", "start CPU s", "idle % of a core", "of Postgres"):
        made.add_column(name, justify="right")
    made.add_column("call", no_wrap=True)
    for name in ("p50 ms", "p95 ms", "Python ms", "Postgres ms", "pages"):
        made.add_column(name, justify="right")
    for row in rows:
        first = [
            f"{row.tenants:,}",
            f"{row.entries:,}",
            f"{row.start_seconds:.1f}",
            f"{row.start_cpu_seconds:.1f}",
            f"{(row.python_share + row.postgres_share) * 100:.2f}",
            f"{row.postgres_share * 100:.2f}",
        ]
        calls: Sequence[Cost | None] = row.calls or [None]
        for call in calls:
            cells = () if call is None else (call.p50_ms, call.p95_ms, call.python_ms, call.postgres_ms, call.pages)
            digits = (1, 1, 2, 2, 0)
            texts = (f"{value:.{places}f}" for value, places in zip(cells, digits, strict=False))
            made.add_row(*first, "" if call is None else call.rpc, *texts)
            first = [""] * len(first)
    return made


if __name__ == "__main__":
    main()
