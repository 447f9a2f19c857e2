"""The monthly partitions of messages, for all tenants: made once, remembered for the life of the process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from skein_kit.errors import TransactionConflict
from skein_kit.sql import Queries

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from skein_kit.database import Database

_QUERIES = Queries.of("skein_session")
# Making a partition locks the tables that it refers to, and may lose against appends that hold some of them already.
_ATTEMPTS = 5


class Months:
    """The months that are known to have a partition."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: set[datetime] = set()
        self._one_at_a_time = asyncio.Lock()

    async def ensure(self, months: Iterable[datetime], *, whatever_is_known: bool = False) -> int:
        """Make the partitions that are missing, each in a transaction of its own; return how many were.

        `whatever_is_known`: look even for those that were there before.
        """
        wanted = set(months)
        if whatever_is_known:
            self._known -= wanted
        missing = sorted(wanted - self._known)
        if not missing:
            return 0
        made = 0
        async with self._one_at_a_time:
            for month in missing:
                if month not in self._known:
                    made += await self._make(month)
                    self._known.add(month)
        return made

    async def _make(self, month: datetime) -> bool:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                async with self._database.shared() as tx:
                    return bool(await tx.value(_QUERIES["ensure_month"], month=month))
            except TransactionConflict:
                if attempt == _ATTEMPTS:
                    raise
        return False
