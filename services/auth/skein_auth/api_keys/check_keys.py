"""A cache of the keys of check digits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg

from skein_kit.errors import RpcError

if TYPE_CHECKING:
    from skein_auth.api_keys.store import OperatorKeyStore

# Seconds until a replica reads a new key, which makes check digits minutes later.
CHECK_KEY_SECONDS = 60.0


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
