"""The plans of what is asked about tasks, levels and secrets, as the service's role sees them: read from indexes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import asyncpg
from fix_database import TestDatabase

from skein_kit.ids import new_id, now
from skein_memory.queries import QUERIES

TENANT = UUID(int=1)
# Two tenants with memories of all levels, half of them tasks. Without the checks of foreign keys.
FILL = """
    SET session_replication_role = replica;
    INSERT INTO memory.memories
        (tenant_id, memory_id, type, content, scope, level, confidence, importance, content_hash, create_time,
         update_time, created_by, updated_by)
    SELECT lpad(to_hex(1 + n % 2), 32, '0')::uuid,
           (lpad(to_hex((extract(epoch FROM now() - n * interval '1 minute') * 1000)::bigint), 12, '0') || '7'
            || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid,
           'task', 'text', 'global', (ARRAY['strategic', 'tactical', 'operational', 'contextual'])[1 + n / 7 % 4], 0.7,
           (n % 997) / 997.0, '', now(), now(), 'test', 'test'
    FROM generate_series(1, 10000) AS n;
    INSERT INTO memory.tasks (tenant_id, memory_id, kind, status, due_time, objective_id, importance, update_time)
    SELECT tenant_id, memory_id, 'task',
           (ARRAY['open', 'in_progress', 'done', 'cancelled'])[1 + row_number() OVER () % 4],
           now() + random() * interval '9 days',
           lpad(to_hex(row_number() OVER () % 100), 32, '0')::uuid, importance,
           now() - random() * interval '90 days'
    FROM memory.memories;
    INSERT INTO memory.secrets (tenant_id, memory_id, key_id, nonce, ciphertext, update_time)
    SELECT tenant_id, memory_id, memory_id, '', '', now() FROM memory.memories;
    ANALYZE memory.memories, memory.tasks, memory.secrets;
"""


async def plan(connection: asyncpg.Connection[asyncpg.Record], name: str, **values: Any) -> str:
    """Return the plan of a query; conditions that are not given are null."""
    query = QUERIES[name]
    bound = query.bind(dict.fromkeys(query.arguments) | {"tenant_id": TENANT} | values)
    return "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN {query.text}", *bound))


async def test_queries_of_tasks_levels_and_secrets_use_an_index(database: TestDatabase) -> None:
    some = new_id(now())
    async with database.superuser() as superuser:
        await superuser.execute(FILL)
    async with database.role("memory") as connection:
        await connection.execute(f"SET skein.tenant_id = '{TENANT}'")
        await connection.execute("SET enable_seqscan = off")
        tasks = {"kind": "task", "before_id": some, "count": 51}
        plans = [
            (
                await plan(connection, "list_over_capacity", level="tactical", capacity=500, count=100),
                "tenant_id_level",
            ),
            (await plan(connection, "list_least_important", importance=0.5, count=10), "tenant_id_level"),
            (await plan(connection, "list_tasks", **tasks, statuses=["open"]), "on tasks"),
            (await plan(connection, "list_tasks", **tasks, objective_id=UUID(int=5)), "tasks_objective"),
            (await plan(connection, "list_next_tasks", count=200), "tasks_importance"),
            (await plan(connection, "list_next_tasks", count=200), "tasks_due_time"),
            (await plan(connection, "list_next_tasks", count=200), "tasks_update_time"),
            (await plan(connection, "list_older_secrets", key_id=some, count=500), "secrets_key"),
            (await plan(connection, "get_secret", memory_id=some), "secrets_pkey"),
        ]

    for text, index in plans:
        assert "Seq Scan" not in text, text
        assert index in text, text
