"""`python tests/bench/budgets.py`: prints what a stranger, a viewer and a member can make a cluster spend per second.

Nothing here is asserted. The cluster is a fleet: a process for each service, with the settings that a cluster has
unless it is told otherwise. Each abusive call is repeated as fast as the cluster answers. A row of the table is one
caller at one port, and each of its figures is that of the call which costs most of it. Processor time counts what is
done later too, such as vectors: so a second of calls can cost more than the cores have. The load shares the cores.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

# The folder of the tests, so that what lies in this one has a name: `python tests/bench/budgets.py` is how it is run.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
# gRPC's core would write to the terminal between the lines of the table; it reads this when it is imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import click
import httpx
import uvloop
import zmq
from bench import processes
from bench.abuses import MEMBER, VIEWER, Attack, attacks_on, text_of
from fix_attacks import ResourceUsage
from fix_cluster import Stubs
from fix_fleet import FLEET, Fleet, running_fleet
from fix_settings import FIELDS
from grpc import aio

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import memory_pb2
from skein_cluster import registry
from skein_kit.identity.permissions import ROLE_PERMISSIONS

_POSTGRES = "postgres"
_WORKERS = 16
# What is written later, such as the access log and statistics, is counted too.
_SETTLE_SECONDS = 1.0
_MEMORIES = 200
# What is written is searched by meaning later, which is waited for a while: the rest counts for the next call.
_MAX_WRITES = _WORKERS
_STORED_SECONDS, _BACKLOG_SECONDS = 60.0, 5.0
_REFUSED = (aio.AioRpcError, httpx.HTTPError, zmq.ZMQError, OSError, TimeoutError, asyncio.IncompleteReadError)
_NAMED = ("gateway", "auth", _POSTGRES)
_ROWS = """
SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn AS wal, tup_inserted + tup_updated + tup_deleted AS rows
FROM pg_stat_database WHERE datname = current_database()
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What the cluster has spent since its start."""

    cpu_seconds: Mapping[str, float]
    memory_bytes: int
    files: int
    rows: int
    disk_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """What one attack costs in a second; memory and files are what it adds in all."""

    attack: Attack
    calls: float
    allowed: float
    cpu_seconds: Mapping[str, float]
    memory_bytes: float
    files: int
    rows: float
    disk_bytes: float


@click.command()
@click.option("--seconds", type=float, default=1.5, help="For each call.")
@click.option("--details", is_flag=True, help="Print each call as well.")
def main(*, seconds: float, details: bool) -> None:
    """Print what callers can make a cluster spend, as a table in Markdown."""
    started = time.monotonic()
    costs = uvloop.run(measured(seconds, details=details))
    click.echo(table(costs))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    click.echo(
        f"\n{os.cpu_count()} cores, {memory:.0f} GiB, shared by the cluster, Postgres and the load; "
        f"{seconds:.1f} s for each of {len(costs)} calls, {_WORKERS} at a time; "
        f"load average {os.getloadavg()[0]:.1f}; {time.monotonic() - started:.0f} s in all."
    )


async def measured(seconds: float, *, details: bool) -> list[Cost]:
    """Run a cluster, and every attack against it; print what each costs if details are wanted."""
    async with running_fleet(_environment()) as fleet, AsyncExitStack() as stack:
        # What makes tests of a fleet patient is not what a cluster has.
        fleet.settings |= {name: str(FIELDS[name]) for name in FLEET if name in FIELDS}
        fleet.settings["SKEIN_LOG_LEVEL"] = "info"
        # Beyond loopback, to be there for strangers; of those it admits one address, which no machine has.
        fleet.settings |= {"SKEIN_PC2_HOST": "0.0.0.0", "SKEIN_PC2_ALLOW": "203.0.113.7"}  # noqa: S104
        await fleet.start(*((name, 0) for name in registry.NAMES if name != "pc2"))
        tenant = await fleet.new_tenant("budgets")
        keys = {}
        for role in (VIEWER, MEMBER):
            request = auth_pb2.CreateApiKeyRequest(display_name=role, permissions=sorted(ROLE_PERMISSIONS[role]))
            keys[role] = (await tenant.auth.CreateApiKey(request)).secret
        fleet.settings["SKEIN_PC2_API_KEY"] = keys[MEMBER]
        await fleet.start(("pc2", 0))
        await _stored(fleet, Stubs.of(fleet.channel, keys[MEMBER]))
        attacks = [attack async for attack in attacks_on(fleet, stack, keys)]
        idle = await _idle(fleet)
        costs = []
        for attack in attacks:
            costs.append(await _cost(fleet, attack, seconds, idle))
            if details:
                click.echo(rows((attack.caller, attack.port, attack.name), costs[-1:]))
        return costs


def table(costs: Iterable[Cost]) -> str:
    """Return a row for each caller at each port: the most of each figure over its calls."""
    by: defaultdict[tuple[str, str], list[Cost]] = defaultdict(list)
    for cost in costs:
        by[cost.attack.caller, cost.attack.port].append(cost)
    names = ("caller", "port", "calls/s", "let through/s", *(f"CPU {name}" for name in _NAMED), "CPU others")
    names = (*names, "CPU in all", "memory MiB", "files", "rows/s", "disk KiB/s", "most CPU by")
    head = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    return "\n".join([*head, *(rows(key, match) for key, match in by.items())])


def rows(key: tuple[str, ...], costs: list[Cost]) -> str:
    """Return one row of the table."""

    def most(figure: Callable[[Cost], float], form: str) -> str:
        return format(max(0.0, *(figure(cost) for cost in costs)), form)

    others = [name for name in costs[0].cpu_seconds if name not in _NAMED]
    cells = [
        *key,
        most(lambda cost: cost.calls, ".0f"),
        most(lambda cost: cost.allowed, ".0f"),
        *(most(lambda cost, name=name: cost.cpu_seconds[name], ".2f") for name in _NAMED),  # type: ignore[misc]
        most(lambda cost: sum(cost.cpu_seconds[name] for name in others), ".2f"),
        most(_all_cpu, ".2f"),
        most(lambda cost: cost.memory_bytes / 2**20, ".1f"),
        most(lambda cost: cost.files, ".0f"),
        most(lambda cost: cost.rows, ".0f"),
        most(lambda cost: cost.disk_bytes / 1024, ".0f"),
        max(costs, key=_all_cpu).attack.name,
    ]
    return f"| {' | '.join(cells)} |"


def _all_cpu(cost: Cost) -> float:
    return sum(cost.cpu_seconds.values())


async def _read(fleet: Fleet) -> Reading:
    spent = {replica.service: ResourceUsage.of(replica.process.pid) for replica in fleet.replicas.values()}
    postmaster = int((fleet.folder / "postgres/postmaster.pid").read_text("utf-8").splitlines()[0])
    family = processes.family(postmaster)
    async with fleet.superuser() as connection:
        row = await connection.fetchrow(_ROWS)
    assert row is not None
    logs = sum(path.stat().st_size for path in fleet.folder.glob("*.log"))
    return Reading(
        cpu_seconds={
            **{name: each.cpu_seconds for name, each in spent.items()},
            _POSTGRES: sum(one.cpu_seconds for one in family),
        },
        memory_bytes=sum(each.resident_bytes for each in spent.values()) + sum(one.private_bytes for one in family),
        files=sum(each.open_files for each in spent.values()),
        rows=int(row["rows"]),
        disk_bytes=int(row["wal"]) + logs,
    )


async def _idle(fleet: Fleet) -> Mapping[str, float]:
    """Return the processor time that a cluster without callers spends in a second."""
    seconds = 3.0
    before = await _read(fleet)
    await asyncio.sleep(seconds)
    after = await _read(fleet)
    return {name: (after.cpu_seconds[name] - spent) / seconds for name, spent in before.cpu_seconds.items()}


async def _cost(fleet: Fleet, attack: Attack, seconds: float, idle: Mapping[str, float]) -> Cost:
    """Repeat a call for some seconds, and return what it cost beside what an idle cluster costs."""
    calls = allowed = 0
    numbers, most = itertools.count(), _MAX_WRITES if attack.writes else sys.maxsize
    before, started = await _read(fleet), time.monotonic()

    async def work() -> None:
        nonlocal calls, allowed
        while time.monotonic() - started < seconds and (number := next(numbers)) < most:
            is_allowed = False
            with suppress(*_REFUSED):
                is_allowed = await attack.call(number)
            allowed += is_allowed
            calls += 1

    await asyncio.gather(*(work() for _ in range(_WORKERS)))
    busy = time.monotonic() - started
    # Connections are held until here.
    reading = await _read(fleet)
    await asyncio.sleep(_SETTLE_SECONDS)
    if attack.writes:
        await _searchable(fleet, _BACKLOG_SECONDS)
    after, whole = await _read(fleet), time.monotonic() - started
    return Cost(
        attack=attack,
        calls=calls / busy,
        allowed=allowed / busy,
        cpu_seconds={
            name: (after.cpu_seconds[name] - spent - idle[name] * whole) / busy
            for name, spent in before.cpu_seconds.items()
        },
        memory_bytes=reading.memory_bytes - before.memory_bytes,
        files=reading.files - before.files,
        rows=(after.rows - before.rows) / busy,
        disk_bytes=(after.disk_bytes - before.disk_bytes) / busy,
    )


def _environment() -> dict[str, str]:
    ours = {name: secrets.token_hex(32) for name in ("SKEIN_SYSTEM_KEY", "SKEIN_MASTER_KEY")}
    return {**{name: value for name, value in os.environ.items() if not name.startswith("SKEIN_")}, **ours}


async def _stored(fleet: Fleet, member: Stubs) -> None:
    """Store what readers find, and wait until it is searched by meaning."""
    for _ in range(_MEMORIES // 50):
        memories = [memory_pb2.Memory(content=text_of(400)) for _ in range(50)]
        await member.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories), timeout=60)
    await _searchable(fleet, _STORED_SECONDS)


async def _searchable(fleet: Fleet, seconds: float) -> None:
    """Wait until all that was stored is searched by meaning; a busy machine may not be done when the waiting ends."""
    async with fleet.superuser() as connection:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while await connection.fetchval("SELECT count(*) FROM recall.documents WHERE pending"):
                    await asyncio.sleep(0.2)


if __name__ == "__main__":
    main()
