"""Drops cached data of tenants in which a person or a session was erased.

Each erasure writes a record in its own transaction. The memory service removes the record when the longest call
(five minutes) and half a minute have passed since the erasure began. So the record stays for at least
half a minute after the commit. A process polls the records every five seconds; after twenty without success it drops
everything.

Erasures overlap, and one that began early may commit late. So all records are compared, not the newest of each tenant.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from skein_kit.database.transactions import Database
from skein_kit.telemetry import logs
from skein_recall.queries import QUERIES

POLL_SECONDS = 5.0
# Less than the half minute for which a record stays after its erasure has committed.
_MAX_BLIND_SECONDS = 20.0

log = logs.get("recall")


class TenantCache(Protocol):
    """Data that is cached in memory by tenant."""

    def drop(self, tenant_id: UUID | None) -> None:
        """Remove all data of a tenant; None: of every tenant."""


class ErasureStore:
    """Reads recorded erasures, and deletes terms that no item has any more."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_erasures(self) -> dict[UUID, Counter[datetime]]:
        """Count the recorded erasures by tenant and start time.

        A record appears when its erasure commits, and stays for at least half a minute.
        """
        async with self._database.operator_transaction() as tx:
            rows = await tx.rows(QUERIES["list_erasures"])
        erasures: dict[UUID, Counter[datetime]] = {}
        for row in rows:
            erasures.setdefault(row["tenant_id"], Counter())[row["erase_time"]] = row["count"]
        return erasures

    async def delete_unused_terms(self, tenant_id: UUID) -> None:
        """Delete a tenant's terms that no item has any more."""
        async with self._database.transaction(tenant_id) as tx:
            await tx.execute(QUERIES["delete_unused_frequencies"], tenant_id=tenant_id)
            await tx.execute(QUERIES["restart_recount"], tenant_id=tenant_id)


class ErasureWatcher:
    """Polls erasures, and has caches drop the tenants."""

    def __init__(self, store: ErasureStore, caches: Sequence[TenantCache]) -> None:
        self._store = store
        self._caches = caches
        # The result of the last poll.
        self._known: dict[UUID, Counter[datetime]] = {}

    async def run(self) -> None:
        """Poll until cancelled."""
        loop = asyncio.get_running_loop()
        polled = loop.time()
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                await self.poll()
            except Exception as error:  # noqa: BLE001 - whatever fails, cached data may be erased meanwhile.
                log.warning("erasure_poll_failed", error=type(error).__name__)
                if loop.time() - polled > _MAX_BLIND_SECONDS:
                    self._drop(None)
            else:
                polled = loop.time()

    async def poll(self) -> None:
        """Drop the tenants with an erasure that the last poll did not show."""
        erasures = await self._store.list_erasures()
        tenant_ids = [id_ for id_, times in erasures.items() if times - self._known.get(id_, Counter())]
        # Before the statements below, which may fail.
        for tenant_id in tenant_ids:
            self._drop(tenant_id)
        for tenant_id in tenant_ids:
            await self._store.delete_unused_terms(tenant_id)
        self._known = erasures

    def _drop(self, tenant_id: UUID | None) -> None:
        for cache in self._caches:
            cache.drop(tenant_id)
