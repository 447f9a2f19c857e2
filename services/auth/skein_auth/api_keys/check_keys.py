"""A cache of the keys of check digits, and the limit of lookups of credentials without check digits."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg

from skein_kit.errors import Overloaded, RpcError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skein_auth.api_keys.store import OperatorKeyStore

# Most lookups of credentials without check digits at a time, and most that wait. The rest of the pool is for
# credentials that the cluster made.
UNCHECKED_LOOKUPS = 2
UNCHECKED_WAITING = 64
# Seconds until a replica reads a new key, which makes check digits minutes later.
CHECK_KEY_SECONDS = 60.0
_RETRY_SECONDS = 1.0


class CheckKeys:
    """The keys of check digits. A replica reads a new key long before it makes check digits."""

    def __init__(self, store: OperatorKeyStore) -> None:
        self._store = store
        self._keys: tuple[bytes, ...] = ()

    async def all(self) -> tuple[bytes, ...]:
        """Return the keys, the one for new check digits first."""
        return self._keys or await self.refresh()

    async def newest(self) -> bytes:
        """Return the key for new check digits; empty when the database has none."""
        return next(iter(await self.all()), b"")

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
                # Readiness reports the database; the cached keys work on.
                continue


class UncheckedLookupLimiter:
    """Limits the lookups of credentials without check digits, which a stranger can invent in any number."""

    def __init__(self, at_once: int = UNCHECKED_LOOKUPS, waiting: int = UNCHECKED_WAITING) -> None:
        self._slots = asyncio.Semaphore(at_once)
        self._most = at_once + waiting
        self._count = 0

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Run the block in a slot. Raises Overloaded when too many wait."""
        if self._count >= self._most:
            raise Overloaded(retry_after=_RETRY_SECONDS)
        self._count += 1
        try:
            async with self._slots:
                yield
        finally:
            self._count -= 1
