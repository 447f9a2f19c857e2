"""`python tests/bench/scale.py`: prints how calls take longer, or do not, as a database grows.

Nothing here is asserted. Each case is a `skein up` of its own whose tables are written past the services: so many
memories and as many messages of so many tenants, spread over so many months, a part of them the caller's. Nothing
written so has a vector. Calls go through the gateway, one after another; columns are cases, compared with the first.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

# The folder of the tests, so that what lies in this one has a name: `python tests/bench/scale.py` is how it is run.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import asyncpg
import click
import fix_scans
import uvloop
from bench import processes, report
from bench.figures import Figures, ratio
from bench.load import Limits, measured
from bench.subject import ONE_PROCESS, data_folder, running

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein.session.v1 import session_pb2
from skein_client.client import Client

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from bench.subject import Subject
    from rich.console import Console

    Call = Callable[[int], Awaitable[object]]

_PAGE = 20
_KNOWN = 1000
_WARM_UP = Limits(calls=30, seconds=5.0)
_TIMEOUT = 60.0
# The last month of the caller's own memories is not the only one that is read: ids are drawn from all of them.
_IDS = """
    SELECT memory_id FROM memory.entries WHERE tenant_id = $1 ORDER BY content_hash LIMIT $2
"""
_TENANTS = """
    INSERT INTO tenancy.tenants (tenant_id, organization_id, display_name, slug, create_time, update_time)
    SELECT lpad(to_hex(2 + n), 32, '0')::uuid, (SELECT organization_id FROM tenancy.organizations LIMIT 1), 'bench',
           'bench-' || n, now(), now()
    FROM generate_series(0, $1::int - 2) AS n
"""
_LISTS = {
    "plain": pb.MemoryFilter(),
    "by tag": pb.MemoryFilter(where="tags:common"),
    "by metadata": pb.MemoryFilter(where='metadata.plan = "plan 3"'),
    "by type and importance": pb.MemoryFilter(where="type = note AND importance >= 0.5"),
    "half pass, no index": pb.MemoryFilter(where="NOT type = note"),
    "none passes": pb.MemoryFilter(where="confidence > 0.9"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """How much there is."""

    entries: int
    tenants: int
    months: int
    # The caller's part of everything.
    part: float

    @property
    def largest(self) -> int:
        """Return how many memories the caller's tenant has."""
        return max(round(self.entries * self.part), 1)

    @property
    def title(self) -> str:
        """Return what tells it from others."""
        return f"{self.entries:,} / {self.tenants:,} tenants / {self.months} months / own {self.largest:,}"


@click.command()
@click.option("--entries", multiple=True, default=(10_000, 200_000), show_default=True, help="May be given repeatedly.")
@click.option("--tenants", multiple=True, default=(1_000,), show_default=True, help="As above; at least 2.")
@click.option("--months", multiple=True, default=(3,), show_default=True, help="As above.")
@click.option("--part", multiple=True, default=(0.1,), show_default=True, help="The caller's part of it; as above.")
@click.option("--calls", default=300, show_default=True, help="Of each kind, in 10 s at most.")
def main(
    *, entries: Sequence[int], tenants: Sequence[int], months: Sequence[int], part: Sequence[float], calls: int
) -> None:
    """Print p50, p95 and processor time of reads, first pages, walks and writes in databases of several sizes."""
    cases = [
        Case(entries=size, tenants=many, months=long, part=own)
        for many, long, own, size in itertools.product(tenants, months, part, entries)
    ]
    uvloop.run(_bench(cases, Limits(calls=calls, seconds=10.0)))


async def _bench(cases: Sequence[Case], limits: Limits) -> None:
    out = report.console()
    out.print(f"Load average of the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.", style="dim")
    figures = [await _figures(out, case, limits) for case in cases]
    out.print(_table(cases, figures), soft_wrap=True)


