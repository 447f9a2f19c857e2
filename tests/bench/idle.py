"""What tenants cost that rest, and what a call costs beside them: by the number of tenants.

    .venv/bin/python tests/bench/idle.py                                    # 1 to 10,000 tenants
    .venv/bin/python tests/bench/idle.py --tenants 1 --tenants 100000 --entries 2
    .venv/bin/python tests/bench/idle.py --json deploy/idle.json
    .venv/bin/python tests/bench/plot.py deploy/idle.json deploy/idle.svg

Nothing here is asserted. One tenant's rows come through the gateway; the others are copies of them, which the owner of
the database writes past the services. The cluster runs in one process beside its Postgres.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
import urllib.request
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

# The folder of the tests, so that what lies in this one has a name: `python tests/bench/idle.py` is how it is run.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import asyncpg
import click
import uvloop
from bench import processes, report
from bench.household import SeededTenant, settled
from bench.load import Limits, measured
from bench.subject import ONE_PROCESS, DidNotStart, data_folder, running
from bench.ways import Material
from rich import box
from rich.table import Table

from skein.auth.v1 import auth_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein_client.client import Client
from skein_client.connection import Connection
from skein_cluster.api.client import open_client, read_credentials
from skein_cluster.api.tenants import create_tenant

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from bench.subject import Subject

_SEED = 22
_TIMEOUT = 60.0
_IN_FLIGHT = 8
# Entries of one call, and messages of one session.
_AT_ONCE = 20
# Copies of one statement, so that a transaction stays small.
_BATCH = 500
# Statements that are printed, those that took the most time.
_STATEMENTS = 40
# Tables that are empty of tenants that rest, or that no copy can have.
_NOT_COPIED = frozenset(
    {
        "auth.legacy_tokens",
        "auth.requests",
        "memory.access_log",
        "memory.requests",
        "session.requests",
        "tenancy.requests",
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """What one call takes beside the tenants that rest."""

    rpc: str
    p50_ms: float
    p95_ms: float
    # Processor time of one call, in milliseconds.
    python_ms: float
    postgres_ms: float
    # Pages of tables and indexes that one call touches, those of the worker's rounds meanwhile included.
    pages: float


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
            template = await _seed(subject, subject.api_key, plan.entries)
            # Calls are made in a tenant of their own, because copies of what they write would be many.
            operator_key = read_credentials(folder / "credentials.json")["operator_key"]
            connection = Connection(endpoint=subject.addresses["gateway"], api_key=operator_key, timeout=_TIMEOUT)
            async with open_client(connection) as operator:
                _, api_key = await create_tenant(operator, "caller")
            caller = await _seed(subject, api_key, plan.entries)
            if plan.months:
                seconds = await _create_months(subject.database_url, plan.months)
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
                start_seconds, start_cpu_seconds = time.perf_counter() - started, sum(_split(subject.pid))
                await asyncio.sleep(plan.settle_seconds)
                python, postgres = await _idle(subject, plan)
                calls = await _costs(subject, api_key, caller.memory_ids, plan.calls) if plan.calls else []
            rows.append(
                Row(
                    tenants=count,
                    entries=count * plan.entries,
                    python_share=python,
                    postgres_share=postgres,
                    start_seconds=start_seconds,
                    start_cpu_seconds=start_cpu_seconds,
                    calls=calls,
                )
            )
            out.print(table(rows[-1:]))


async def _seed(subject: Subject, api_key: str, entries: int) -> SeededTenant:
    """Store so many entries in the tenant of an API key: memories, and as many messages in sessions."""
    material = Material((), _SEED)
    memory_ids: list[str] = []
    async with Client(endpoint=subject.addresses["gateway"], api_key=api_key, timeout=_TIMEOUT) as skein:
        me = await skein.auth.GetMe(auth_pb2.GetMeRequest())
        for start in range(0, entries // 2, _AT_ONCE):
            size = min(_AT_ONCE, entries // 2 - start)
            created = await skein.memories.BatchCreateMemories(
                memory_pb2.BatchCreateMemoriesRequest(memories=[material.memory() for _ in range(size)])
            )
            memory_ids += [memory.memory_id for memory in created.memories]
            await skein.sessions.AppendMessages(
                session_pb2.AppendMessagesRequest(
                    session_id=f"session-{start}",
                    messages=[material.message() for _ in range(size)],
                    create_session=True,
                )
            )
    await settled(subject)
    return SeededTenant(tenant_id=uuid.UUID(me.tenant_id), memory_ids=tuple(memory_ids))


async def copy_tenant(database_url: str, tenant_id: uuid.UUID, count: int) -> None:
    """Write `count` tenants with the rows of one, as the superuser: without checks of keys, policies and triggers."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("SET session_replication_role = replica; SET synchronous_commit = off")
        for schema in ("auth", "memory", "session", "tenancy"):
            # A tenant that rests is collected.
            await connection.execute(f"UPDATE {schema}.usage SET is_collected = true")  # noqa: S608 - the names above.
        await connection.execute(
            "INSERT INTO tenancy.collected_usage SELECT $1, 'tenants', 1, now() ON CONFLICT DO NOTHING", tenant_id
        )
        tables = await connection.fetch(_TABLES)
        for start in range(0, count, _BATCH):
            copies = [uuid.uuid4() for _ in range(min(_BATCH, count - start))]
            async with connection.transaction():
                for table_row in tables:
                    if table_row["name"] not in _NOT_COPIED:
                        await connection.execute(table_row["copy"], tenant_id, copies)
    finally:
        await connection.close()


