"""Scans of memories in the order of a score or of the last update, from the index that has this order."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from uuid import UUID

from skein_kit.database.named_queries import Query, with_condition
from skein_kit.database.transactions import Transaction
from skein_kit.filters import scan_cost
from skein_kit.filters.compiler import ENTRIES, compile_to_sql
from skein_memory.listing.filter import Filter
from skein_memory.listing.order import MAX_COUNT, Order, PageCursor
from skein_memory.memories import oldest
from skein_memory.queries import QUERIES

# Memories that one call scans, matching or not; memories of one statement.
MAX_ROWS_SCANNED = 5000
_MAX_BATCH_SIZE = 1000
_GROWTH = 4
_QUERIES = {
    "update_time": "scan_by_update_time",
    "importance": "scan_by_importance",
    "confidence": "scan_by_confidence",
    "access_count": "scan_by_access_count",
}
_LOWEST_ID, _HIGHEST_ID = UUID(int=0), UUID(int=(1 << 128) - 1)
_HIGHEST: Mapping[str, datetime | float | int] = {
    "update_time": datetime.max.replace(tzinfo=UTC),
    "importance": math.inf,
    "confidence": math.inf,
    "access_count": MAX_COUNT,
}
_LOWEST: Mapping[str, datetime | float | int] = {
    "update_time": datetime.min.replace(tzinfo=UTC),
    "importance": -math.inf,
    "confidence": -math.inf,
    "access_count": 0,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class OrderedIds:
    """Cursors of matching memories, in order; `after` is the next cursor, None at the end."""

    cursors: list[PageCursor]
    after: PageCursor | None


async def find_ordered(
    tx: Transaction,
    tenant_id: UUID,
    filter_: Filter,
    order: Order,
    *,
    after: PageCursor | None,
    count: int,
    at: datetime,
) -> OrderedIds:
    """Find up to `count` matching memories after `after`; scan at most MAX_ROWS_SCANNED."""
    expression = filter_.condition(at)
    condition, cost_sql = compile_to_sql(expression, ENTRIES), scan_cost.scan_cost_sql(expression, ENTRIES)
    scans = tx.database.scan_buckets.begin(tenant_id) if cost_sql else None
    first_month = await oldest.first_month(tx, tenant_id) or _LOWEST_ID
    matches: list[PageCursor] = []
    remaining_rows, batch_size, last = MAX_ROWS_SCANNED, count + 1, after or _start_cursor(order)
    while remaining_rows > 0 and not (scans is not None and scans.is_exhausted):
        batch_size = min(batch_size, remaining_rows, _MAX_BATCH_SIZE)
        is_unread = _is_unread(order, last)
        query, values = scan_query(order, last, first_month)
        if scans is not None:
            query = scan_cost.with_scan_budget(query, cost_sql)
            values["scan_bytes"] = max(1, scans.remaining)
        statement = tx.rows(
            with_condition(query, condition.text), tenant_id=tenant_id, count=batch_size, **values, **condition.values
        )
        rows = await (statement if scans is None else scans.run_and_charge(statement))
        for row in rows:
            if row["passes"] is None or (row["passes"] and len(matches) == count):
                return OrderedIds(cursors=matches, after=last)
            last = PageCursor(memory_id=row["memory_id"], value=row["value"])
            if row["passes"]:
                matches.append(last)
        is_end = len(rows) < batch_size
        remaining_rows, batch_size = remaining_rows - max(1, len(rows)), batch_size * _GROWTH
        if is_end:
            next_cursor = _second_part_cursor(order, is_unread=is_unread)
            if next_cursor is None:
                return OrderedIds(cursors=matches, after=None)
            last = next_cursor
    return OrderedIds(cursors=matches, after=last)


def scan_query(order: Order, last: PageCursor, first_month: UUID) -> tuple[Query, dict[str, object]]:
    """Return the query that scans the memories after a cursor, without its condition, and its values.

    `first_month` is the lowest id of the first month with memories.
    """
    values: dict[str, object] = {"before_id": last.memory_id}
    if _is_unread(order, last):
        query = QUERIES["scan_never_accessed"]
    else:
        query = QUERIES[_QUERIES[order.column]]
        values["before_value"] = last.value
    if order.column != "access_count" or _is_unread(order, last):
        values["from_id"] = first_month
    return (query if order.is_descending else _ascending(query)), values


@lru_cache(maxsize=16)
def _ascending(query: Query) -> Query:
    """Return the same scan in the other direction, from the other end of the index."""
    text = query.text.replace(" DESC", "").replace(") < (", ") > (").replace("memory_id < ", "memory_id > ")
    return replace(query, text=text)


def _start_cursor(order: Order) -> PageCursor:
    """Return the cursor before all memories."""
    if order.is_descending:
        return PageCursor(memory_id=_HIGHEST_ID, value=_HIGHEST[order.column])
    return PageCursor(memory_id=_LOWEST_ID, value=_LOWEST[order.column])


def _is_unread(order: Order, cursor: PageCursor) -> bool:
    """Return whether the memories after a cursor have no accesses: ids alone order these."""
    if order.column != "access_count" or cursor.value != 0:
        return False
    return order.is_descending or cursor.memory_id != _HIGHEST_ID


def _second_part_cursor(order: Order, *, is_unread: bool) -> PageCursor | None:
    """Return the start of the second part of an order by accesses: memories with a count, or those without."""
    if order.column != "access_count" or is_unread == order.is_descending:
        return None
    return PageCursor(memory_id=_HIGHEST_ID, value=0)
