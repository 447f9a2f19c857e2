"""Finding memories in the order of what they are worth or of their last change, from the index that has that order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import UUID

from skein_kit.filtering import ENTRIES
from skein_kit.filtering.compiling import compiled
from skein_kit.sql import completed
from skein_memory.ordering import Order, Place
from skein_memory.store.queries import QUERIES

if TYPE_CHECKING:
    from skein_kit.database import Transaction
    from skein_memory.filters import Filter

# Memories that one call looks at, whether they pass or not, and those of one statement.
LOOKS = 5000
_MOST_AT_ONCE = 1000
_GROWTH = 4
_QUERIES = {"update_time": "walk_updated", "importance": "walk_important"}
_FIRST = {
    "update_time": Place(memory_id=UUID(int=(1 << 128) - 1), value=datetime.max.replace(tzinfo=UTC)),
    "importance": Place(memory_id=UUID(int=(1 << 128) - 1), value=math.inf),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Ordered:
    """Places of memories that pass, in order; `after` is where to go on, None when there is nothing more."""

    places: list[Place]
    after: Place | None


async def find_ordered(
    tx: Transaction, tenant_id: UUID, wanted: Filter, order: Order, *, after: Place | None, count: int, at: datetime
) -> Ordered:
    """Find up to `count` memories that pass after the one at `after`; look at LOOKS of them at most."""
    condition = compiled(wanted.condition(at), ENTRIES)
    query = completed(QUERIES[_QUERIES[order.column]], condition.text)
    passing: list[Place] = []
    looks, portion, last = LOOKS, count + 1, after or _FIRST[order.column]
    while looks > 0:
        portion = min(portion, looks, _MOST_AT_ONCE)
        looked = await tx.rows(
            query,
            tenant_id=tenant_id,
            before_value=last.value,
            before_id=last.memory_id,
            count=portion,
            **condition.values,
        )
        for row in looked:
            if row["passes"] and len(passing) == count:
                return Ordered(places=passing, after=last)
            last = Place(memory_id=row["memory_id"], value=row["value"])
            if row["passes"]:
                passing.append(last)
        if len(looked) < portion:
            return Ordered(places=passing, after=None)
        looks, portion = looks - len(looked), portion * _GROWTH
    return Ordered(places=passing, after=last)
