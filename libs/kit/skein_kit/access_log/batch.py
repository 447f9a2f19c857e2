"""The statements that write the access events of a tenant. Pure.

They are few, and of few forms, because each connection prepares each form. A call binds the values that its rows share
once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from operator import attrgetter
from uuid import UUID

from skein_kit.access_log.event import AccessEvent
from skein_kit.database.named_queries import Queries, Query, grouped_insert, inline_rows
from skein_kit.ids import now, sequential_id_texts

_QUERIES = Queries.load("skein_kit")
_INSERT, _COUNT = _QUERIES["insert_accesses"], _QUERIES["count_accesses"]
# The access id and the memory id.
_ROW_COLUMNS = 2
_shared = attrgetter(*_INSERT.parameters[1 + _ROW_COLUMNS :])
# Rows of one call form groups: a group has any number of rows up to _FEW_ROWS, or one of _MANY_ROWS. A statement
# has one of _GROUPS groups. Each connection prepares a statement for each pair that occurs.
_FEW_ROWS, _MANY_ROWS = 16, (50, 20, 16)
_GROUPS = (16, 8, 4, 3, 2, 1)
_ROWS_AT_ONCE = 160
_USES_AT_ONCE = 500


def insert_statements(tenant_id: UUID, accesses: Sequence[AccessEvent]) -> Iterator[tuple[Query, dict[str, object]]]:
    """Yield the statements, with their values, that insert the access events of a tenant."""
    groups: dict[int, list[list[object]]] = {}
    for access in accesses:
        shared, memory_ids = _shared(access), access.memory_ids_or_none
        ids, start = sequential_id_texts(access.create_time, len(memory_ids)), 0
        while start < len(memory_ids):
            size = _group_size(len(memory_ids) - start)
            row_values = [value for index in range(start, start + size) for value in (ids[index], memory_ids[index])]
            groups.setdefault(size, []).append([*row_values, *shared])
            start += size
    for size, groups_of_size in groups.items():
        start, max_rows = 0, max(size, _ROWS_AT_ONCE)
        while start < len(groups_of_size):
            count = next(
                count for count in _GROUPS if count <= len(groups_of_size) - start and count * size <= max_rows
            )
            values = [value for group in groups_of_size[start : start + count] for value in group]
            query = grouped_insert(_INSERT, _ROW_COLUMNS, count, size)
            yield query, dict(zip(query.parameters, (tenant_id, *values), strict=True))
            start += count


def use_count_statements(tenant_id: UUID, uses: Counter[str]) -> Iterator[str]:
    """Yield the statements that count uses of a tenant's memories, with their values inlined: ids and numbers.

    The rows are in the order of ids, so that two services do not deadlock.
    """
    shared, rows = (tenant_id, now().isoformat()), sorted(uses.items())
    for start in range(0, len(rows), _USES_AT_ONCE):
        yield inline_rows(_COUNT, shared, rows[start : start + _USES_AT_ONCE])


def _group_size(rows: int) -> int:
    return rows if rows <= _FEW_ROWS else next(size for size in _MANY_ROWS if size <= rows)
