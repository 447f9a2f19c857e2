"""How fast memories with their vectors are stored: through the gateway, and the same rows by SQL directly.

The rows are taken from what the service itself has written for one batch of a tenant, in every table that has a tenant;
written again for another tenant they differ in nothing but that. One transaction for a batch, statements of many rows,
one after another in the order of the foreign keys, as superuser: less than any service could do, so a lower bound.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asyncpg
import numpy as np
from bench.asking import SECONDS
from bench.load import Limits, measured
from bench.loading import make_tenants, value_of
from bench.sentences import Sentences

from skein.memory.v1 import memory_pb2 as pb
from skein.memory.v1 import memory_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from uuid import UUID

    from bench.figures import Figures
    from bench.loading import Member
    from bench.population import Block
    from bench.staging import Stage
    from numpy.typing import NDArray

    Connection = asyncpg.Connection[asyncpg.Record]

BATCH = 100
# Batches written with one and with several in flight.
_ALONE, _TOGETHER = 30, 80
_UNBOUNDED = 1_000_000
# What a statement may have is 32,767.
_MOST_PARAMETERS = 30_000
# Every table that holds rows of tenants, but the tenants themselves and what lets callers in, parents first: a table
# comes after those that its foreign keys lead to.
_TABLES = """
    WITH RECURSIVE tables AS (
        SELECT c.oid, c.relnamespace::regnamespace::text AS schema_name, c.relname::text AS table_name
        FROM pg_class AS c
        WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
            AND c.relnamespace::regnamespace::text IN ('memory', 'recall', 'session', 'worker')
            AND EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id')
    ), depths AS (
        SELECT oid, 0 AS depth FROM tables
        UNION
        SELECT f.conrelid, d.depth + 1
        FROM depths AS d
        JOIN pg_constraint AS f ON f.contype = 'f' AND f.confrelid = d.oid AND f.conrelid <> d.oid
        WHERE d.depth < 10
    )
    SELECT t.schema_name, t.table_name, ARRAY(
        SELECT a.attname::text FROM pg_attribute AS a
        WHERE a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' AND a.attidentity = ''
        ORDER BY a.attnum
    ) AS columns
    FROM tables AS t
    JOIN depths AS d USING (oid)
    GROUP BY t.oid, t.schema_name, t.table_name
    ORDER BY max(d.depth), 1, 2
