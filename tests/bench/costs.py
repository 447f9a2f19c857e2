"""What a call costs beside tenants that rest: processor time, and pages of tables, indexes and catalogs."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import asyncpg
from bench import processes
from bench.load import Limits, measured
from bench.subject import Subject
from bench.ways import Material

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein_client.client import Client

_SEED = 23
_TIMEOUT = 60.0
_IN_FLIGHT = 8
# The server's processes report what they touched within a second of their last statement.
_REPORT_SECONDS = 1.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """What one call takes beside the tenants that rest."""

    rpc: str
    p50_ms: float
    p95_ms: float
    # Processor time of one call, in milliseconds.
    python_ms: float
    postgres_ms: float
    # Pages of tables, indexes and catalogs that one call touches, without those of the worker's rounds meanwhile.
    pages: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Background:
    """What the cluster uses in a second without a call: probes, the worker's rounds and the canary."""

    # Processor time in shares of one core.
    python_share: float
    postgres_share: float
    pages_per_second: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Used:
    """What the cluster has used so far."""

    seconds: float
    python_seconds: float
    postgres_seconds: float
    pages: int

    @classmethod
    async def now(cls, subject: Subject, connection: asyncpg.Connection[asyncpg.Record]) -> Used:
        await asyncio.sleep(_REPORT_SECONDS)
        pages = await connection.fetchval(_PAGES)
        python, postgres = split(subject.pid)
        return cls(seconds=time.perf_counter(), python_seconds=python, postgres_seconds=postgres, pages=int(pages))

    def since(self, before: Used) -> Background:
        """Return the rates since an earlier time."""
        seconds = self.seconds - before.seconds
        return Background(
            python_share=(self.python_seconds - before.python_seconds) / seconds,
            postgres_share=(self.postgres_seconds - before.postgres_seconds) / seconds,
            pages_per_second=(self.pages - before.pages) / seconds,
        )


_PAGES = "SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = current_database()"


async def background(subject: Subject, seconds: float) -> Background:
    """Measure a cluster that is not called."""
    connection = await asyncpg.connect(subject.database_url)
    try:
        before = await Used.now(subject, connection)
        await asyncio.sleep(seconds)
        return (await Used.now(subject, connection)).since(before)
    finally:
        await connection.close()


async def costs(
    subject: Subject, api_key: str, memory_ids: tuple[str, ...], calls: int, idle: Background
) -> list[Cost]:
    """Measure each kind of call in the tenant of an API key, without what the cluster uses when it is idle."""
    connection = await asyncpg.connect(subject.database_url)
    try:
        async with Client(endpoint=subject.addresses["gateway"], api_key=api_key, timeout=_TIMEOUT) as skein:
            return [
                await _cost(subject, connection, name, call, calls, idle)
                for name, call in _calls(skein, Material(memory_ids, _SEED)).items()
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
    idle: Background,
) -> Cost:
    numbers = itertools.count()
    limits = Limits(calls=calls, seconds=600.0)
    # The first calls of a kind fill caches, and plan statements on each connection.
    await measured(call, numbers, in_flight=_IN_FLIGHT, limits=Limits(calls=100, seconds=60.0), server_cpu=_no_cpu)
    alone = await measured(
        call, numbers, in_flight=1, limits=Limits(calls=calls // 4, seconds=600.0), server_cpu=_no_cpu
    )
    before = await Used.now(subject, connection)
    figures = await measured(call, numbers, in_flight=_IN_FLIGHT, limits=limits, server_cpu=_no_cpu)
    after = await Used.now(subject, connection)
    seconds, used = after.seconds - before.seconds, after.since(before)
    each = seconds / figures.calls
    return Cost(
        rpc=name,
        p50_ms=alone.p50,
        p95_ms=alone.p95,
        python_ms=(used.python_share - idle.python_share) * each * 1e3,
        postgres_ms=(used.postgres_share - idle.postgres_share) * each * 1e3,
        pages=(used.pages_per_second - idle.pages_per_second) * each,
    )


def _no_cpu() -> float:
    return 0.0


def split(pid: int) -> tuple[float, float]:
    """Return the processor time of our process, and of the Postgres that it started."""
    family = processes.family(pid)
    own = sum(process.cpu_seconds for process in family if process.pid == pid)
    return own, sum(process.cpu_seconds for process in family) - own
