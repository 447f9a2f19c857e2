"""The plans of reading the event log: an index leads to the place and no further than the page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from fix_database import TestDatabase

from skein_memory.queries import QUERIES

TENANT = UUID(int=1)
FILL = """
    SET session_replication_role = replica;
    INSERT INTO memory.changes
        (tenant_id, change_id, transaction, event_type, entity_type, entity_id, summary, principal, create_time)
    SELECT lpad(to_hex(1 + n % 5), 32, '0')::uuid, gen_random_uuid(), n / 5, 'memory_created', 'memory',
           'entity ' || n % 500, '', '', now()
    FROM generate_series(1, 20000) AS n;
    ANALYZE memory.changes;
"""


@pytest.fixture
async def connection(database: TestDatabase) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection of the service in a database of five tenants, whose transactions are all over."""
    async with database.superuser() as superuser:
        await superuser.execute(FILL)
    async with database.role("memory") as connection:
        await connection.execute(f"SET skein.tenant_id = '{TENANT}'")
        yield connection


@pytest.mark.parametrize(
    ("name", "index", "more"),
    [
        ("read_changes", "changes_position", {}),
        ("read_changes_of_entity", "changes_entity", {"entity_id": "entity 5"}),
        ("read_changes_back", "changes_position", {}),
        ("read_changes_of_entity_back", "changes_entity", {"entity_id": "entity 5"}),
    ],
)
async def test_the_log_is_read_from_a_place_by_an_index(
    connection: asyncpg.Connection[asyncpg.Record], name: str, index: str, more: dict[str, Any]
) -> None:
    query = QUERIES[name]
    values = query.bind(
        {
            "tenant_id": TENANT,
            "transaction": 3000 if name.endswith("_back") else 200,
            "change_id": UUID(int=0),
            "count": 50,
            "horizon": 1 << 40,
        }
        | more
    )

    rows = await connection.fetch(f"EXPLAIN (ANALYZE, BUFFERS OFF, COSTS OFF) {query.text}", *values)
    plan = "\n".join(row[0] for row in rows)

    assert index in plan
    assert "Seq Scan" not in plan
    compared = "<" if name.endswith("_back") else ">"
    assert f"ROW(transaction, change_id) {compared}" in plan.partition("Index Cond")[2].partition("\n")[0]
    assert "Rows Removed" not in plan
