"""How a tenant's accesses become statements: few, few different ones, and what a call's rows share goes once. Pure."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from skein_kit.database.named_queries import Queries, grouped_insert, inline_rows
from skein_kit.ids import now, sequential_id_texts

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Sequence
    from uuid import UUID

    from skein_kit.access_log.event import AccessEvent
    from skein_kit.database.named_queries import Query

_QUERIES = Queries.load("skein_kit")
_INSERT, _COUNT = _QUERIES["insert_accesses"], _QUERIES["count_accesses"]
# An access's id and its memory.
_ROW_COLUMNS = 2
_shared = attrgetter(*_INSERT.parameters[1 + _ROW_COLUMNS :])
# So many rows of a call are one group, and of more these numbers; so many groups, and so many rows, are one statement.
# Each connection keeps a statement for each pair that occurs.
_FEW_ROWS, _MANY_ROWS = 16, (50, 20, 16)
_GROUPS = (16, 8, 4, 3, 2, 1)
_ROWS_AT_ONCE = 160
_USES_AT_ONCE = 500


def insert_statements(tenant_id: UUID, accesses: Sequence[AccessEvent]) -> Iterator[tuple[Query, dict[str, object]]]:
    """Yield the statements, with their values, that record what one tenant's calls touched."""
    groups: dict[int, list[list[object]]] = {}
    for access in accesses:
        shared, places = _shared(access), access.memory_ids_or_none
        ids, start = sequential_id_texts(access.create_time, len(places)), 0
        while start < len(places):
            size = _batch_size(len(places) - start)
            own = [value for at in range(start, start + size) for value in (ids[at], places[at])]
            groups.setdefault(size, []).append([*own, *shared])
            start += size
    for size, found in groups.items():
        start = 0
        while start < len(found):
            count = next(count for count in _GROUPS if count <= len(found) - start and count * size <= _max_batch(size))
            values = [value for group in found[start : start + count] for value in group]
            query = grouped_insert(_INSERT, _ROW_COLUMNS, count, size)
            yield query, dict(zip(query.parameters, (tenant_id, *values), strict=True))
            start += count


def use_count_statements(tenant_id: UUID, uses: Counter[str]) -> Iterator[str]:
    """Yield the statements that count uses of one tenant's memories, with their values: ids and numbers.

    They come in the order of ids, so that two services never wait for each other.
    """
    shared, rows = (tenant_id, now().isoformat()), sorted(uses.items())
    for start in range(0, len(rows), _USES_AT_ONCE):
        yield inline_rows(_COUNT, shared, rows[start : start + _USES_AT_ONCE])


def _batch_size(rows: int) -> int:
    return rows if rows <= _FEW_ROWS else next(many for many in _MANY_ROWS if many <= rows)


def _max_batch(size: int) -> int:
    return max(size, _ROWS_AT_ONCE)
