"""What a search costs is decided by its plans: contiguous runs of covering indexes, whatever the filter."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import numpy as np
import pytest
from fix_database import TestDatabase, vacuum
from pgvector import HalfVector

from skein.memory.v1 import memory_pb2
from skein_kit.database.named_queries import as_of, with_condition
from skein_kit.ids import now
from skein_kit.search_text.vector_columns import for_table
from skein_recall.queries import QUERIES
from skein_recall.search.convert import memory_filter
from skein_recall.search.filter import Filter
from skein_recall.search.neighbours import REACH
from skein_recall.search.statements import condition_sql
from skein_recall.service import prepare_connection

TABLE = "embeddings_all_minilm_l6_v2"
# Items of each tenant; the first three are looked at.
SIZES = (1500, 400, 200, *[1000] * 4, *[20] * 40)
FILTERS = [
    memory_filter(asked, UTC)
    for asked in (
        memory_pb2.MemoryFilter(session_id="s1"),
        memory_pb2.MemoryFilter(types=["note"]),
        memory_pb2.MemoryFilter(tags_any=["a"]),
        memory_pb2.MemoryFilter(tags_all=["a"]),
        memory_pb2.MemoryFilter(visible_to=memory_pb2.ScopeContext(session_id="s1"), min_importance=0.5),
    )
]
# Around the neutral trust the condition reads the one or the other end of an index.
FILTERS += [Filter(index_conditions=("min_trust",), values={"min_trust": least_trust}) for least_trust in (0.5, 0.8)]
FILL = [
    """
    INSERT INTO tenancy.tenants (tenant_id, organization_id, display_name, slug, create_time, update_time)
    SELECT $1::uuid, organization_id, 't', $1::uuid::text, now(), now() FROM tenancy.organizations WHERE $2::int > 0
    """,
    """
    INSERT INTO recall.documents (tenant_id, item_id, kind, type, session_id, length, revision, pending, is_counted)
    SELECT $1::uuid,
           (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0')
               || right(replace(gen_random_uuid()::text, '-', ''), 20))::uuid,
           (ARRAY['memory', 'message'])[1 + n % 2], 'note', 's' || n % 20, 12, 1, false,
           n % 50 <> 0
    FROM generate_series(1, $2) AS n
    """,
    """
    INSERT INTO memory.trust (tenant_id, memory_id, trust)
    SELECT tenant_id, item_id, random() FROM recall.documents
    WHERE tenant_id = $1::uuid AND kind = 'memory' AND $2::int > 0
    """,
    """
    INSERT INTO session.messages (tenant_id, message_id, session_id, sequence, role, content, create_time, created_by)
    SELECT tenant_id, item_id, session_id, row_number() OVER (), 'user', 'a', now(), 't'
    FROM recall.documents WHERE tenant_id = $1::uuid AND $2::int > 0
    """,
    # Large tenants have ratings.
    """
    INSERT INTO memory.source_trust (tenant_id, source_key, trust, revision, create_time, update_time, created_by,
                                     updated_by)
    SELECT $1::uuid, 'agent ' || n, 0.5, 1, now(), now(), 't', 't' FROM generate_series(1, $2 / 5) AS n WHERE $2 > 500
    """,
    """
    INSERT INTO recall.postings (tenant_id, term, kind, item_id, frequency, length)
    SELECT DISTINCT tenant_id, 'word' || floor(100 * random() ^ 2), kind, item_id, 1, 12
    FROM recall.documents, generate_series(1, 12) WHERE tenant_id = $1::uuid AND $2::int > 0
    """,
    """
    INSERT INTO recall.frequencies (tenant_id, term, kind, documents)
    SELECT tenant_id, term, kind, count(*) FROM recall.postings WHERE tenant_id = $1::uuid AND $2::int > 0
    GROUP BY tenant_id, term, kind
    """,
    """
    INSERT INTO memory.tags (tenant_id, memory_id, tag)
    SELECT tenant_id, item_id, (ARRAY['a', 'b', 'c'])[1 + n] FROM recall.documents, generate_series(0, 2) AS n
    WHERE kind = 'memory' AND tenant_id = $1::uuid AND $2::int > 0
    """,
    """
    INSERT INTO memory.aliases (tenant_id, alias_memory_id, canonical_memory_id, confidence, revision, create_time,
                                update_time, created_by, updated_by)
    SELECT tenant_id, item_id, gen_random_uuid(), 1, 1, now(), now(), 't', 't'
    FROM recall.documents WHERE tenant_id = $1::uuid AND $2::int > 0 LIMIT 100
    """,
    f"""
    INSERT INTO recall.{TABLE} (tenant_id, item_id, chunk, kind, embedding)
    SELECT tenant_id, item_id, 0, kind,
           ARRAY(SELECT random() - 0.5 + 0 * length FROM generate_series(1, 384))::public.halfvec(384)
    FROM recall.documents WHERE tenant_id = $1::uuid AND $2::int > 0
    """,  # noqa: S608 - a constant of this file.
]
# Two former rows of each item, the later one of the time that is read.
FILL_HISTORY = [
    """
    INSERT INTO recall.documents_history
    SELECT d.*, now() - interval '1 hour' * (1 + n)
    FROM (SELECT (d).* FROM (SELECT d FROM recall.documents AS d WHERE tenant_id = $1::uuid AND $2::int > 0) AS t) AS d,
         generate_series(0, 1) AS n
    """,
    """
    INSERT INTO recall.postings_history
    SELECT p.*, now() - interval '1 hour' * (1 + n) FROM recall.postings AS p, generate_series(0, 1) AS n
    WHERE tenant_id = $1::uuid AND $2::int > 0
    """,
    f"""
    INSERT INTO recall.{TABLE}_history
    SELECT v.*, now() - interval '1 hour' * (1 + n) FROM recall.{TABLE} AS v, generate_series(0, 1) AS n
    WHERE tenant_id = $1::uuid AND $2::int > 0
    """,  # noqa: S608 - a constant of this file.
    """
    INSERT INTO memory.source_trust_history
    SELECT s.*, now() - interval '1 hour' * (1 + n) FROM memory.source_trust AS s, generate_series(0, 1) AS n
    WHERE tenant_id = $1::uuid AND $2::int > 0
    """,
    """
    INSERT INTO memory.memories (tenant_id, memory_id, type, content, scope, level, confidence, importance,
                                 content_hash, create_time, update_time, created_by, updated_by)
    SELECT tenant_id, item_id, 'note', 'a', 'global', 'operational', 0.5, 0.5, '', now(), now(), 't', 't'
    FROM recall.documents WHERE tenant_id = $1::uuid AND $2::int > 0
    """,
    """
    INSERT INTO memory.versions (tenant_id, memory_id, revision, type, content, scope, level, confidence, importance,
                                 create_time, update_time, created_by, updated_by, record_time, until_time, tags)
    SELECT tenant_id, item_id, n, 'note', 'a', 'global', 'operational', 0.5, 0.5, now() - interval '1 day',
           now() - interval '1 day', 't', 't', now() - interval '1 day', now() - interval '1 hour' * n, '{}'
    FROM recall.documents, generate_series(1, 2) AS n WHERE tenant_id = $1::uuid AND $2::int > 0
    """,
    """
    INSERT INTO session.messages_history (tenant_id, message_id, session_id, sequence, role, content, create_time,
                                          created_by, is_active, pending_approval, revision, record_time, space_id,
                                          until_time)
    SELECT tenant_id, message_id, session_id, sequence, role, content, create_time, created_by, is_active,
           pending_approval, revision, record_time, space_id, now() - interval '1 hour' * n
    FROM session.messages, generate_series(1, 2) AS n
    WHERE tenant_id = $1::uuid AND $2::int > 0
    """,
]
FILL_HISTORY += [
    f"UPDATE recall.{table}_history SET record_time = now() - interval '1 day' "  # noqa: S608 - constants of this file.
    "WHERE tenant_id = $1::uuid AND $2::int > 0"
    for table in ("documents", "postings", TABLE)
]
FILL_HISTORY.append(
    "UPDATE memory.source_trust_history SET record_time = now() - interval '1 day' "
    "WHERE tenant_id = $1::uuid AND $2::int > 0"
)
VECTORS = {f"{TABLE}_p{number}" for number in range(4)}
# Which tables a statement reads from their covering index alone.
COVERED: dict[str, set[str]] = {
    "nearest": VECTORS,
    "nearest_filtered": VECTORS,
    "match_terms": {"postings"},
    "match_terms_filtered": {"postings"},
    "query_terms": {"postings", "frequencies", "documents"},
    "measure_items": {"documents", "postings"},
    "near_terms": {"postings"},
    "count_terms": {"postings", "frequencies"},
    "read_search_state": {"frequencies"},
    "aliases_state": set(),
    "list_entity_names": set(),
    "get_messages": {"source_trust"},
    "read_ratings": set(),
}
# The same as of a time, where the present tables are read too: their covering indexes know no times.
COVERED_AS_OF: dict[str, set[str]] = {
    "nearest": set(),
    "nearest_filtered": set(),
    "match_terms": {"postings_history"},
    "match_terms_filtered": {"postings_history"},
    "query_terms": {"postings_history", "documents_history"},
    # An item with few words is read whole.
    "measure_items": {"documents_history"},
    "near_terms": {"postings_history"},
    "count_terms": {"postings_history"},
    "list_entity_names": set(),
    "get_memories": set(),
    "get_messages": set(),
    "read_ratings": set(),
    "vectors_of_items": set(),
}
# Statements that look up each item by itself, also among former rows; the column of its id, and tables.
LOOKUPS = {
    "get_memories": ("memory_id", ("memories", "versions")),
    "get_messages": ("message_id", ("messages",)),
}
VARIANTS = {"measure_items": 2}


@pytest.mark.parametrize("plans", ["force_custom_plan", "force_generic_plan"])
async def test_a_search_reads_covering_indexes_and_scans_no_table(database: TestDatabase, plans: str) -> None:
    tenants = [(uuid.uuid4(), size) for size in SIZES]
    async with database.superuser() as connection:
        await connection.fetchval("SELECT session.ensure_month(now())")
        await fill(connection, tenants)

    async with database.role("recall") as connection:
        await prepare_connection(connection)
        await connection.execute(f"SET plan_cache_mode = {plans}")
        results = {
            # Of two terms, none is rare, or both.
            (name, size, place): await plan(connection, tenant_id, name, filter_, rare=2 * place)
            for tenant_id, size in tenants[:3]
            for name in COVERED
            for place, filter_ in enumerate(
                FILTERS if name.endswith("_filtered") else [Filter()] * VARIANTS.get(name, 1)
            )
        }

    for case, plan_nodes in results.items():
        scans = {(node["Node Type"], node.get("Relation Name", ""), node.get("Index Name", "")) for node in plan_nodes}
        assert [scan for scan in scans if scan[0] in {"Seq Scan", "Bitmap Heap Scan"}] == [], case
        covered = {relation for kind, relation, _ in scans if kind == "Index Only Scan"}
        assert covered >= COVERED[case[0]], case


@pytest.mark.parametrize("plans", ["force_custom_plan", "force_generic_plan"])
async def test_a_search_as_of_a_time_scans_no_table_and_looks_former_rows_up(
    database: TestDatabase, plans: str
) -> None:
    tenants = [(uuid.uuid4(), size) for size in SIZES]
    async with database.superuser() as connection:
        await connection.fetchval("SELECT memory.ensure_month(now()), session.ensure_month(now())")
        await fill(connection, tenants, history=True)

    async with database.role("recall") as connection:
        await prepare_connection(connection)
        await connection.execute(f"SET plan_cache_mode = {plans}")
        results = {
            (name, size, place): await plan(
                connection, tenant_id, name, filter_, rare=2 * place, as_of_time=now() - timedelta(minutes=90)
            )
            for tenant_id, size in tenants[:3]
            for name in COVERED_AS_OF
            for place, filter_ in enumerate(
                FILTERS if name.endswith("_filtered") else [Filter()] * VARIANTS.get(name, 1)
            )
        }

    for case, plan_nodes in results.items():
        scans = {(node["Node Type"], node.get("Relation Name", ""), node.get("Index Name", "")) for node in plan_nodes}
        assert [scan for scan in scans if scan[0] in {"Seq Scan", "Bitmap Heap Scan"}] == [], case
        assert {relation for kind, relation, _ in scans if kind == "Index Only Scan"} >= COVERED_AS_OF[case[0]], case
        if case[0] in LOOKUPS:
            column, tables = LOOKUPS[case[0]]
            conditions = [node["Index Cond"] for node in plan_nodes if node.get("Relation Name", "").startswith(tables)]
            assert conditions, case
            assert all(column in condition for condition in conditions), case


async def fill(
    connection: asyncpg.Connection[asyncpg.Record], tenants: list[tuple[uuid.UUID, int]], *, history: bool = False
) -> None:
    # Tags without their memories: the search does not read those.
    await connection.execute("SET session_replication_role = replica")
    await connection.execute(
        "INSERT INTO tenancy.organizations (organization_id, display_name, slug, create_time, update_time) "
        "VALUES (gen_random_uuid(), 'o', 'o', now(), now())"
    )
    for statement in [*FILL, *(FILL_HISTORY if history else ())]:
        await connection.executemany(statement, tenants)
    await vacuum(connection)


async def plan(
    connection: asyncpg.Connection[asyncpg.Record],
    tenant_id: uuid.UUID,
    name: str,
    filter_: Filter,
    *,
    rare: int,
    as_of_time: datetime | None = None,
) -> list[dict[str, Any]]:
    """Every node of the statement's plan that is executed."""
    query = for_table(QUERIES[name], TABLE)
    if filter_.has_index_conditions:
        query = with_condition(query, condition_sql(filter_))
    if as_of_time is not None:
        query = as_of(query)
    known = {
        "tenant_id": tenant_id,
        "words": "word1 word50 word90 nothing",
        "language": "english",
        "vector": HalfVector(np.ones(384, dtype=np.float32)),
        "kinds": ["memory", "message"],
        "terms": 10 if name in ("query_terms", "read_search_state") else ["word1", "word50"],
        "idfs": [1.0, 2.0],
        "per_stem": 0.07,
        "most": 2000,
        "count": 100,
        "item_ids": [uuid.uuid4()],
        "centres": [uuid.uuid4()],
        "reach": REACH,
        "rare": rare,
        "horizon": 1 << 60 if name == "read_search_state" else None,
        "vector_horizon": 1 << 60,
        "server_start": None,
        "most_changed": 500,
        "most_vectors": 2000,
        "most_pending": 1000,
        "titles": 1000,
        "rest": None,
        "at": now(),
        "ordinals": [0],
        "starts": ["wo"],
        "ends": ["wp"],
        "shortest": [5],
        "longest": [7],
        "guess_ordinals": [0],
        "guesses": ["word50"],
        "bytes": 320,
        "message_ids": [uuid.uuid4()],
        "source_keys": ["agent 1", "agent 2", "agent x"],
        **filter_.values,
    }
    if name in {"measure_items", "get_messages"} or as_of_time is not None:
        some = await ids(connection, tenant_id)
        known |= {"item_ids": some, "centres": some, "memory_ids": some, "message_ids": some, "show_superseded": False}
    values = query.bind({name: known[name] for name in query.arguments})
    async with connection.transaction():
        await connection.execute(f"SET LOCAL skein.tenant_id = '{tenant_id}'")
        if as_of_time is not None:
            await connection.execute(f"SET LOCAL skein.as_of_time = '{as_of_time.isoformat()}'")
        text = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {query.text}", *values)
    return [node for node in nodes(json.loads(text)[0]["Plan"]) if node["Actual Loops"]]


async def ids(connection: asyncpg.Connection[asyncpg.Record], tenant_id: uuid.UUID) -> list[uuid.UUID]:
    async with connection.transaction():
        await connection.execute(f"SET LOCAL skein.tenant_id = '{tenant_id}'")
        rows = await connection.fetch("SELECT item_id FROM recall.documents WHERE tenant_id = $1 LIMIT 20", tenant_id)
    return [row["item_id"] for row in rows]


def nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from nodes(child)
