"""Inserts into several tables: a few rows take one round trip together, not one per table."""

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

# Each combination of numbers of rows is a statement of its own, which each connection prepares once and keeps.
_FEW = 4


class InsertRows(NamedTuple):
    """Rows of one table and the query that inserts them; up to `single_statement_rows` rows join the single statement.

    `shared_parameters` names the last parameters of the query, whose values all rows take from the first one.
    """

    query: Query
    rows: Sequence[Mapping[str, object]]
    single_statement_rows: int = _FEW
    shared_parameters: tuple[str, ...] = ()

    @property
    def part(self) -> InsertPart:
        """The part of a combined statement. Raises ValueError unless `shared_parameters` are the query's last ones."""
        names = self.query.parameters
        if names[len(names) - len(self.shared_parameters) :] != self.shared_parameters:
            message = f"the last parameters of {self.query.name} are not {', '.join(self.shared_parameters)}"
            raise ValueError(message)
        return InsertPart(self.query, len(self.rows), len(self.shared_parameters))

    @property
    def values(self) -> list[object]:
        """The values of the part, in order."""
        own = self.query.parameters[1 : len(self.query.parameters) - len(self.shared_parameters)]
        values = [row[name] for row in self.rows for name in own]
        return [*values, *(self.rows[0][name] for name in self.shared_parameters)]


async def insert_batch(tx: Transaction, tenant_id: UUID, tables: Sequence[InsertRows]) -> None:
    """Insert rows in the given order of tables: the first small ones in one statement, then the others one by one."""
    few, rest = _split_few(tables)
    if len(few) > 1:
        query = combine_inserts(tuple(rows.part for rows in few))
        await tx.execute(query, **_values(query, tenant_id, few))
    else:
        rest = [*few, *rest]
    await _insert_each(tx, tenant_id, rest)


async def insert_batch_and_fetch(
    tx: Transaction, tenant_id: UUID, tables: Sequence[InsertRows], query: Query, **values: object
) -> list[asyncpg.Record]:
    """Insert rows as `insert_batch` does, and return the rows of a query that does not depend on them."""
    few, rest = _split_few(tables)
    if few:
        query = combine_inserts(tuple(rows.part for rows in few), query)
        values = _values(query, tenant_id, few) | values
    fetched = await tx.rows(query, **values)
    await _insert_each(tx, tenant_id, rest)
    return fetched


def _split_few(tables: Sequence[InsertRows]) -> tuple[list[InsertRows], list[InsertRows]]:
    nonempty = [part for part in tables if part.rows]
    few = list(takewhile(lambda part: len(part.rows) <= part.single_statement_rows, nonempty))
    return few, nonempty[len(few) :]


def _values(query: Query, tenant_id: UUID, few: Sequence[InsertRows]) -> dict[str, object]:
    values = [value for rows in few for value in rows.values]
    return dict(zip(query.parameters, (tenant_id, *values), strict=False))


async def _insert_each(tx: Transaction, tenant_id: UUID, rest: Sequence[InsertRows]) -> None:
    for part in rest:
        await tx.insert(part.query, tenant_id, part.rows)
