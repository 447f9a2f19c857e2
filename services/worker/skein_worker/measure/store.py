"""Measurements of the server and the queue's table; none reads a tenant's rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.database.named_queries import Queries

if TYPE_CHECKING:
    import asyncpg

    from skein_kit.database.transactions import Database

_QUERIES = Queries.load("skein_worker")


class MeasurementStore:
    """Reads the server's statistics, its catalog and the queue's table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def measure_server(self) -> asyncpg.Record:
        """Return bytes, wraparound (ratio), archive_failures and archive_age (seconds); null is unknown."""
        (row,) = await self._rows("measure_server")
        return row

    async def measure_transactions(self) -> asyncpg.Record:
        """Return the age of the oldest transaction and of the oldest that writes, in seconds."""
        (row,) = await self._rows("measure_transactions")
        return row

    async def measure_replicas(self) -> list[asyncpg.Record]:
        """Return how far each replica is behind: name, seconds and bytes."""
        return await self._rows("measure_replicas")

    async def measure_tables(self) -> list[asyncpg.Record]:
        """Return the size of each table: schema, table and bytes."""
        return await self._rows("measure_tables")

    async def measure_queue(self) -> list[asyncpg.Record]:
        """Return the jobs by entrypoint and status, and how many seconds the oldest due one has waited."""
        return await self._rows("measure_queue")

    async def _rows(self, query: str) -> list[asyncpg.Record]:
        async with self._database.global_transaction() as tx:
            return await tx.rows(_QUERIES[query])
