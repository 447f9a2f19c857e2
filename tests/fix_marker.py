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
    tables = await connection.fetch(
        """
        SELECT n.nspname || '.' || c.relname AS name, array_agg(a.attname::text ORDER BY a.attnum) AS columns,
               array_agg(a.atttypid = 'bytea'::regtype ORDER BY a.attnum) AS are_bytes
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
        GROUP BY n.nspname, c.relname ORDER BY n.nspname, c.relname
        """
    )
    results = []
    for table, columns, are_bytes in tables:
        # Each table is read once for all of its columns.
        holds = ", ".join(
            "bool_or(position($1 IN " + (f"encode({column}, 'escape')" if is_bytes else f"{column}::text") + ") > 0)"
            for column, is_bytes in zip(columns, are_bytes, strict=True)
        )
        row = await connection.fetchrow(f"SELECT {holds} FROM {table}", marker)  # noqa: S608 - of the catalog.
        assert row is not None
        results += [f"{table}.{column}" for column, it_does in zip(columns, row, strict=True) if it_does]
    return results


def files_with(cluster: Cluster, marker: str) -> list[Path]:
    """Return the files of a cluster's cold storage that hold the marker."""
    return packed_files_with(Path(cluster.environment["SKEIN_DATA_DIR"]), marker)


def packed_files_with(folder: Path, marker: str) -> list[Path]:
    """Return the files of cold storage in a data folder that hold the marker."""
    return [file for file in folder.rglob("*.gz") if marker.encode() in gzip.decompress(file.read_bytes())]
