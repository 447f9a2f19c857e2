"""Monthly partitions: created ahead, and dropped from the access log."""

from __future__ import annotations

from datetime import datetime

from skein_kit.database.monthly_partitions import MonthlyPartitions
from skein_kit.ids import add_months, month_start
from skein_memory.access_log.store import AccessLogStore


class Partitions:
    """The partitions of all tables by month."""

    def __init__(self, months: MonthlyPartitions, *, access_log: AccessLogStore, access_log_months: int) -> None:
        """Keep `access_log_months` months of the access log; 0 keeps all."""
        self._months = months
        self._access_log = access_log
        self._access_log_months = access_log_months

    async def ensure_ahead(self, at: datetime, months: int) -> tuple[int, datetime]:
        """Create the partitions of the next months, and drop old ones of the access log.

        Return how many were created, and the time up to which partitions exist.
        """
        created_count, horizon = await self._months.ensure_ahead(at, months)
        if self._access_log_months:
            await self._access_log.drop_before(add_months(month_start(at), -self._access_log_months))
        return created_count, horizon
