"""Where in the whole system a word is: in which columns of the database, and in which files of cold storage."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncpg
    from fix_cluster import Cluster

    Connection = asyncpg.Connection[asyncpg.Record]


async def places_of(connection: Connection, marker: str) -> list[str]:
    """Return every column of the database that holds the marker, in whatever form."""
    columns = await connection.fetch(
        """
        SELECT n.nspname || '.' || c.relname AS table_name, a.attname, a.atttypid = 'bytea'::regtype AS is_bytes
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
        """
    )
    found = []
    for table, column, is_bytes in columns:
        text = f"encode({column}, 'escape')" if is_bytes else f"{column}::text"
        query = f"SELECT EXISTS (SELECT FROM {table} WHERE position($1 IN {text}) > 0)"  # noqa: S608 - of the catalog.
        if await connection.fetchval(query, marker):
            found.append(f"{table}.{column}")
    return found


def files_with(cluster: Cluster, marker: str) -> list[Path]:
    """Return the files of cold storage that hold the marker."""
    files = Path(cluster.environment["SKEIN_DATA_DIR"]).rglob("*.gz")
    return [file for file in files if marker.encode() in gzip.decompress(file.read_bytes())]
