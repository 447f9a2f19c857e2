"""What a core does and what an entry takes: the measured figures that deploy/capacity.md calculates with.

    .venv/bin/python tests/bench/capacity.py                 # about two minutes
    .venv/bin/python tests/bench/capacity.py --json deploy/capacity.json
    .venv/bin/python tests/bench/plot.py deploy/capacity.json deploy/capacity.svg

Nothing here is asserted. The cluster runs in one process beside its Postgres; the client shares their cores. What
counts is processor time, which does not change with the number of cores: so many calls take one core for a second.
"""

from __future__ import annotations

import itertools
import json
import sys
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

# The folder of the tests, so that what lies in this one has a name: `python tests/bench/capacity.py` is how it is run.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import asyncpg
import click
import uvloop
from bench import processes, report
from bench.household import moved_in, settled
from bench.load import Limits, measured
from bench.subject import ONE_PROCESS, DidNotStart, data_folder, running
from bench.ways import Material
from rich import box
from rich.table import Table

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein.session.v1 import session_pb2
from skein_client.client import Client

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bench.subject import Subject

    Call = Callable[[int], Awaitable[object]]

_SEED = 12
_TIMEOUT = 60.0
# Of each kind, before anything is measured.
_STORED = 2000
_BATCH = 50
# What the tables of an entry, of a message and of a vector are.
_TABLES = {
    "memories": "n.nspname = 'memory'",
    "messages": "n.nspname = 'session'",
    "words": "n.nspname = 'recall' AND c.relname NOT LIKE 'embeddings%'",
    "vectors": "n.nspname = 'recall' AND c.relname LIKE 'embeddings%'",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """What a call of one kind costs."""

    rpc: str
    per_second: float
    p95_ms: float
    # Processor time of one call, in milliseconds: of our process, and of Postgres.
    python_ms: float
    postgres_ms: float
    # Items that one call stores or returns.
    items: int = 1

    @property
    def per_core(self) -> float:
        """Return how many calls keep one core busy for a second."""
        return 1000 / (self.python_ms + self.postgres_ms)


def _calls(skein: Client, memory_ids: tuple[str, ...], session_ids: list[str]) -> dict[str, tuple[Call, int]]:
    """Return what is measured, with the items of each call."""
    material = Material(memory_ids, _SEED)

    async def create_deferred(number: int) -> object:
        request = material.create(number)
        request.defer_embedding = True
        return await skein.memories.CreateMemory(request)

    async def batch(_number: int) -> object:
        memories = [material.memory() for _ in range(_BATCH)]
        return await skein.memories.BatchCreateMemories(pb.BatchCreateMemoriesRequest(memories=memories))

    async def update(number: int) -> object:
        memory = pb.Memory(memory_id=memory_ids[number * 7919 % len(memory_ids)], importance=(number % 10) / 10)
        return await skein.memories.UpdateMemory(
            pb.UpdateMemoryRequest(memory=memory, update_mask={"paths": ["importance"]})
        )

    def recall(*branches: gateway_pb2.Branch) -> Call:
        return lambda _: skein.gateway.Recall(gateway_pb2.RecallRequest(query=material.question(), branches=branches))

    return {
        "GetMemory": (lambda number: skein.memories.GetMemory(material.read(number)), 1),
        "ListMemories, 20": (lambda _: skein.memories.ListMemories(pb.ListMemoriesRequest(page_size=20)), 20),
        "UpdateMemory, importance": (update, 1),
        "CreateMemory": (lambda number: skein.memories.CreateMemory(material.create(number)), 1),
        "CreateMemory, vector later": (create_deferred, 1),
        f"BatchCreateMemories, {_BATCH}": (batch, _BATCH),
        "AppendMessages": (lambda number: skein.sessions.AppendMessages(material.append(number)), 1),
        "ListMessages, 20": (
            lambda number: skein.sessions.ListMessages(
                session_pb2.ListMessagesRequest(session_id=session_ids[number % len(session_ids)], page_size=20)
            ),
            20,
        ),
        "Recall, memories": (recall(gateway_pb2.BRANCH_MEMORIES), 10),
        "Recall, memories and messages": (recall(gateway_pb2.BRANCH_MEMORIES, gateway_pb2.BRANCH_MESSAGES), 10),
        "BuildContext": (
            lambda _: skein.gateway.BuildContext(
                gateway_pb2.BuildContextRequest(recall=gateway_pb2.RecallRequest(query=material.question()))
            ),
            10,
        ),
    }


@click.command()
@click.option("--clients", type=click.IntRange(1, 100), default=8, help="Calls in flight.")
@click.option("--seconds", type=float, default=4.0, help="For each kind of call.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures here.")
def main(*, clients: int, seconds: float, json_file: Path | None) -> None:
    """Print processor time per call, bytes per entry and connections."""
    try:
        costs, bytes_each, facts = uvloop.run(_bench(clients, seconds))
    except DidNotStart as error:
        raise click.ClickException(str(error)) from None
    _print(costs, bytes_each, facts)
    if json_file is not None:
        report = {"calls": [asdict(one) for one in costs], "bytes": bytes_each, **facts}
        json_file.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


async def _bench(clients: int, seconds: float) -> tuple[list[Cost], dict[str, float], dict[str, float]]:
    with data_folder() as folder:
        async with running(folder, ONE_PROCESS, SKEIN_CANARY_SECONDS="0") as subject:
            empty = await _bytes(subject)
            household = await moved_in(subject, memories=_STORED, messages=_STORED)
            full = await _bytes(subject)
            async with Client(
                endpoint=subject.addresses["gateway"], api_key=subject.api_key, timeout=_TIMEOUT
            ) as skein:
                listed = await skein.sessions.ListSessions(session_pb2.ListSessionsRequest())
                session_ids = [session.session_id for session in listed.sessions]
                costs = [
                    await _cost(name, call, items, subject, clients, seconds)
                    for name, (call, items) in _calls(skein, household.memory_ids, session_ids).items()
                ]
            facts = {"connections": await _connections(subject), "resident_mb": _resident(subject)}
    # Both kinds have words and vectors.
    shares = {"memories": _STORED, "messages": _STORED, "words": 2 * _STORED, "vectors": 2 * _STORED}
    return costs, {kind: (full[kind] - empty[kind]) / count for kind, count in shares.items()}, facts


async def _cost(name: str, call: Call, items: int, subject: Subject, clients: int, seconds: float) -> Cost:
    numbers = itertools.count(uuid.uuid4().int % 10_000)
    # The first calls of a kind fill caches.
    for _ in range(2 * clients):
        await call(next(numbers))
    before = _split(subject.pid)
    figures = await measured(
        call,
        numbers,
        in_flight=clients,
        limits=Limits(calls=1_000_000, seconds=seconds),
        server_cpu=lambda: processes.cpu_seconds(subject.pid),
    )
    # Vectors that are still to be made are part of what a write costs, and no part of what comes next.
    await settled(subject)
    after = _split(subject.pid)
    python, postgres = ((after[part] - before[part]) / figures.calls * 1e3 for part in (0, 1))
    return Cost(
        rpc=name,
        per_second=figures.per_second,
        p95_ms=figures.p95,
        python_ms=python,
        postgres_ms=postgres,
        items=items,
    )


def _split(pid: int) -> tuple[float, float]:
    """Return the processor time of our process, and of the Postgres that it started."""
    family = processes.family(pid)
    own = sum(process.cpu_seconds for process in family if process.pid == pid)
    return own, sum(process.cpu_seconds for process in family) - own


def _resident(subject: Subject) -> float:
    return sum(process.resident_bytes for process in processes.family(subject.pid) if process.pid == subject.pid) / 1e6


async def _bytes(subject: Subject) -> dict[str, float]:
    connection = await asyncpg.connect(subject.database_url)
    try:
        return {
            kind: float(
                await connection.fetchval(
                    "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)"  # noqa: S608 - the texts above.
                    " FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
                    f" WHERE c.relkind = 'r' AND {condition}"
                )
            )
            for kind, condition in _TABLES.items()
        }
    finally:
        await connection.close()


async def _connections(subject: Subject) -> float:
    connection = await asyncpg.connect(subject.database_url)
    try:
        count = await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        return float(count)
    finally:
        await connection.close()


def _print(costs: list[Cost], bytes_each: dict[str, float], facts: dict[str, float]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("RPC through the gateway", no_wrap=True)
    for name in ("calls/s here", "p95 ms", "Python ms", "Postgres ms", "calls per core-second"):
        table.add_column(name, justify="right")
    for one in costs:
        cells = (one.per_second, one.p95_ms, one.python_ms, one.postgres_ms, one.per_core)
        table.add_row(one.rpc, *(f"{value:,.{digits}f}" for value, digits in zip(cells, (0, 0, 2, 2, 0), strict=True)))
    console = report.console()
    console.print(table)
    for kind, size in bytes_each.items():
        console.print(f"{kind}: {size:,.0f} bytes each, indexes included")
    console.print(f"{facts['connections']:.0f} connections, {facts['resident_mb']:,.0f} MB resident without Postgres")
    console.print(
        "The client shares the cores with the cluster; processor time is that of a call, wherever it is served."
    )


if __name__ == "__main__":
    main()
