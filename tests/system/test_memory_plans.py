"""The plans of the hot queries, as the service's own role sees them: each reads an index, none reads a table."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from fix_database import TestDatabase, fresh_database

from skein_cluster.embedded.server import Server
from skein_kit.database.named_queries import with_condition
from skein_kit.ids import min_id_at, new_id, now
from skein_memory.listing.order import Order, PageCursor
from skein_memory.listing.ordered_scan import scan_query
from skein_memory.queries import QUERIES

TENANT = UUID(int=1)
# Five tenants, a memory a minute. Without the checks of foreign keys, which would take most of the time.
FILL = """
    SELECT memory.ensure_month(now() - interval '1 month'), memory.ensure_month(now());
    SET session_replication_role = replica;
    INSERT INTO memory.memories
        (tenant_id, memory_id, type, key, content, source, agent_id, subject_id, session_id, scope, level, confidence,
         importance, content_hash, create_time, update_time, created_by, updated_by)
    SELECT lpad(to_hex(1 + n % 5), 32, '0')::uuid,
           (lpad(to_hex((extract(epoch FROM now() - n * interval '1 minute') * 1000)::bigint), 12, '0') || '7'
            || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid,
           (ARRAY['note', 'note', 'note', 'fact', 'task'])[1 + n / 7 % 5], 'key ' || n % 5000, 'text',
           'source ' || n % 300, 'agent ' || n % 300, 'subject ' || n % 300, 'session ' || n % 300, 'global',
           'operational', 0.7, 0.5, '', now(), now(), 'test', 'test'
    FROM generate_series(1, 20000) AS n;
    INSERT INTO memory.tags (tenant_id, memory_id, tag)
    SELECT tenant_id, memory_id, unnest(ARRAY['common', source]) FROM memory.memories;
    INSERT INTO memory.links
        (tenant_id, link_id, from_memory_id, to_memory_id, relation, weight, create_time, created_by, author_keys)
    SELECT tenant_id, memory_id, memory_id, next_id, 'related', 1, now(), 'test', ARRAY['test']
    FROM (SELECT tenant_id, memory_id, lead(memory_id) OVER (PARTITION BY tenant_id ORDER BY memory_id) AS next_id
          FROM memory.memories) AS neighbours
    WHERE next_id IS NOT NULL;
    INSERT INTO memory.access_counts (tenant_id, memory_id, access_count, last_access_time)
    SELECT tenant_id, memory_id, get_byte(decode(md5(memory_id::text), 'hex'), 0), now() FROM memory.memories;
    INSERT INTO memory.external_ids SELECT tenant_id, memory_id::text, memory_id FROM memory.memories;
    INSERT INTO memory.fact_keys (tenant_id, subject_id, key, memory_id)
    SELECT tenant_id, 'subject', memory_id::text, memory_id FROM memory.memories;
    ANALYZE memory.memories, memory.tags, memory.links, memory.access_counts, memory.external_ids, memory.fact_keys;
"""


@pytest.fixture(scope="module")
async def connection(server: Server, template: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection of the service in a database of five tenants, whose plans are looked at alone."""
    async with fresh_database(server, template) as database, _filled(database) as connection:
        yield connection


@asynccontextmanager
async def _filled(database: TestDatabase) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    async with database.superuser() as superuser:
        await superuser.execute(FILL)
    async with database.role("memory") as connection:
        await connection.execute(f"SET skein.tenant_id = '{TENANT}'")
        # A month with hardly a row in it is rightly read whole; the question is whether an index can serve.
        await connection.execute("SET enable_seqscan = off")
        yield connection


async def plan(connection: asyncpg.Connection[asyncpg.Record], name: str, **values: Any) -> str:
    """Return the plan of a query; conditions that are not given are null."""
    query = QUERIES[name]
    bound = query.bind(dict.fromkeys(query.arguments) | {"tenant_id": TENANT} | values)
    rows = await connection.fetch(f"EXPLAIN {query.text}", *bound)
    return "\n".join(row[0] for row in rows)


async def test_every_read_uses_an_index(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    at = now()
    plans: list[tuple[str, str]] = []
    some = new_id(at)
    for name, values, index in (
        ("get_memories", {"memory_ids": [some]}, "_pkey"),
        ("find_active", {"memory_ids": [some]}, "_pkey"),
        ("lock_memory", {"memory_id": some}, "_pkey"),
        ("find_external_ids", {"external_ids": ["a"]}, "external_ids_pkey"),
        ("find_fact_keys", {"subject_ids": ["subject"], "folded_keys": ["a"]}, "fact_keys_pkey"),
    ):
        plans.append((await plan(connection, name, **values), index))
    links = {"memory_id": some, "before_id": some, "outgoing": True, "incoming": True, "min_weight": 0.0, "count": 51}
    listed = await plan(connection, "list_links", **links)
    plans += [(listed, "links_from"), (listed, "links_to")]

    for text, index in plans:
        assert "Seq Scan" not in text, text
        assert index in text, text
    # A read by id is planned for the one month of the id.
    for name, values in (("get_memories", {"memory_ids": [some]}), ("lock_memory", {"memory_id": some})):
        assert (await plan(connection, name, **values)).count(" on memories_y") == 1


@pytest.mark.parametrize(
    ("order", "index"),
    [
        ("update_time", "memories_.*update_time"),
        ("importance", "memories_.*importance"),
        ("confidence", "memories_.*confidence"),
        ("access_count", "access_counts_access_count"),
    ],
)
@pytest.mark.parametrize("is_descending", [True, False])
async def test_every_order_of_a_list_is_read_from_its_index(
    connection: asyncpg.Connection[asyncpg.Record], order: str, index: str, *, is_descending: bool
) -> None:
    last = PageCursor(memory_id=new_id(now()), value=now() if order == "update_time" else 1)
    order_by = Order(name=order, column=order, is_descending=is_descending)
    query, values = scan_query(order_by, last, min_id_at(now() - timedelta(days=90)))
    ready = with_condition(query, "true")
    bound = ready.bind({"tenant_id": TENANT, "count": 51, **values})

    text = "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN {ready.text}", *bound))

    assert re.search(index, text), text
    assert "Seq Scan" not in text, text
    # A merge of the months' indexes, each of which has the order: nothing of a tenant is sorted before the limit.
    assert "Limit" in text, text
    assert not re.search(r"Sort +\(cost", text[text.index("Limit") :]), text
