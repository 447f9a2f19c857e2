"""Rows of several tables, written together: where they are few they cost one round trip, not one for each table."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from skein_kit.database.named_queries import InsertPart, combine_inserts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    import asyncpg

    from skein_kit.database.named_queries import Query
    from skein_kit.database.transactions import Transaction

# Every combination of numbers of rows is a statement of its own, which each connection prepares once and keeps.
_FEW = 4


class InsertRows(NamedTuple):
    """Rows of one table for the query that inserts them; so many are few.

    In the `shared` parameters, the last ones of the query, all rows have what the first one has.
    """

    query: Query
    rows: Sequence[Mapping[str, object]]
    few: int = _FEW
    shared: tuple[str, ...] = ()

    @property
    def part(self) -> InsertPart:
        """Return what it is of a statement. Raises ValueError when the query's last parameters are others."""
        names = self.query.parameters
        if names[len(names) - len(self.shared) :] != self.shared:
            message = f"the last parameters of {self.query.name} are not {', '.join(self.shared)}"
            raise ValueError(message)
        return InsertPart(self.query, len(self.rows), len(self.shared))

    @property
    def values(self) -> list[object]:
        """Return the values of its part, in order."""
        own = self.query.parameters[1 : len(self.query.parameters) - len(self.shared)]
        values = [row[name] for row in self.rows for name in own]
        return [*values, *(self.rows[0][name] for name in self.shared)]


async def insert_batch(tx: Transaction, tenant_id: UUID, bundle: Sequence[InsertRows]) -> None:
    """Insert rows, each table after those that it refers to: the first few in one statement, the others in turn."""
    few, rest = _split_few(bundle)
    if len(few) > 1:
        query = combine_inserts(tuple(rows.part for rows in few))
        await tx.execute(query, **_values(query, tenant_id, few))
    else:
        rest = [*few, *rest]
    await _insert_each(tx, tenant_id, rest)


async def insert_batch_and_fetch(
    tx: Transaction, tenant_id: UUID, bundle: Sequence[InsertRows], query: Query, **values: object
) -> list[asyncpg.Record]:
    """Insert rows likewise, and on the way return what a query reads that knows nothing of them."""
    few, rest = _split_few(bundle)
    if few:
        query = combine_inserts(tuple(rows.part for rows in few), query)
        values = _values(query, tenant_id, few) | values
    found = await tx.rows(query, **values)
    await _insert_each(tx, tenant_id, rest)
    return found


def _split_few(bundle: Sequence[InsertRows]) -> tuple[list[InsertRows], list[InsertRows]]:
    there = [part for part in bundle if part.rows]
    few = list(takewhile(lambda part: len(part.rows) <= part.few, there))
    return few, there[len(few) :]


def _values(query: Query, tenant_id: UUID, few: Sequence[InsertRows]) -> dict[str, object]:
    values = [value for rows in few for value in rows.values]
    return dict(zip(query.parameters, (tenant_id, *values), strict=False))


async def _insert_each(tx: Transaction, tenant_id: UUID, rest: Sequence[InsertRows]) -> None:
    for part in rest:
        await tx.insert(part.query, tenant_id, part.rows)
