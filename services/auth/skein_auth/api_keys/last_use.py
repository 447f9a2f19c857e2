"""When API keys were last used: gathered in memory, written in the background, to the minute."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg

from skein_kit.errors import RpcError
from skein_kit.telemetry import logs

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from skein_auth.api_keys.store import ApiKeyStore

# What is noted between two writings at most; what does not fit is written with a later use.
_MAX_NOTED = 100_000

log = logs.get("auth")


class LastUseRecorder:
    """The uses of keys that the database does not know of yet."""

    def __init__(self, store: ApiKeyStore) -> None:
        self._store = store
        self._noted: dict[UUID, dict[UUID, datetime]] = {}
        self._count = 0

    def note(self, tenant_id: UUID, key_id: UUID, at: datetime, known: datetime | None) -> None:
        """Remember that a key was used; `known` is what the database has."""
        minute = at.replace(second=0, microsecond=0)
        if known is not None and known >= minute:
            return
        keys = self._noted.setdefault(tenant_id, {})
        if key_id not in keys:
            if self._count >= _MAX_NOTED:
                return
            self._count += 1
        keys[key_id] = minute

    async def write(self) -> None:
        """Write what was noted: a transaction for each tenant. What fails is lost."""
        noted, self._noted, self._count = self._noted, {}, 0
        for tenant_id, keys in noted.items():
            await self._store.record_uses(tenant_id, keys)

    async def keep_writing(self, seconds: float) -> None:
        """Write every so many seconds until cancelled."""
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.write()
            except (RpcError, asyncpg.PostgresError) as error:
                log.warning("api_key_uses_lost", error=type(error).__name__)
