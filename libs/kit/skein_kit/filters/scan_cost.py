"""What a condition costs for a row, in bytes scanned, and statements that stop before they cost more than a budget."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from skein_kit.database.named_queries import CONDITION
from skein_kit.filters.expression import And, Compare, Contains, Expression, In, Not, Or, Tags

if TYPE_CHECKING:
    from skein_kit.database.named_queries import Query
    from skein_kit.filters.compiler import FilterTable

# The fields whose values may be long, and the bytes of one as the database can tell them without reading it. A large
# JSON is stored compressed: its stored size counts several times.
_SIZES = {
    "content": "octet_length({})",
    "metadata": "4 * coalesce(pg_column_size({}), 0)",
    "data": "4 * coalesce(pg_column_size({}), 0)",
}
_PASSES = f"({CONDITION})"
# Their order decides which rows a budget reaches.
_ORDER = "ORDER BY "


def scan_cost_sql(condition: Expression | None, table: FilterTable) -> str:
    """Return SQL for the bytes that a condition scans of a row, at most; empty when it scans no long field."""
    counts: Counter[str] = Counter()
    if condition is not None:
        _count(condition, counts)
    parts = [f"{counts[name]} * {_SIZES[name].format(table.column(name))}" for name in sorted(counts)]
    return " + ".join(parts)


@lru_cache(maxsize=256)
def with_scan_budget(query: Query, cost: str) -> Query:
    """Return a query that looks at rows in order, its condition still open, with a budget of :scan_bytes.

    `passes` is null for a row that the budget did not reach, and for all after it; it always reaches the first one.
    `scan_cost_sql` is what was scanned of a row.
    """
    if query.text.count(_PASSES) != 1 or query.text.count(" AS passes") != 1 or _ORDER not in query.text:
        message = f"{query.name} does not say in an order of each row whether it passes"
        raise ValueError(message)
    order = query.text.rpartition(_ORDER)[2].partition("LIMIT")[0].strip()
    so_far = f"sum({cost}) OVER (ORDER BY {order} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    position = len(query.parameters) + 1
    guarded = f"(CASE WHEN {so_far} - ({cost}) < ${position}::bigint THEN ({CONDITION}) END)"
    text = query.text.replace(_PASSES, guarded).replace(" AS passes", f" AS passes, ({cost})::bigint AS cost")
    return replace(query, text=text, parameters=(*query.parameters, "scan_bytes"))


def _count(condition: Expression, counts: Counter[str]) -> None:
    match condition:
        case And(parts) | Or(parts):
            for part in parts:
                _count(part, counts)
        case Not(part):
            _count(part, counts)
        case Tags():
            return
        case Contains(path, _) | Compare(path, _, _):
            _add(path[0], 1, counts)
        case In(path, values):
            _add(path[0], len(values), counts)
        case _:
            # Whether a text is set is seen without reading it; a property has to be looked for.
            if len(condition.path) > 1:
                _add(condition.path[0], 1, counts)


def _add(name: str, times: int, counts: Counter[str]) -> None:
    if name in _SIZES:
        counts[name] += times
