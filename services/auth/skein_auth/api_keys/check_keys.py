"""The keys of check digits, as this replica knows them; and the turns of credentials that have no check digits."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg

from skein_kit.errors import Overloaded, RpcError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skein_auth.api_keys.operator_key_store import OperatorKeyStore

# Lookups of credentials without check digits at a time, and how many more may wait: the rest of the pool is left to
# credentials that the cluster made.
UNCHECKED_LOOKUPS = 2
UNCHECKED_WAITING = 64
# Seconds until a replica notices a new key; the database lets it make check digits minutes later.
CHECK_KEY_SECONDS = 60.0
_RETRY_SECONDS = 1.0


class CheckKeys:
    """The keys of check digits. Another replica's new key is known here long before it makes any."""

    def __init__(self, store: OperatorKeyStore) -> None:
        self._store = store
        self._keys: tuple[bytes, ...] = ()

    async def known(self) -> tuple[bytes, ...]:
        """Return the keys, the one that makes check digits first."""
        return self._keys or await self.refresh()

    async def newest(self) -> bytes:
        """Return the key that makes check digits; empty when the database has none."""
        return next(iter(await self.known()), b"")

    async def refresh(self) -> tuple[bytes, ...]:
        """Read the keys."""
        self._keys = await self._store.list_check_keys()
        return self._keys

    async def keep_fresh(self, seconds: float) -> None:
        """Read the keys every so many seconds until cancelled."""
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.refresh()
            except (RpcError, asyncpg.PostgresError):
                # Readiness says what is wrong with the database; the keys of before go on working.
                continue


class UncheckedLookupLimiter:
    """Gives credentials without check digits their turn: few at a time, because a stranger can invent any number."""

    def __init__(self, at_once: int = UNCHECKED_LOOKUPS, waiting: int = UNCHECKED_WAITING) -> None:
        self._turns = asyncio.Semaphore(at_once)
        self._most = at_once + waiting
        self._count = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Run the block when it is its turn. Raises Overloaded when too many wait."""
        if self._count >= self._most:
            raise Overloaded(after=_RETRY_SECONDS)
        self._count += 1
        try:
            async with self._turns:
                yield
        finally:
            self._count -= 1
