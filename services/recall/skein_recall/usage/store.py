"""Counts of searches, by day and by range of their durations: in this process, and in the database soon after.

Counts hold no word of a query and no id beside the tenant's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Self
from uuid import UUID

import asyncpg

from skein_kit import canary
from skein_kit.background import background_tasks
from skein_kit.database.transactions import Database
from skein_kit.database.tx_options import TxOptions
from skein_kit.errors import RpcError
from skein_kit.telemetry import logs
from skein_recall.queries import QUERIES

# Days that are kept.
KEPT_DAYS = 400
# The ends of the ranges, in milliseconds; LONGER is the range of all longer ones.
LIMITS = (5, 10, 20, 50, 100, 200, 500, 1000, 5000)
LONGER = 0


class SearchCountStore:
    """Adds to and reads the counts of tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, tenant_id: UUID, counts: Mapping[tuple[date, int], Counts]) -> None:
        """Add counts by day and duration."""
        # Processes that add at the same time lock the rows in this order.
        keys = sorted(counts)
        rows = [
            {
                "day": day,
                "max_milliseconds": limit,
                "search_count": counts[day, limit].searches,
                "unanswered_count": counts[day, limit].unanswered,
            }
            for day, limit in keys
        ]
        before = keys[-1][0] - timedelta(days=KEPT_DAYS)
        async with self._database.transaction(tenant_id, TxOptions(durable=False, plan_once=True)) as tx:
            await tx.execute(QUERIES["drop_search_counts"], tenant_id=tenant_id, before=before)
            await tx.insert(QUERIES["add_search_counts"], tenant_id, rows)

    async def list_counts(self, tenant_id: UUID, *, first_day: date, last_day: date) -> list[asyncpg.Record]:
        """Read the counts from a day through another, in order."""
        async with self._database.transaction(tenant_id, TxOptions(read_only=True)) as tx:
            return await tx.rows(
                QUERIES["list_search_counts"], tenant_id=tenant_id, first_day=first_day, last_day=last_day
            )


@dataclass(slots=True)
class Counts:
    """Searches of one day whose durations are in one range."""

    searches: int = 0
    # Those of them without a hit.
    unanswered: int = 0

    def add(self, other: Counts) -> None:
        """Add the counts of another."""
        self.searches += other.searches
        self.unanswered += other.unanswered


def range_of(milliseconds: float) -> int:
    """Return the end of the range of a duration; LONGER beyond the last one."""
    return next((limit for limit in LIMITS if milliseconds <= limit), LONGER)


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
