"""Drops from memory what a process keeps of tenants in which a person or a session was erased.

Each erasure writes a note in its own transaction. The memory service removes the note when the longest call
(SKEIN_MAX_DEADLINE_SECONDS) and half a minute have passed since the erasure began, so half a minute after its commit
at the earliest. A process reads the notes every five seconds. One that cannot read them for twenty drops everything.

Erasures overlap, and one that began early may commit late. So all notes are compared, not the newest of each tenant.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Protocol

from skein_kit.telemetry import logs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from skein_recall.erasure.store import ErasureStore

LOOK_SECONDS = 5.0
# Less than the half minute for which a note stays after its erasure has committed.
_BLIND_SECONDS = 20.0

log = logs.get("recall")


class TenantCache(Protocol):
    """Something that is kept in memory by tenant."""

    def drop(self, tenant_id: UUID | None) -> None:
        """Forget all of a tenant; None: of every tenant."""


class ErasureWatcher:
    """Looks for erasures, and has caches drop the tenants."""

    def __init__(self, store: ErasureStore, caches: Sequence[TenantCache]) -> None:
        """Watch on behalf of `caches`."""
        self._store = store
        self._caches = caches
        # The notes of the last look: how many erasures began at each time, by tenant.
        self._seen: dict[UUID, Counter[datetime]] = {}

    async def run(self) -> None:
        """Look until cancelled."""
        loop = asyncio.get_running_loop()
        looked = loop.time()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.look()
            except Exception as error:  # noqa: BLE001 - whatever keeps it from looking, what it holds may be erased.
                log.warning("erasures_not_seen", error=type(error).__name__)
                if loop.time() - looked > _BLIND_SECONDS:
                    self._drop(None)
            else:
                looked = loop.time()

    async def look(self) -> None:
        """Drop the tenants with a note that the last look did not show."""
        noted = await self._store.list_erasures()
        fresh = [tenant_id for tenant_id, times in noted.items() if times - self._seen.get(tenant_id, Counter())]
        # First of all, for the statements below may fail.
        for tenant_id in fresh:
            self._drop(tenant_id)
        for tenant_id in fresh:
            await self._store.drop_unused_terms(tenant_id)
        self._seen = noted

    def _drop(self, tenant_id: UUID | None) -> None:
        for cache in self._caches:
            cache.drop(tenant_id)