"""


def takes_vectors() -> bool:
    """Say whether a memory can be created with its vector."""
    return "embedding" in pb.Memory.DESCRIPTOR.fields_by_name


async def measured_writes(stage: Stage, *, in_flight: int, seconds: float) -> list[dict[str, Any]]:
    """Measure single memories, batches, and the rows of such a batch by SQL directly, with durable commits."""
    stub = memory_pb2_grpc.MemoryServiceStub(stage.channel)
    memories = Memories(stage.kept[0], seed=5)
    metadata = [(("authorization", f"Bearer {member.api_key}"),) for member in stage.members]

    async def create(number: int) -> None:
        request = pb.CreateMemoryRequest(memory=memories.one())
        await stub.CreateMemory(request, metadata=metadata[number % len(metadata)], timeout=SECONDS)

    async def create_batch(number: int) -> None:
        request = pb.BatchCreateMemoriesRequest(memories=memories.batch())
        await stub.BatchCreateMemories(request, metadata=metadata[number % len(metadata)], timeout=SECONDS)

    # Not counted: what was never called has plans to make.
    for call in (create, create_batch):
        await measured(call, stage.numbers, in_flight=1, limits=Limits(calls=10, seconds=5), server_cpu=stage.cpu)
    many = Limits(calls=_UNBOUNDED, seconds=seconds * 2)
    single = await measured(create, stage.numbers, in_flight=in_flight, limits=many, server_cpu=stage.cpu)
    found = [_figures("CreateMemory", single, 1)]
    for at_once, calls in ((1, _ALONE), (in_flight, _TOGETHER)):
        limits = Limits(calls=calls, seconds=seconds * 4)
        batches = await measured(create_batch, stage.numbers, in_flight=at_once, limits=limits, server_cpu=stage.cpu)
        direct = await _directly(stage, stub, memories, in_flight=at_once, limits=limits)
        through, by_sql = _figures("BatchCreateMemories", batches, BATCH), _figures("the same rows, SQL", direct, BATCH)
        through["times_sql"] = round(through["memories_per_second"] / by_sql["memories_per_second"], 3)
        found += [through, by_sql]
    return found


async def _directly(
    stage: Stage, stub: memory_pb2_grpc.MemoryServiceAsyncStub, memories: Memories, *, in_flight: int, limits: Limits
) -> Figures:
    """Write the rows of one batch for one fresh tenant after another."""
    connections = [await connected(stage.subject.database_url) for _ in range(in_flight)]
    try:
        first, *others = await make_tenants(connections[0], limits.calls + 2)
        metadata = (("authorization", f"Bearer {first.api_key}"),)
        request = pb.BatchCreateMemoriesRequest(memories=memories.batch())
        await stub.BatchCreateMemories(request, metadata=metadata, timeout=SECONDS)
        rows = await rows_of(connections[0], first.tenant_id)
        free = list(connections)
        spare: list[Member] = list(others)

        async def call(_number: int) -> None:
            connection = free.pop()
            try:
                await write(connection, rows, spare.pop().tenant_id)
            finally:
                free.append(connection)

        await call(0)
        return await measured(call, stage.numbers, in_flight=in_flight, limits=limits, server_cpu=stage.cpu)
    finally:
        for connection in connections:
            await connection.close()


def _figures(title: str, figures: Figures, memories: int) -> dict[str, Any]:
    return {
        "title": title,
        "in_flight": figures.in_flight,
        "vectors_given": takes_vectors(),
        "memories_per_second": round(figures.per_second * memories, 1),
        "p50_ms": round(figures.p50, 2),
        "p95_ms": round(figures.p95, 2),
    }


class Memories:
    """New memories, with vectors that lie among the stored ones."""

    def __init__(self, near: Block, *, seed: int) -> None:
        self._near = near
        self._drawing = np.random.default_rng([seed, 3])
        self._sentences = Sentences(seed + 2)

    def one(self) -> pb.Memory:
        """Return a memory that was never there before."""
        place = int(self._drawing.integers(0, len(self._near.tenants)))
        memory = pb.Memory(
            content=self._sentences.statement(),
            tags=["common", value_of("tag", place % 64)],
            agent_id=value_of("agent", place % 64),
            session_id=value_of("session", place % 64),
        )
        if takes_vectors():
            given: Any = memory
            given.embedding.extend(self._beside(self._near.vectors[place]).tolist())
        return memory

    def batch(self) -> list[pb.Memory]:
        """Return as many as a batch has."""
        return [self.one() for _ in range(BATCH)]

    def _beside(self, vector: NDArray[np.float16]) -> NDArray[np.float32]:
        noise = self._drawing.standard_normal(len(vector), dtype=np.float32) / np.sqrt(len(vector))
        found: NDArray[np.float32] = (vector + 0.3 * noise).astype(np.float32)
        return found


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one table."""

    table: str
    columns: Sequence[str]
    # Values in the order of the columns; the tenant's place is `tenant`.
    values: Sequence[tuple[Any, ...]]
    tenant: int

    def statements(self, tenant_id: UUID) -> Iterator[tuple[str, list[Any]]]:
        """Return statements that write them for another tenant, each with its parameters."""
        width = len(self.columns)
        for start in range(0, len(self.values), _MOST_PARAMETERS // width):
            part = self.values[start : start + _MOST_PARAMETERS // width]
            places = itertools.count(1)
            rows = ", ".join(f"({', '.join(f'${next(places)}' for _ in range(width))})" for _ in part)
            parameters = [
                tenant_id if place == self.tenant else value for row in part for place, value in enumerate(row)
            ]
            yield f"INSERT INTO {self.table} ({', '.join(self.columns)}) VALUES {rows}", parameters  # noqa: S608 - names of the catalog.


async def connected(database_url: str) -> Connection:
    """Open a connection that passes vectors on as they are."""
    connection = await asyncpg.connect(database_url, max_cacheable_statement_size=0)
    await connection.set_type_codec("halfvec", schema="public", encoder=bytes, decoder=bytes, format="binary")
    return connection


async def rows_of(connection: Connection, tenant_id: UUID) -> list[Rows]:
    """Return everything that was written for a tenant, parents first."""
    found: list[Rows] = []
    for table in await connection.fetch(_TABLES):
        name = f"{table['schema_name']}.{table['table_name']}"
        columns = table["columns"]
        listed = ", ".join(columns)
        rows = await connection.fetch(f"SELECT {listed} FROM {name} WHERE tenant_id = $1", tenant_id)  # noqa: S608 - names of the catalog.
        if rows:
            found.append(Rows(name, columns, [tuple(row) for row in rows], columns.index("tenant_id")))
    return found


async def write(connection: Connection, rows: Sequence[Rows], tenant_id: UUID) -> None:
    """Write rows for another tenant in one transaction, which is on disk when this returns."""
    async with connection.transaction():
        for part in rows:
            for statement, parameters in part.statements(tenant_id):
                await connection.execute(statement, *parameters)
