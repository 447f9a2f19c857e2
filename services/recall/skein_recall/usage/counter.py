"""Counts the searches of this process, and adds the counts to the database in the background.

Counts hold no word of a query and no id beside the tenant's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import date, datetime
from typing import Self
from uuid import UUID

import asyncpg

from skein_kit import canary
from skein_kit.background import background_tasks
from skein_kit.errors import RpcError
from skein_kit.telemetry import logs
from skein_recall.usage.store import Counts, SearchCountStore, range_of

FLUSH_SECONDS = 10.0
_STOP_SECONDS = 5.0
# Tenants whose counts wait; the counts of others are lost until these are stored.
_MAX_TENANTS = 10_000

log = logs.get("recall")


class SearchCounter:
    """The counts of one process that wait to be stored."""

    def __init__(self, store: SearchCountStore) -> None:
        """Add to `store`."""
        self._store = store
        self._counts: dict[UUID, dict[tuple[date, int], Counts]] = {}
        self._has_counts = asyncio.Event()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Self]:
        """Store counts while the block runs, and the waiting ones when it ends."""
        async with background_tasks(search_counts=self._write_forever):
            yield self
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await self.flush()

    def add(self, tenant_id: UUID, at: datetime, milliseconds: float, *, is_unanswered: bool) -> None:
        """Count a search."""
        if tenant_id in canary.CANARY_TENANT_IDS:
            return
        if tenant_id not in self._counts and len(self._counts) >= _MAX_TENANTS:
            return
        self._add(tenant_id, {(at.date(), range_of(milliseconds)): Counts(searches=1, unanswered=int(is_unanswered))})
        self._has_counts.set()

    async def flush(self, tenant_id: UUID | None = None) -> None:
        """Store the waiting counts, of one tenant if given. What cannot be stored waits again."""
        for counted_id in [tenant_id] if tenant_id is not None else list(self._counts):
            counts = self._counts.pop(counted_id, None)
            if counts is None:
                continue
            try:
                await self._store.add(counted_id, counts)
            except asyncpg.ForeignKeyViolationError:
                # The tenant was purged.
                continue
            except (RpcError, asyncpg.PostgresError) as error:
                self._add(counted_id, counts)
                log.warning("search_counts_not_stored", tenant_id=str(counted_id), error=type(error).__name__)
            except asyncio.CancelledError:
                self._add(counted_id, counts)
                raise

    async def _write_forever(self) -> None:
        while True:
            await self._has_counts.wait()
            self._has_counts.clear()
            await asyncio.sleep(FLUSH_SECONDS)
            await self.flush()
            if self._counts:
                self._has_counts.set()

    def _add(self, tenant_id: UUID, counts: dict[tuple[date, int], Counts]) -> None:
        of_tenant = self._counts.setdefault(tenant_id, {})
        for key, count in counts.items():
            of_tenant.setdefault(key, Counts()).add(count)
