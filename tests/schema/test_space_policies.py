"""What has a space is hidden by it, and cannot be written without one."""

from __future__ import annotations

from typing import TypeAlias

import asyncpg
from fix_space_tables import SPACE_TABLES

Catalog: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


async def test_what_has_a_space_is_hidden_by_it(catalog: Catalog) -> None:
    rows = await catalog.fetch(
        """
        SELECT c.oid::regclass::text AS name, a.attnotnull, pg_get_expr(d.adbin, d.adrelid) AS default
        FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'space_id'
        LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname !~ '^space'
        """
    )

    assert {row["name"] for row in rows} == SPACE_TABLES
    # Who forgets the space of a row cannot write it where several are seen.
    assert all(row["attnotnull"] for row in rows)
    with_default = {row["name"] for row in rows if row["default"] == "skein.space_id()"}
    assert with_default == SPACE_TABLES - {"recall.documents_history"}
