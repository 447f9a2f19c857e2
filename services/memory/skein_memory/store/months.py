"""The partitions that memories lie in, one for each month."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.ids import month_of, months_later
from skein_memory.store.queries import QUERIES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from skein_kit.database import Database


class Months:
    """Makes partitions before they are needed, and remembers which are there."""

    def __init__(self, database: Database) -> None:
        """Know of none yet."""
        self._database = database
        self._known: set[datetime] = set()

    async def ensure(self, times: Iterable[datetime]) -> int:
        """Make the partitions of these times' months; return how many were missing.

        Each is made in a transaction of its own: it locks the tables that refer to memories, so it must be short and
        must hold nothing else.
        """
        created = 0
        for month in sorted({month_of(time) for time in times} - self._known):
            async with self._database.shared() as tx:
                created += bool(await tx.value(QUERIES["ensure_month"], month=month))
            self._known.add(month)
        return created

    async def ensure_ahead(self, at: datetime, count: int) -> tuple[int, datetime]:
        """Make the partitions of this month and the next `count`, whatever is remembered of them.

        Return how many were missing, and the end of the last.
        """
        first = month_of(at)
        months = [months_later(first, ahead) for ahead in range(count + 1)]
        self._known.difference_update(months)
        return await self.ensure(months), months_later(first, count + 1)
