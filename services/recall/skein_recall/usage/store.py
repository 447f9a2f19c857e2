"""Counts of searches in the database."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from uuid import UUID

import asyncpg

from skein_kit.database.transactions import Database
from skein_kit.database.tx_options import TxOptions
from skein_recall.queries import QUERIES
from skein_recall.usage.model import Counts

# Days that are kept.
KEPT_DAYS = 400


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
