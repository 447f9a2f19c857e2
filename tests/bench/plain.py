"""Plain pgvector, as it is mostly used: one table for all tenants, one HNSW index with its defaults, the raw driver.

The planner chooses between the index and the tenant's rows. No row-level security, no text search, no service.
"""

from __future__ import annotations

import asyncio
import io
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg
import numpy as np
from bench.exact import WANTED
from bench.loading import copied
from pgvector.asyncpg import register_vector

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from bench.population import Block, Question

    Connection = asyncpg.Connection[asyncpg.Record]

_TEXT = 100
_TABLE = """
    CREATE SCHEMA plain;
    CREATE TABLE plain.items (id uuid PRIMARY KEY, tenant_id uuid NOT NULL, content text NOT NULL,
                              embedding vector({dimensions}) NOT NULL);
"""
# One after another, because a vacuum wants to be alone.
_INDEXES = (
    "SET maintenance_work_mem = '1GB'",
    "CREATE INDEX ON plain.items (tenant_id)",
    "CREATE INDEX ON plain.items USING hnsw (embedding vector_cosine_ops)",
    "VACUUM ANALYZE plain.items",
)
_SEARCH = f"""
    SELECT id, content FROM plain.items WHERE tenant_id = $1 ORDER BY embedding <=> $2 LIMIT {WANTED}
"""  # noqa: S608 - a number.


async def loaded(database_url: str, tenants: Sequence[UUID], blocks: Iterable[Block], dimensions: int) -> None:
    """Write the same entries and vectors into a table of their own, and index it."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(_TABLE.format(dimensions=dimensions))
        owners = np.frombuffer(b"".join(tenant.bytes for tenant in tenants), dtype="V16")
        for block in blocks:
            texts = [text.ljust(_TEXT)[:_TEXT].encode("ascii") for text in block.texts]
            columns = [
                ("V16", block.ids.view("V16").ravel()),
                ("V16", owners[block.tenants]),
                (f"V{_TEXT}", np.array(texts, dtype=f"S{_TEXT}").view(f"V{_TEXT}")),
                ("vector", block.vectors.astype(np.float32)),
            ]
            source = io.BytesIO(copied(columns, len(texts)))
            await connection.copy_to_table("items", schema_name="plain", source=source, format="binary")
        for statement in _INDEXES:
            await connection.execute(statement)
    finally:
        await connection.close()


async def dropped(database_url: str) -> None:
    """Remove the table."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("DROP SCHEMA plain CASCADE")
    finally:
        await connection.close()


class Plain:
    """Asks the table."""

    def __init__(self, pool: asyncpg.Pool[asyncpg.Record], tenants: Sequence[UUID]) -> None:
        self._pool = pool
        self._tenants = tenants

    async def search(self, question: Question) -> list[UUID]:
        """Return what comes back, which is less than there is where the index runs out of the tenant's entries."""
        async with self._pool.acquire() as connection:
            rows = await connection.fetch(_SEARCH, self._tenants[question.tenant], question.vector)
        return [row["id"] for row in rows]


@asynccontextmanager
async def asking(database_url: str, tenants: Sequence[UUID], *, in_flight: int) -> AsyncIterator[Plain]:
    """Lend a pool of connections."""
    pool = await asyncpg.create_pool(database_url, min_size=in_flight, max_size=in_flight, init=register_vector)
    try:
        yield Plain(pool, tenants)
    finally:
        async with asyncio.timeout(10):
            await pool.close()
