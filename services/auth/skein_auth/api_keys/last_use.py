"""The last use of API keys, to the minute: collected in memory, written in the background."""

from __future__ import annotations

import asyncio
from datetime import datetime
from uuid import UUID

import asyncpg

from skein_auth.api_keys.store import ApiKeyStore
from skein_kit.errors import RpcError
from skein_kit.telemetry import logs

# Most uses between two writes; a use beyond them is recorded with a later one.
_MAX_PENDING = 100_000

# Seconds between two writes of the last use of API keys, which is known to the minute.
LAST_USE_SECONDS = 60.0

log = logs.get("auth")


class LastUseRecorder:
    """Uses of keys that are not written yet."""

    def __init__(self, store: ApiKeyStore) -> None:
        self._store = store
        self._pending: dict[UUID, dict[UUID, datetime]] = {}
        self._count = 0

    def record(self, tenant_id: UUID, key_id: UUID, at: datetime, last_use_time: datetime | None) -> None:
        """Record a use of a key, unless it is of the same minute as `last_use_time`."""
        minute = at.replace(second=0, microsecond=0)
        if last_use_time is not None and last_use_time >= minute:
            return
        keys = self._pending.setdefault(tenant_id, {})
        if key_id not in keys:
            if self._count >= _MAX_PENDING:
                return
            self._count += 1
        keys[key_id] = minute

    async def flush(self) -> None:
        """Write all uses, with a transaction for each tenant. A failed write is lost."""
        pending, self._pending, self._count = self._pending, {}, 0
        for tenant_id, keys in pending.items():
            await self._store.record_uses(tenant_id, keys)

    async def flush_periodically(self, seconds: float) -> None:
        """Write every `seconds` until cancelled."""
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.flush()
            except (RpcError, asyncpg.PostgresError) as error:
                log.warning("api_key_uses_lost", error=type(error).__name__)
