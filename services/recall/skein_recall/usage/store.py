"""Counts of searches in the database, by day and by range of their durations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from uuid import UUID

import asyncpg

from skein_kit.database.transactions import Database
from skein_kit.database.tx_options import TxOptions
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
