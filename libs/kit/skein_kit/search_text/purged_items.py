"""Counts of purged memories and messages, for answers as of a time: what was known then is not shown, but counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Transaction
from skein_kit.ids import new_id

_QUERY = Queries.load("skein_kit")["insert_purged_items"]


async def record_purge(tx: Transaction, tenant_id: UUID, known_times: Iterable[datetime], *, at: datetime) -> None:
    """Record the purge of items at the time `at`, each by when it had become known."""
    purge_id = new_id(at)
    rows: list[dict[str, object]] = [
        {"purge_time": at, "purge_id": purge_id, "known_time": known_time, "item_count": count}
        for known_time, count in sorted(Counter(known_times).items())
    ]
    await tx.insert(_QUERY, tenant_id, rows)
