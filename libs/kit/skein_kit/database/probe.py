"""Whether a service's database answers, asked beside its pool."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

import asyncpg

from skein_kit.database.connection_settings import CONNECT_SECONDS, connect_arguments, database_role

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skein_kit.database.named_queries import Query


class DatabaseProbe:
    """Asks whether the database answers, on a connection of its own, because a busy pool is no fault."""

    def __init__(self, url: str, role: str, *, pooled: bool = False) -> None:
        """Connect when first asked."""
        # One small question now and then, also where nothing can be kept prepared.
        self._keywords = {**connect_arguments(url, role, pooled=pooled), "statement_cache_size": 0}
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None
        self._one_at_a_time = asyncio.Lock()

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, *, service: str, pooled: bool = False) -> AsyncIterator[Self]:
        """Keep the connection until the block ends."""
        pulse = cls(url, database_role(service), pooled=pooled)
        try:
            yield pulse
        finally:
            pulse.hang_up()

    async def value(self, query: Query) -> Any:
        """Return the first column of the first row. Whoever asks sets the limit of time."""
        async with self._one_at_a_time:
            try:
                if self._connection is None or self._connection.is_closed():
                    self._connection = await asyncpg.connect(**self._keywords, timeout=CONNECT_SECONDS)
                return await self._connection.fetchval(query.text)
            except BaseException:
                # Cancelled too: what a server that hangs was asked before is nothing to wait for.
                self.hang_up()
                raise

    def hang_up(self) -> None:
        """Let go of the connection, without a word."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
