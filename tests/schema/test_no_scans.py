"""No statement of memory, session and recall reads a whole table, planned for the largest of 1,000 tenants.

None that is planned for no tenant in particular reads more of an index than what it looks for.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import fix_scans
import pytest
from fix_database import TestDatabase, vacuum

from skein_kit.database.named_queries import Queries, Query
from skein_recall.search.statements import COMPARE_AND_READ_SHORTLIST, NEAREST_AND_READ

if TYPE_CHECKING:
    from collections.abc import Iterator

    import asyncpg

    Connection = asyncpg.Connection[asyncpg.Record]

SERVICES = ("memory", "session", "recall")
# What is put in the places that statements leave open.
MARKS = {
    "{table}": "embeddings_all_minilm_l6_v2",
    "{condition}": "true",
    "{column}": "session_id",
    "{value}": "requested.value",
}
# Planned once for each connection, and so for a tenant of middling size, whichever it is.
PLANNED_ONCE = (
    *("nearest", "compare_shortlist", "similarities", "vectors_of_items"),
    *("query_terms", "match_terms", "measure_items"),
    *("get_memories", "get_messages", "memory_texts", "message_texts"),
    *("filter_memories", "filter_messages", "scan_memories", "scan_messages"),
    *("count_vectors", "vectors_after", "vectors_since", "claim_documents", "items_with_vectors"),
    *("read_search_state", "documents_after", "postings_after", "list_changed_documents"),
    *("count_documents", "list_document_ids"),
)
# What a rating leads to: whatever is planned, not all of the tenant's memories.
OF_A_RATING = ("list_names", "find_made_by", "walk_message_sources", "find_derived", "find_derived_of_some")
# Statements that may read a table whole, each with its reason.
ALLOWED: dict[str, str] = {}


async def plans(connection: Connection, query: Query, known: Any) -> Iterator[dict[str, Any]]:
    """Return every node of the plan of a statement with plausible values."""
    text = _filled(query)
    prepared = await connection.prepare(text)
    kinds = [
        f"{kind.name.removeprefix('_')}[]" if kind.kind == "array" else kind.name for kind in prepared.get_parameters()
    ]
    values = [fix_scans.value_of(name, kind, known) for name, kind in zip(query.parameters, kinds, strict=True)]
    rows = await connection.fetch(f"EXPLAIN (FORMAT JSON) {text}", *values)
    return _nodes(json.loads(rows[0][0])[0]["Plan"])


def _filled(query: Query) -> str:
    text = query.text
    for mark, example in MARKS.items():
        text = text.replace(mark, example)
    return text


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _nodes(below)


@pytest.fixture
async def filled(database: TestDatabase) -> TestDatabase:
    """A database with 60,000 memories and as many messages of 1,000 tenants."""
    async with database.superuser() as connection:
        await connection.execute(fix_scans.FILL)
        await vacuum(connection)
    return database


# Filling takes most of it.
@pytest.mark.system
@pytest.mark.essential
@pytest.mark.timeout(400)
async def test_no_statement_reads_a_table_whole(filled: TestDatabase) -> None:
    async with filled.superuser() as connection:
        known = await connection.fetchval(
            "SELECT memory_id FROM memory.memories WHERE tenant_id = $1 LIMIT 1", fix_scans.TENANT
        )
        rows = await connection.fetch(
            "SELECT n.nspname || '.' || c.relname AS name, c.reltuples FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' "
            "AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id')"
        )
    sizes = {row["name"]: row["reltuples"] for row in rows}
    assert sum(size > fix_scans.FEW_ROWS for size in sizes.values()) > 15
    results: list[str] = []
    seen = 0

    for service in SERVICES:
        async with filled.role(service) as connection:
            await connection.execute(f"SET skein.tenant_id = '{fix_scans.TENANT}'")
            for query in Queries.load(f"skein_{service}").by_name.values():
                if "tenant_id" not in query.parameters:
                    continue
                seen += 1
                # First as it is planned; then, of what is nearly empty here, whether an index could serve.
                for setting, few in (("on", fix_scans.FEW_ROWS), ("off", -1)):
                    await connection.execute(f"SET enable_seqscan = {setting}")
                    scanned = scanned_by(await plans(connection, query, known), sizes, few)
                    results += [f"{service}.{query.name} reads {table}" for table in scanned]
    async with filled.role("memory") as connection:
        # With nothing but scans to choose from, the check finds them.
        await connection.execute(f"SET skein.tenant_id = '{fix_scans.TENANT}'")
        await connection.execute(
            "SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off"
        )
        query = Queries.load("skein_memory")["find_external_ids"]
        shown = scanned_by(await plans(connection, query, known), sizes, fix_scans.FEW_ROWS)

    async with filled.role("memory") as connection:
        columns = await columns_of_indexes(connection)
        # A condition that no index serves leaves out rows of all ids.
        unserved = Query.parse(
            "unserved",
            "SELECT FROM memory.tasks AS t WHERE t.tenant_id = :tenant_id AND (t.memory_id = :memory_id) IS TRUE",
        )
        shown_once = await gaps_of(connection, unserved, columns)
        queries = Queries.load("skein_memory")
        of_a_rating = [gap for name in OF_A_RATING for gap in await gaps_of(connection, queries[name], columns)]
    async with filled.role("recall") as connection:
        queries = Queries.load("skein_recall")
        planned_once = [*(queries[name] for name in PLANNED_ONCE), COMPARE_AND_READ_SHORTLIST, NEAREST_AND_READ]
        gaps = [
            f"{query.name} reads {gap}" for query in planned_once for gap in await gaps_of(connection, query, columns)
        ]

    assert shown == ["memory.external_ids"]
    assert len(shown_once) == 1
    assert of_a_rating == []
    # Once, on purpose: the list of a term that is known to be rare.
    assert gaps == ["measure_items reads postings_pkey"]
    assert seen > 300
    assert [scan for scan in dict.fromkeys(results) if scan.split()[0] not in ALLOWED] == []


async def columns_of_indexes(connection: Connection) -> dict[str, list[str]]:
    """Return what each index is ordered by."""
    rows = await connection.fetch(
        "SELECT c.relname AS name, array_agg(a.attname::text ORDER BY a.attnum) AS columns FROM pg_index i "
        "JOIN pg_class c ON c.oid = i.indexrelid "
        "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum <= i.indnkeyatts GROUP BY c.relname"
    )
    return {row["name"]: row["columns"] for row in rows}


async def gaps_of(connection: Connection, query: Query, columns: dict[str, list[str]]) -> list[str]:
    """Return the indexes that a statement reads more of than it needs, planned for no values in particular."""
    nothing = ", ".join(["NULL"] * len(query.parameters))
    # As the services' connections are set.
    await connection.execute(
        "SET enable_seqscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan; "
        f'PREPARE "once {query.name}" AS {_filled(query)}'
    )
    rows = await connection.fetch(f'EXPLAIN (FORMAT JSON) EXECUTE "once {query.name}"({nothing})')
    return gaps_in(_nodes(json.loads(rows[0][0])[0]["Plan"]), columns)


def gaps_in(nodes: Iterator[dict[str, Any]], columns: dict[str, list[str]]) -> list[str]:
    """Return the indexes that a plan reads more of than it has to.

    It looks for something that they do not begin with, or reads them for all ids to leave out most of those.
    """
    results = []
    for node in nodes:
        name, condition = node.get("Index Name", ""), node.get("Index Cond", "")
        requests = [_names(column, condition) for column in columns.get(name, ())]
        left_out = _names("(memory|message|item)_id", node.get("Filter", ""))
        if name and (sorted(requests, reverse=True) != requests or not any(requests) or left_out):
            results.append(name)
    return results


def _names(column: str, condition: str) -> bool:
    return re.search(rf"\b{column}\b", condition) is not None


def scanned_by(nodes: Iterator[dict[str, Any]], sizes: dict[str, float], few: int) -> list[str]:
    """Return the tenant tables of more than a `few` rows that a plan reads from end to end."""
    tables = [_found(sizes, node["Relation Name"]) for node in nodes if node["Node Type"] == "Seq Scan"]
    return [table for table in tables if table and sizes[table] > few]


def _found(sizes: dict[str, float], relation: str) -> str:
    return next((name for name in sizes if name.endswith(f".{relation}")), "")


def test_look_ups_of_arrays_in_months_name_their_range() -> None:
    """A look-up of an array in a table of months opens every month, unless it names the first and the last id."""
    look_up = re.compile(
        r"FROM (?:memory\.memories|session\.messages)(?: AS \w+)?\s+WHERE (?:\w+\.)?tenant_id = \$\d+ "
        r"AND (?:\w+\.)?(?:memory_id|message_id) = ANY \(\$\d+(?:::uuid\[\])?\)(?!\s+AND (?:\w+\.)?\w+ BETWEEN)"
    )
    queries = [(service, query) for service in SERVICES for query in Queries.load(f"skein_{service}").by_name.values()]

    assert sum("first_of_" in " ".join(query.parameters) for _, query in queries) > 30
    assert [f"{service}.{query.name}" for service, query in queries if look_up.search(query.text)] == []
