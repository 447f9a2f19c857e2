"""What the worker reads and removes in its queue's tables beside the queue library itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.database.named_queries import Queries

if TYPE_CHECKING:
    from datetime import datetime

    import asyncpg

    from skein_kit.database.transactions import Database

QUERIES = Queries.of("skein_worker")


class Store:
    """The queue's tables."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def working_keys(self, entrypoint: str) -> frozenset[str]:
        """Return the dedupe keys of the jobs that wait or work."""
        async with self._database.shared() as tx:
            rows = await tx.rows(QUERIES["working_keys"], entrypoint=entrypoint)
        return frozenset(row["dedupe_key"] for row in rows)

    async def measure_server(self) -> asyncpg.Record:
        """Return sizes and the archive's state, one number a column; null is unknown."""
        return await self._row("measure_server")

    async def measure_transactions(self) -> asyncpg.Record:
        """Return how long the oldest transactions last."""
        return await self._row("measure_transactions")

    async def measure_replicas(self) -> list[asyncpg.Record]:
        """Return how far each replica is behind."""
        async with self._database.shared() as tx:
            return await tx.rows(QUERIES["measure_replicas"])

    async def measure_tables(self) -> list[asyncpg.Record]:
        """Return the size of every table."""
        async with self._database.shared() as tx:
            return await tx.rows(QUERIES["measure_tables"])

    async def measure_queue(self) -> list[asyncpg.Record]:
        """Return the jobs by kind and status."""
        async with self._database.shared() as tx:
            return await tx.rows(QUERIES["measure_queue"])

    async def delete_old_log(self, before: datetime) -> int:
        """Forget jobs that ended before a time; return how many lines that were."""
        async with self._database.shared() as tx:
            return await tx.execute(QUERIES["delete_old_log"], before=before)

    async def _row(self, name: str) -> asyncpg.Record:
        async with self._database.shared() as tx:
            (row,) = await tx.rows(QUERIES[name])
        return row
