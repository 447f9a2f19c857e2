"""The plans of curation's queries, as the service's own role sees them: each reads an index, none reads a table."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from fix_database import TestDatabase

from skein_kit.ids import min_id_at, new_id, now
from skein_memory.memories.model import FIRST_WITHOUT_KEY
from skein_memory.queries import QUERIES

TENANT = UUID(int=1)
# Five tenants, a memory a minute. Without the checks of foreign keys, which would take most of the time.
FILL = """
    SELECT memory.ensure_month(now() - interval '1 month'), memory.ensure_month(now());
    SET session_replication_role = replica;
    INSERT INTO memory.memories
        (tenant_id, memory_id, type, content, scope, level, confidence, importance, content_hash, fingerprint,
         decay_time, create_time, update_time, created_by, updated_by)
    SELECT lpad(to_hex(1 + n % 5), 32, '0')::uuid,
           (lpad(to_hex((extract(epoch FROM now() - n * interval '1 minute') * 1000)::bigint), 12, '0') || '7'
            || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid,
           'note', 'text', 'global', 'operational', n % 100 / 100.0, n % 90 / 90.0, '', md5(n::text)::uuid,
           now() - n * interval '1 minute', now(), now(), 'test', 'test'
    FROM generate_series(1, 10000) AS n;
    INSERT INTO memory.tags (tenant_id, memory_id, tag) SELECT tenant_id, memory_id, 'common' FROM memory.memories;
    INSERT INTO memory.access_counts (tenant_id, memory_id, access_count, last_access_time)
    SELECT tenant_id, memory_id, 1, now() FROM memory.memories;
    INSERT INTO memory.links
        (tenant_id, link_id, from_memory_id, to_memory_id, relation, weight, create_time, created_by, author_keys)
    SELECT tenant_id, memory_id, memory_id, next_id, CASE WHEN n % 50 = 0 THEN 'contradicts' ELSE 'related' END, 1,
           now(), 'test', ARRAY['test']
    FROM (SELECT tenant_id, memory_id, row_number() OVER () AS n,
                 lead(memory_id) OVER (PARTITION BY tenant_id ORDER BY memory_id) AS next_id
          FROM memory.memories) AS neighbours
    WHERE next_id IS NOT NULL;
    INSERT INTO memory.aliases
        (tenant_id, alias_memory_id, canonical_memory_id, confidence, revision, create_time, update_time, created_by,
         updated_by)
    SELECT tenant_id, from_memory_id, to_memory_id, 1, 1, now(), now(), 'test', 'test' FROM memory.links;
    INSERT INTO memory.conflict_resolutions
        (tenant_id, a_memory_id, b_memory_id, resolution_id, status, revision, create_time, update_time, created_by,
         updated_by)
    SELECT tenant_id, from_memory_id, to_memory_id, link_id, 'dismissed', 1, now(), now(), 'test', 'test'
    FROM memory.links;
    INSERT INTO memory.source_trust
        (tenant_id, source_key, trust, revision, create_time, update_time, created_by, updated_by)
    SELECT lpad(to_hex(1 + n % 5), 32, '0')::uuid, 'source ' || n, 0.5, 1, now(), now(), 'test', 'test'
    FROM generate_series(1, 2000) AS n;
    ANALYZE memory.memories, memory.tags, memory.links, memory.aliases, memory.access_counts,
        memory.conflict_resolutions, memory.source_trust;
"""


@pytest.fixture
async def connection(database: TestDatabase) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection of the service in a database of five tenants."""
    async with database.superuser() as superuser:
        await superuser.execute(FILL)
    async with database.role("memory") as connection:
        await connection.execute(f"SET skein.tenant_id = '{TENANT}'")
        # A month with hardly a row in it is rightly read whole; the question is whether an index can serve.
        await connection.execute("SET enable_seqscan = off")
        yield connection


async def plan(connection: asyncpg.Connection[asyncpg.Record], name: str, **values: Any) -> str:
    """Return the plan of a query."""
    query = QUERIES[name]
    rows = await connection.fetch(f"EXPLAIN {query.text}", *query.bind({"tenant_id": TENANT, **values}))
    return "\n".join(row[0] for row in rows)


async def test_every_read_of_curation_uses_an_index_and_sorts_no_tenant(
    connection: asyncpg.Connection[asyncpg.Record],
) -> None:
    at = now()
    some, ids, first, last = new_id(at), [new_id(at)], UUID(int=0), UUID(int=(1 << 128) - 1)
    requests: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
        (
            "read_score_inputs",
            {"memory_ids": ids, "source_keys": ["source 5"], "most": 25},
            ("links_from", "links_to", "source_trust_pkey", "access_counts_pkey"),
        ),
        ("count_relations", {"memory_ids": ids, "most": 25}, ("links_from_relation", "links_to_relation")),
        ("count_links", {"memory_ids": ids, "most": 25}, ("links_from_relation", "links_to_relation")),
        ("read_trust", {"source_keys": ["source 5"]}, ("source_trust_pkey",)),
        ("list_source_trust", {"after": "source 5", "count": 51}, ("source_trust_pkey",)),
        ("get_aliases", {"memory_ids": ids}, ("aliases_pkey",)),
        ("list_aliases", {"after": some, "count": 51}, ("aliases_pkey",)),
        ("list_aliases_of", {"canonical_memory_id": some, "after": some, "count": 51}, ("aliases_canonical",)),
        ("walk_contradictions", {"before_id": last, "count": 40}, ("links_relation",)),
        # By the pair, or by one end and the relation.
        ("find_contradictions", {"from_ids": ids, "to_ids": ids}, ("links_", "Index Cond")),
        (
            "walk_keys",
            {"from_fingerprint": first, "from_id": first, "before_fingerprint": FIRST_WITHOUT_KEY, "count": 400},
            ("fingerprint_memory_id_idx",),
        ),
        ("find_disagreements", {"memory_ids": ids}, ("links_", "conflict_resolutions_")),
        ("read_contenders", {"memory_ids": ids, "at": at}, ("_pkey",)),
        (
            "walk_fingerprints",
            {
                "after_fingerprint": first,
                "after_id": last,
                "before_fingerprint": FIRST_WITHOUT_KEY,
                "count": 2000,
            },
            ("fingerprint_memory_id_idx",),
        ),
        ("get_resolutions", {"a_ids": ids, "b_ids": ids}, ("conflict_resolutions_",)),
        ("list_resolutions", {"before_id": last, "status": None, "count": 51}, ("conflict_resolutions_order",)),
        (
            "list_resolutions",
            {"before_id": last, "status": "resolved", "count": 51},
            ("conflict_resolutions_status",),
        ),
        ("find_links_of", {"memory_ids": ids, "count": 501}, ("links_from", "links_to")),
        ("list_neighbours", {"memory_id": some, "count": 51}, ("links_from", "links_to")),
        ("find_idle", {"before": at - timedelta(days=3), "at": at, "count": 100}, ("decay_time_idx",)),
        ("read_idleness", {"memory_ids": ids}, ("access_counts_pkey",)),
        ("find_review_candidates", {"count": 100}, ("level_importance", "confidence_memory_id_idx")),
        ("list_kinds", {"from_id": first, "before_id": min_id_at(at), "at": at, "count": 5001}, ("_pkey",)),
        ("list_tags_since", {"from_id": min_id_at(at - timedelta(days=1)), "count": 5000}, ("tags_pkey",)),
        ("list_newest_links", {"count": 5001}, ("links_pkey",)),
        ("count_aliases", {"most": 10_000}, ("aliases",)),
        ("read_totals", {}, ("usage_pkey",)),
        ("count_expired", {"at": at, "most": 10_000}, ("expire_time_idx",)),
        ("longest_expired", {"before": at, "count": 200}, ("expire_time_idx",)),
        ("find_visible", {"memory_ids": ids, "at": at}, ("_pkey",)),
        ("find_unexpired", {"memory_ids": ids, "at": at}, ("Index Cond",)),
        ("lock_expired", {"memory_ids": ids, "at": at}, ("Index Cond",)),
        ("last_revision", {"kind": "alias", "item_id": "x"}, ("revisions_pkey",)),
    ]

    for name, values, indexes in requests:
        text = await plan(connection, name, **values)
        assert "Seq Scan" not in text, (name, text)
        assert all(index in text for index in indexes), (name, text)
