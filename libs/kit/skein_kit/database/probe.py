"""A probe of a service's database, outside its pool."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

import asyncpg

from skein_kit.database.connection_settings import CONNECT_SECONDS, connect_arguments, database_role
from skein_kit.database.named_queries import Query


class DatabaseProbe:
    """Runs cheap queries on a connection of its own, because a busy pool does not mean that the database is down."""

    def __init__(self, url: str, role: str, *, pooled: bool = False) -> None:
        """Connect at the first query."""
        # Without prepared statements, which a PgBouncer may not support.
        self._keywords = {**connect_arguments(url, role, pooled=pooled), "statement_cache_size": 0}
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None
        self._lock = asyncio.Lock()

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, *, service: str, pooled: bool = False) -> AsyncIterator[Self]:
        """Open a probe for a block; its connection closes at the end."""
        probe = cls(url, database_role(service), pooled=pooled)
        try:
            yield probe
        finally:
            probe.terminate()

    async def fetch_value(self, query: Query) -> Any:
        """Return the first column of the first row. The caller sets a timeout. Raises the errors of the driver."""
        async with self._lock:
            try:
                if self._connection is None or self._connection.is_closed():
                    self._connection = await asyncpg.connect(**self._keywords, timeout=CONNECT_SECONDS)
                return await self._connection.fetchval(query.text)
            except BaseException:
                # Also when cancelled: a later query must not wait behind one to a server that hangs.
                self.terminate()
                raise

    def terminate(self) -> None:
        """Close the connection without waiting for the server."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
