"""Former versions of memories, written past the services, which write one in a statement of its own."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import asyncpg


async def add_former_versions(url: str, versions: int) -> datetime:
    """Give each memory as many versions of its text, a second each, if it has one; return a time of the middle one.

    `url` is the superuser's. Documents, postings and vectors have the same versions.
    """
    connection = await asyncpg.connect(url)
    try:
        vectors = await connection.fetchval("SELECT table_name FROM recall.embedding_models WHERE active")
        if not await connection.fetchval("SELECT EXISTS (SELECT FROM memory.versions)"):
            start = await connection.fetchval("SELECT max(record_time) FROM recall.documents")
            # The times are written, so the triggers that keep former rows must not run.
            await connection.execute("SET session_replication_role = replica")
            for schema, table, history in (
                ("recall", "documents", "documents_history"),
                ("recall", "postings", "postings_history"),
                ("recall", vectors, f"{vectors}_history"),
                ("memory", "memories", "versions"),
            ):
                await _add_versions(connection, schema, table, history, start, versions)
            await connection.execute("VACUUM (ANALYZE)")
        known_time: datetime = await connection.fetchval("SELECT max(record_time) FROM recall.documents")
        return known_time - timedelta(seconds=versions // 2 - 0.5)
    finally:
        await connection.close()


async def _add_versions(
    connection: asyncpg.Connection[Any], schema: str, table: str, history: str, start: datetime, versions: int
) -> None:
    shared = await connection.fetch(
        """
        SELECT column_name::text AS name FROM information_schema.columns
        WHERE table_schema = $1 AND table_name = $2 AND is_generated = 'NEVER'
        INTERSECT
        SELECT column_name::text FROM information_schema.columns WHERE table_schema = $1 AND table_name = $3
        """,
        schema,
        table,
        history,
    )
    names = [row["name"] for row in shared]
    tags = {"tags": "'{}'"} if schema == "memory" else {}
    for number in range(1, versions):
        first = number == 1
        former = {
            "revision": str(number),
            "record_time": "t.record_time" if first else f"$1::timestamptz + interval '{number - 1} s'",
        }
        values = {name: former.get(name, f"t.{name}") for name in names}
        values |= {"until_time": f"$1::timestamptz + interval '{number} s'", **tags}
        statement = (
            f"INSERT INTO {schema}.{history} ({', '.join(values)}) "  # noqa: S608 - the names are the catalog's.
            f"SELECT {', '.join(values.values())} FROM {schema}.{table} AS t"
        )
        await connection.execute(statement, start)
    revision = f", revision = {versions}" if "revision" in names else ""
    record_time = f"$1::timestamptz + interval '{versions - 1} s'"
    await connection.execute(f"UPDATE {schema}.{table} SET record_time = {record_time}{revision}", start)  # noqa: S608
