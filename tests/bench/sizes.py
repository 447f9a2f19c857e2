"""What a database takes on disk, by table, for each entry in it."""

from __future__ import annotations

from typing import Any

import asyncpg

# Tables with their partitions, indexes and side tables, largest first.
_TABLES = """
    SELECT c.relnamespace::regnamespace::text || '.' || c.relname AS name, CASE c.relkind
        WHEN 'r' THEN pg_total_relation_size(c.oid)
        ELSE (SELECT coalesce(sum(pg_total_relation_size(part.relid)), 0) FROM pg_partition_tree(c.oid) AS part)
    END::bigint AS bytes
    FROM pg_class AS c
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
        AND c.relnamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema')
    ORDER BY bytes DESC
    LIMIT 8
"""
_NAMED_BYTES = 10
_WHOLE = "SELECT pg_database_size(current_database())"


async def whole(database_url: str) -> int:
    """Return the bytes of the database."""
    connection = await asyncpg.connect(database_url)
    try:
        return int(await connection.fetchval(_WHOLE))
    finally:
        await connection.close()


async def per_entry(database_url: str, entries: int, *, empty: int) -> dict[str, Any]:
    """Return bytes for each entry: of the database beyond what it had `empty`, and of the tables that take some."""
    grown = await whole(database_url) - empty
    connection = await asyncpg.connect(database_url)
    try:
        tables = await connection.fetch(_TABLES)
    finally:
        await connection.close()
    named = {row["name"]: round(row["bytes"] / entries) for row in tables}
    return {
        "bytes_per_entry": round(grown / entries),
        "bytes_per_entry_by_table": {name: size for name, size in named.items() if size >= _NAMED_BYTES},
    }
