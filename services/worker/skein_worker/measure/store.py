"""Measurements of the server and the queue's table; none reads a tenant's rows."""

from __future__ import annotations

import asyncpg

from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Database

_QUERIES = Queries.load("skein_worker")


class MeasurementStore:
    """Reads the server's statistics, its catalog and the queue's table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def is_citus(self) -> bool:
        """Whether the database has several machines, each to be measured."""
        return self._database.is_citus

    async def measure(self, query: str) -> list[asyncpg.Record]:
        """Return the rows of a query of this package, which says what its columns are."""
        async with self._database.global_transaction() as tx:
            return await tx.rows(_QUERIES[query])
