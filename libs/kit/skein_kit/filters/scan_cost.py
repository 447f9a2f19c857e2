"""The cost of a condition for a row, in bytes that it scans, and queries that stop at a budget of bytes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache

from skein_kit.database.named_queries import CONDITION, Query
from skein_kit.filters.compiler import FilterTable
from skein_kit.filters.expression import And, Compare, Contains, Expression, In, Not, Or, Tags

# Fields with long values, and SQL for the bytes of a value that the database computes without reading it. Large JSON is
# stored compressed, so its stored size counts several times.
_SIZES = {
    "content": "octet_length({})",
    "metadata": "4 * coalesce(pg_column_size({}), 0)",
    "data": "4 * coalesce(pg_column_size({}), 0)",
}
_PASSES = f"({CONDITION})"
# The order of the rows decides which of them a budget reaches.
_ORDER = "ORDER BY "


def scan_cost_sql(condition: Expression | None, table: FilterTable) -> str:
    """Return SQL for the most bytes of a row that a condition scans; empty when it scans no long field."""
    counts: Counter[str] = Counter()
    if condition is not None:
        _count(condition, counts)
    parts = [f"{counts[name]} * {_SIZES[name].format(table.column(name))}" for name in sorted(counts)]
    return " + ".join(parts)


@lru_cache(maxsize=256)
def with_scan_budget(query: Query, cost: str) -> Query:
    """Return a query with its {condition} still open that stops evaluating it at :scan_bytes.

    The budget reaches at least the first row. `passes` is null for rows that it does not reach. The column `cost` has
    the bytes of a row, as `cost` (from scan_cost_sql) computes them. Raises ValueError for a query of another form.
    """
    if query.text.count(_PASSES) != 1 or query.text.count(" AS passes") != 1 or _ORDER not in query.text:
        message = f"{query.name} does not return `passes` for each row in an order"
        raise ValueError(message)
    order = query.text.rpartition(_ORDER)[2].partition("LIMIT")[0].strip()
    total = f"sum({cost}) OVER (ORDER BY {order} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    position = len(query.parameters) + 1
    guarded_condition = f"(CASE WHEN {total} - ({cost}) < ${position}::bigint THEN ({CONDITION}) END)"
    text = query.text.replace(_PASSES, guarded_condition).replace(" AS passes", f" AS passes, ({cost})::bigint AS cost")
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
            # The database knows whether a text is set without reading it; it must search for a property.
            if len(condition.path) > 1:
                _add(condition.path[0], 1, counts)


def _add(name: str, times: int, counts: Counter[str]) -> None:
    if name in _SIZES:
        counts[name] += times
