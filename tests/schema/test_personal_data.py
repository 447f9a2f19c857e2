"""Every column that can hold something of a person is classified: it goes with the person, or stays for a reason."""

from __future__ import annotations

from typing import TypeAlias

import asyncpg
from fix_personal import ERASED, KEPT

Catalog: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
# Numbers, times, switches and the UUIDs that services make.
HARMLESS = (
    "uuid", "bigint", "integer", "smallint", "boolean", "double precision", "timestamp with time zone",
)  # fmt: skip
COLUMNS = """
    SELECT n.nspname || '.' || c.relname AS name, array_agg(a.attname::text) AS columns
    FROM pg_class AS c
    JOIN pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relkind IN ('r', 'p', 'm') AND NOT c.relispartition
        AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
        AND format_type(a.atttypid, NULL) <> ALL ($1::text[])
    GROUP BY n.nspname, c.relname
"""


async def test_every_table_with_words_or_bytes_is_classified(catalog: Catalog) -> None:
    tables = {row["name"] for row in await catalog.fetch(COLUMNS, HARMLESS)}

    assert tables == ERASED | KEPT.keys()
    assert ERASED.isdisjoint(KEPT)


async def test_every_column_with_words_or_bytes_of_a_table_that_is_kept_is_classified(catalog: Catalog) -> None:
    columns = {row["name"]: set(row["columns"]) for row in await catalog.fetch(COLUMNS, HARMLESS)}

    assert {name: columns[name] for name in KEPT} == {name: set(listed.split()) for name, (_, listed) in KEPT.items()}


async def test_a_new_column_of_words_in_a_table_that_is_kept_is_seen(catalog: Catalog) -> None:
    transaction = catalog.transaction()
    await transaction.start()
    await catalog.execute("ALTER TABLE memory.usage ADD COLUMN nickname text")

    rows = await catalog.fetch(COLUMNS, HARMLESS)
    await transaction.rollback()

    assert next(set(row["columns"]) for row in rows if row["name"] == "memory.usage") == {"kind", "nickname"}
