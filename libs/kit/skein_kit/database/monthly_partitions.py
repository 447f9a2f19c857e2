"""The monthly partitions of a table, for all tenants: created before the first row of a month."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime
from functools import partial

from skein_kit.database.named_queries import Query
from skein_kit.database.transactions import Database, retry_conflicts
from skein_kit.ids import add_months, month_start

# Creating a partition locks the tables that it refers to, which may deadlock with writes that have locked some of them.
_ATTEMPTS, _PAUSE_SECONDS = 10, 0.1
# Citus looks for deadlocks every two seconds, and ends the younger transaction: a caller's write.
_CITUS_LOCK_MILLISECONDS = 500


class MonthlyPartitions:
    """Creates partitions, and remembers the months that have one."""

    def __init__(self, database: Database, ensure_month: Query) -> None:
        """`ensure_month` creates the partition of its :month, and returns whether it was missing."""
        self._database = database
        self._ensure_month = ensure_month
        self._existing_months: set[datetime] = set()
        self._lock = asyncio.Lock()

    async def ensure(self, times: Iterable[datetime]) -> int:
        """Create the partitions of these times' months; return how many were missing.

        Each is created in a transaction of its own, which must be short and have no other locks. Raises
        TransactionConflict.
        """
        missing_months = sorted({month_start(time) for time in times} - self._existing_months)
        if not missing_months:
            return 0
        created_count = 0
        async with self._lock:
            for month in missing_months:
                if month not in self._existing_months:
                    created_count += await retry_conflicts(
                        partial(self._create, month), attempts=_ATTEMPTS, pause_seconds=_PAUSE_SECONDS
                    )
                    self._existing_months.add(month)
        return created_count

    async def ensure_ahead(self, at: datetime, count: int) -> tuple[int, datetime]:
        """Create the partitions of this month and the next `count` months, also those that were seen before.

        Return how many were missing, and the end of the last one.
        """
        first = month_start(at)
        months = [add_months(first, offset) for offset in range(count + 1)]
        self._existing_months.difference_update(months)
        return await self.ensure(months), add_months(first, count + 1)

    async def _create(self, month: datetime) -> bool:
        # On Citus the workers wait for locks as well, and there the limit of the function does not count.
        settings = f"; SET LOCAL lock_timeout = {_CITUS_LOCK_MILLISECONDS}" if self._database.is_citus else ""
        async with self._database.begin_with_settings(settings) as tx:
            return bool(await tx.value(self._ensure_month, month=month))
