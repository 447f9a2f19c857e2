"""A population of tenants: one through the gateway, and copies of its rows that are written past the services."""

from __future__ import annotations

import time
import uuid

import asyncpg
from bench.household import SeededTenant, settled
from bench.subject import Subject
from bench.ways import Material

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein_client.client import Client

_SEED = 22
_TIMEOUT = 60.0
# Entries of one call, and messages of one session.
_AT_ONCE = 20
# Copies of one statement, so that a transaction stays small.
_BATCH = 500
# Tables that are empty of tenants that rest, or that no copy can have.
_NOT_COPIED = frozenset(
    {
        "auth.legacy_tokens",
        "auth.requests",
        "memory.access_log",
        "memory.requests",
        "session.requests",
        "tenancy.requests",
    }
)


async def seed(subject: Subject, api_key: str, entries: int) -> SeededTenant:
    """Store so many entries in the tenant of an API key: memories, and as many messages in sessions."""
    material = Material((), _SEED)
    memory_ids: list[str] = []
    async with Client(endpoint=subject.addresses["gateway"], api_key=api_key, timeout=_TIMEOUT) as skein:
        me = await skein.auth.GetMe(auth_pb2.GetMeRequest())
        for start in range(0, entries // 2, _AT_ONCE):
            size = min(_AT_ONCE, entries // 2 - start)
            created = await skein.memories.BatchCreateMemories(
                memory_pb2.BatchCreateMemoriesRequest(memories=[material.memory() for _ in range(size)])
            )
            memory_ids += [memory.memory_id for memory in created.memories]
            await skein.sessions.AppendMessages(
                session_pb2.AppendMessagesRequest(
                    session_id=f"session-{start}",
                    messages=[material.message() for _ in range(size)],
                    create_session=True,
                )
            )
    await settled(subject)
    return SeededTenant(tenant_id=uuid.UUID(me.tenant_id), memory_ids=tuple(memory_ids))


async def copy_tenant(database_url: str, tenant_id: uuid.UUID, count: int) -> None:
    """Write `count` tenants with the rows of one, as the superuser: without checks of keys, policies and triggers."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("SET session_replication_role = replica; SET synchronous_commit = off")
        for schema in ("auth", "memory", "session", "tenancy"):
            # A tenant that rests is collected.
            await connection.execute(
                f"UPDATE {schema}.usage SET is_collected = true WHERE NOT is_collected"  # noqa: S608 - the names above.
            )
        await connection.execute(
            "INSERT INTO tenancy.collected_usage SELECT $1, 'tenants', 1, now() ON CONFLICT DO NOTHING", tenant_id
        )
        tables = await connection.fetch(_TABLES)
        for start in range(0, count, _BATCH):
            copies = [uuid.uuid4() for _ in range(min(_BATCH, count - start))]
            async with connection.transaction():
                for table_row in tables:
                    if table_row["name"] not in _NOT_COPIED:
                        await connection.execute(table_row["copy"], tenant_id, copies)
    finally:
        await connection.close()


async def create_months(database_url: str, months: int) -> float:
    """Create the partitions of the months before the present one; return the seconds that it took."""
    connection = await asyncpg.connect(database_url)
    try:
        started = time.perf_counter()
        for schema in ("memory", "session"):
            await connection.execute(
                f"SELECT {schema}.ensure_month(now() - make_interval(months => month))"  # noqa: S608 - the names above.
                " FROM generate_series(1, $1) AS month",
                months,
            )
        return time.perf_counter() - started
    finally:
        await connection.close()


# Each table of tenants with the statement that copies its rows of tenant $1 to the tenants $2. A slug is unique.
_TABLES = """
SELECT c.oid::regclass::text AS name,
    format('WITH source AS MATERIALIZED (SELECT * FROM %s WHERE tenant_id = $1) '
           'INSERT INTO %s (%s) SELECT %s FROM source, unnest($2::uuid[]) AS copy (id)',
           c.oid::regclass,
           c.oid::regclass,
           string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum),
           string_agg(CASE a.attname WHEN 'tenant_id' THEN 'copy.id'
                                     WHEN 'slug' THEN 'source.slug || copy.id::text'
                                     ELSE 'source.' || quote_ident(a.attname) END, ', ' ORDER BY a.attnum)) AS copy
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
    AND n.nspname IN ('tenancy', 'auth', 'session', 'memory', 'recall')
    AND EXISTS (SELECT FROM pg_attribute AS t WHERE t.attrelid = c.oid AND t.attname = 'tenant_id')
GROUP BY c.oid
ORDER BY c.oid
"""