async def _figures(out: Console, case: Case, limits: Limits) -> dict[str, Figures]:
    with data_folder() as folder:
        async with (
            running(folder, ONE_PROCESS) as subject,
            Client(endpoint=subject.addresses["gateway"], api_key=subject.api_key, timeout=_TIMEOUT) as skein,
        ):
            me = await skein.auth.GetMe(auth_pb2.GetMeRequest())
            started = time.perf_counter()
            ids = await _filled(subject, case, uuid.UUID(me.tenant_id))
            out.print(f"{case.title}: filled in {time.perf_counter() - started:.0f} s", style="dim")
            calls = _calls(skein, ids, case)
            numbers = itertools.count()
            found: dict[str, Figures] = {}
            # Everything first runs uncounted: a cluster that has just started still has things to do and to plan.
            for limit in (_WARM_UP, limits):
                for name, call in calls.items():
                    found[name] = await measured(
                        call,
                        numbers,
                        in_flight=1,
                        limits=limit,
                        server_cpu=lambda: processes.cpu_seconds(subject.pid),
                    )
            return found


async def _filled(subject: Subject, case: Case, tenant_id: uuid.UUID) -> list[str]:
    """Write everything; return ids of memories of the caller's tenant."""
    connection = await asyncpg.connect(subject.database_url)
    try:
        await connection.execute(_TENANTS, case.tenants)
        await connection.execute(
            fix_scans.fill(
                entries=case.entries,
                largest=case.largest,
                tenant_id=tenant_id,
                tenants=case.tenants,
                months=case.months,
            )
        )
        await connection.execute("VACUUM (ANALYZE)")
        return [str(row["memory_id"]) for row in await connection.fetch(_IDS, tenant_id, _KNOWN)]
    finally:
        await connection.close()


def _calls(skein: Client, ids: Sequence[str], case: Case) -> dict[str, Call]:
    """Return what is measured, by name: reads first, so that they find the tables as they were filled."""

    def known(number: int) -> str:
        return ids[number * 7919 % len(ids)]

    def listing(wanted: pb.MemoryFilter) -> Call:
        request = pb.ListMemoriesRequest(page_size=_PAGE, filter=wanted)
        return lambda _number: skein.memories.ListMemories(request)

    async def get(number: int) -> None:
        await skein.memories.GetMemory(pb.GetMemoryRequest(memory_id=known(number)))

    async def traverse(number: int) -> None:
        await skein.links.TraverseLinks(pb.TraverseLinksRequest(memory_id=known(number), hops=3))

    async def create(number: int) -> None:
        memory = pb.Memory(
            content=f"What was said the {number}th time.",
            tags=["common", "bench"],
            source=f"source {number % 300}",
            agent_id=f"agent {number % 30}",
        )
        memory.metadata.update({"plan": f"plan {number % 20}"})
        await skein.memories.CreateMemory(pb.CreateMemoryRequest(memory=memory))

    async def append(number: int) -> None:
        content = f"What was asked the {number}th time."
        message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=content)
        # The sessions that have all of their messages in the caller's tenant.
        session_id = f"session {1 + number * 7919 % max(case.largest // 10 - 1, 1)}"
        await skein.sessions.AppendMessages(
            session_pb2.AppendMessagesRequest(session_id=session_id, messages=[message])
        )

    return {
        "GetMemory": get,
        **{f"ListMemories, {name}": listing(wanted) for name, wanted in _LISTS.items()},
        "TraverseLinks, 3 hops": traverse,
        "CreateMemory": create,
        "AppendMessages": append,
    }


def _table(cases: Sequence[Case], figures: Sequence[dict[str, Figures]]) -> str:
    """Return the table in Markdown: a row for each call, a column for each case."""
    lines = [
        "| p50 / p95 ms, processor ms (× the first) | " + " | ".join(case.title for case in cases) + " |",
        "|---|" + "---|" * len(cases),
    ]
    for name, first in figures[0].items():
        cells = [_cell(one[name], first if one is not figures[0] else None) for one in figures]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(one: Figures, first: Figures | None) -> str:
    # A machine that is busy with something else makes calls wait, and lets them cost what they cost.
    said = f"{one.p50:.1f} / {one.p95:.1f}, {one.server_cpu_per_thousand:.1f}"
    if first is None:
        return said
    pairs = ((one.p50, first.p50), (one.p95, first.p95), (one.server_cpu_per_thousand, first.server_cpu_per_thousand))
    times = [f"{ratio(value, base) or 0.0:.2f}" for value, base in pairs]
    return f"{said} (× {times[0]} / {times[1]}, {times[2]})"


if __name__ == "__main__":
    main()
