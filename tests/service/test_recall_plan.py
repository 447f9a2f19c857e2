"""What a search costs is decided by its plan: contiguous runs of covering indexes, whatever the filter."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
from pgvector import HalfVector

from skein_kit.ids import now
from skein_recall.filters import Filter
from skein_recall.store import QUERIES, prepare_connection

if TYPE_CHECKING:
    from collections.abc import Iterator

    import asyncpg
    from fix_database import TestDatabase

TABLE = "embeddings_all_minilm_l6_v2"
# Items of each tenant; the first three are looked at.
SIZES = (1500, 400, 200, *[1000] * 4, *[20] * 40)
FILTERS = [Filter(), Filter(session_id="s1"), Filter(types=["note"]), Filter(tags_any=["a"]), Filter(tags_all=["a"])]
FILL = [
    """
    INSERT INTO tenancy.tenants (tenant_id, organization_id, display_name, slug, create_time, update_time)
    SELECT $1::uuid, organization_id, 't', $1::uuid::text, now(), now() FROM tenancy.organizations WHERE $2::int > 0
    """,
    """
    INSERT INTO recall.documents (tenant_id, item_id, kind, type, session_id, length, revision, pending)
    SELECT $1::uuid, gen_random_uuid(), (ARRAY['memory', 'message'])[1 + n % 2], 'note', 's' || n % 20, 12, 1, false
    FROM generate_series(1, $2) AS n
    """,
    """
    INSERT INTO recall.postings (tenant_id, term, kind, item_id, frequency, length)
    SELECT DISTINCT tenant_id, 'word' || floor(100 * random() ^ 2), kind, item_id, 1, 12
    FROM recall.documents, generate_series(1, 12) WHERE tenant_id = $1::uuid AND $2::int > 0
    """,
    """
    INSERT INTO memory.tags (tenant_id, memory_id, tag)
    SELECT tenant_id, item_id, (ARRAY['a', 'b', 'c'])[1 + n] FROM recall.documents, generate_series(0, 2) AS n
    WHERE kind = 'memory' AND tenant_id = $1::uuid AND $2::int > 0
    """,
    f"""
    INSERT INTO recall.{TABLE} (tenant_id, item_id, chunk, kind, embedding)
    SELECT tenant_id, item_id, 0, kind,
           ARRAY(SELECT random() - 0.5 + 0 * length FROM generate_series(1, 384))::public.halfvec(384)
    FROM recall.documents WHERE tenant_id = $1::uuid AND $2::int > 0
    """,  # noqa: S608 - a constant of this file.
]


async def test_a_search_reads_covering_indexes_and_scans_no_table(database: TestDatabase) -> None:
    tenants = [(uuid.uuid4(), size) for size in SIZES]
    async with database.superuser() as connection:
        await fill(connection, tenants)

    async with database.role("recall") as connection:
        await prepare_connection(connection)
        plans = {
            (size, restriction): await plan(connection, tenant_id, restriction)
            for tenant_id, size in tenants[:3]
            for restriction in range(len(FILTERS))
        }

    for case, plan_nodes in plans.items():
        scans = {(node["Node Type"], node.get("Relation Name", ""), node.get("Index Name", "")) for node in plan_nodes}
        assert [scan for scan in scans if scan[0] in {"Seq Scan", "Bitmap Heap Scan"}] == [], case
        assert ("Index Only Scan", "postings", "postings_pkey") in scans
        covering = {relation for kind, relation, index in scans if kind == "Index Only Scan" and "_kind_" in index}
        assert {f"{TABLE}_p{number}" for number in range(4)} <= covering


async def fill(connection: asyncpg.Connection[asyncpg.Record], tenants: list[tuple[uuid.UUID, int]]) -> None:
    # Tags without their memories: the search does not read those.
    await connection.execute("SET session_replication_role = replica")
    await connection.execute(
        "INSERT INTO tenancy.organizations (organization_id, display_name, slug, create_time, update_time) "
        "VALUES (gen_random_uuid(), 'o', 'o', now(), now())"
    )
    for statement in FILL:
        await connection.executemany(statement, tenants)
    await connection.execute("VACUUM ANALYZE")


async def plan(
    connection: asyncpg.Connection[asyncpg.Record], tenant_id: uuid.UUID, restriction: int
) -> list[dict[str, Any]]:
    """Every node of the statement's plan that is executed."""
    query = QUERIES["search"]
    values = query.bind(
        {
            "tenant_id": tenant_id,
            "words": "word1 word50 word90 nothing",
            "vector": HalfVector(np.ones(384, dtype=np.float32)),
            "kinds": ["memory", "message"],
            "at": now(),
            "filtered": FILTERS[restriction].restricts,
            "candidates": 50,
            "chunks": 200,
            **FILTERS[restriction].parameters(),
        }
    )
    async with connection.transaction():
        await connection.execute(f"SET LOCAL skein.tenant_id = '{tenant_id}'")
        text = await connection.fetchval(
            f"EXPLAIN (ANALYZE, FORMAT JSON) {query.text.replace('{table}', TABLE)}", *values
        )
    return [node for node in nodes(json.loads(text)[0]["Plan"]) if node["Actual Loops"]]


def nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from nodes(child)