async def _create_months(database_url: str, months: int) -> float:
    """Create the partitions of the months before the present one; return the seconds that it took."""
    connection = await asyncpg.connect(database_url)
    try:
        started = time.perf_counter()
        for schema in ("memory", "session"):
            await connection.execute(
                f"SELECT {schema}.ensure_month(now() - make_interval(months => month))"  # noqa: S608 - the names above.
                " FROM generate_series(1, $1) AS month",
                months,
            )
        return time.perf_counter() - started
    finally:
        await connection.close()


# Each table of tenants with the statement that copies its rows of tenant $1 to the tenants $2. A slug is unique.
_TABLES = """
SELECT c.oid::regclass::text AS name,
    format('WITH source AS MATERIALIZED (SELECT * FROM %s WHERE tenant_id = $1) '
           'INSERT INTO %s (%s) SELECT %s FROM source, unnest($2::uuid[]) AS copy (id)',
           c.oid::regclass,
           c.oid::regclass,
           string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum),
           string_agg(CASE a.attname WHEN 'tenant_id' THEN 'copy.id'
                                     WHEN 'slug' THEN 'source.slug || copy.id::text'
                                     ELSE 'source.' || quote_ident(a.attname) END, ', ' ORDER BY a.attnum)) AS copy
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
    AND n.nspname IN ('tenancy', 'auth', 'session', 'memory', 'recall')
    AND EXISTS (SELECT FROM pg_attribute AS t WHERE t.attrelid = c.oid AND t.attname = 'tenant_id')
GROUP BY c.oid
ORDER BY c.oid
"""


async def _idle(subject: Subject, plan: _Plan) -> tuple[float, float]:
    """Return the processor time of our process and of Postgres while nothing is called, in shares of a core."""
    counters, before = _counters(subject.admin), _split(subject.pid)
    started = time.perf_counter()
    await asyncio.sleep(plan.idle_seconds)
    after, seconds = _split(subject.pid), time.perf_counter() - started
    if plan.statements:
        _print_counters(counters, _counters(subject.admin), seconds)
    python, postgres = ((after[part] - before[part]) / seconds for part in (0, 1))
    return python, postgres


async def _costs(subject: Subject, api_key: str, memory_ids: tuple[str, ...], calls: int) -> list[Cost]:
    connection = await asyncpg.connect(subject.database_url)
    try:
        async with Client(endpoint=subject.addresses["gateway"], api_key=api_key, timeout=_TIMEOUT) as skein:
            return [
                await _cost(subject, connection, name, call, calls)
                for name, call in _calls(skein, Material(memory_ids, _SEED + 1)).items()
            ]
    finally:
        await connection.close()


def _calls(skein: Client, material: Material) -> Mapping[str, Callable[[int], Awaitable[object]]]:
    return {
        "Recall": lambda _: skein.gateway.Recall(gateway_pb2.RecallRequest(query=material.question())),
        "ListMemories": lambda _: skein.memories.ListMemories(memory_pb2.ListMemoriesRequest(page_size=20)),
        "GetMemory": lambda number: skein.memories.GetMemory(material.read(number)),
        # Last, so that the others find the rows as they were copied.
        "CreateMemory": lambda number: skein.memories.CreateMemory(material.create(number)),
    }


async def _cost(
    subject: Subject,
    connection: asyncpg.Connection[asyncpg.Record],
    name: str,
    call: Callable[[int], Awaitable[object]],
    calls: int,
) -> Cost:
    numbers = itertools.count()
    limits = Limits(calls=calls, seconds=600.0)
    # The first calls of a kind fill caches, and plan statements on each connection.
    await measured(call, numbers, in_flight=_IN_FLIGHT, limits=Limits(calls=100, seconds=60.0), server_cpu=_no_cpu)
    alone = await measured(
        call, numbers, in_flight=1, limits=Limits(calls=calls // 4, seconds=600.0), server_cpu=_no_cpu
    )
    pages, before = await _pages(connection), _split(subject.pid)
    figures = await measured(call, numbers, in_flight=_IN_FLIGHT, limits=limits, server_cpu=_no_cpu)
    after = _split(subject.pid)
    # The server's processes report what they touched within a second of their last statement.
    await asyncio.sleep(1.5)
    pages = await _pages(connection) - pages
    python, postgres = ((after[part] - before[part]) / figures.calls * 1e3 for part in (0, 1))
    return Cost(
        rpc=name,
        p50_ms=alone.p50,
        p95_ms=alone.p95,
        python_ms=python,
        postgres_ms=postgres,
        pages=pages / figures.calls,
    )


def _no_cpu() -> float:
    return 0.0


async def _pages(connection: asyncpg.Connection[asyncpg.Record]) -> int:
    return int(
        await connection.fetchval(
            "SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = current_database()"
        )
    )


def _split(pid: int) -> tuple[float, float]:
    """Return the processor time of our process, and of the Postgres that it started."""
    family = processes.family(pid)
    own = sum(process.cpu_seconds for process in family if process.pid == pid)
    return own, sum(process.cpu_seconds for process in family) - own


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
