"""Statements as of a time read views in place of tables; no table with former rows is read as it is now."""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from collections.abc import AsyncIterator
from importlib import resources
from typing import Any, TypeAlias

import asyncpg
import pytest
from fix_database import TestDatabase

from skein_kit.database.named_queries import AS_OF_VIEWS, CONDITION, Query, as_of, parse, with_condition
from skein_kit.ids import new_id, now
from skein_kit.search_text.vector_columns import for_table
from skein_recall.queries import QUERIES
from skein_recall.search.statements import NEAREST_AND_READ

Catalog: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

VECTORS = "embeddings_all_minilm_l6_v2"
# Statements of searches that are of no time: what proves caches, names of entities that are cached, and the rows of all
# times, for which a search is charged.
OF_THE_PRESENT = {"aliases_state", "compare_shortlist", "count_documents_of_all_times", "read_server_start"}
# Tables whose rows are of no time: ids that other systems gave items, values that narrow a list, and counts of purges.
TIMELESS = {
    "memory.external_ids",
    "memory.properties",
    "recall.purged_items",
    "session.message_external_ids",
}

LOOKUPS = {
    "get_memories", "get_messages", "filter_memories", "filter_messages", "scan_memories", "scan_messages",
    "visible_names",
}  # fmt: skip


def search_statements() -> dict[str, Query]:
    """Return what a search as of a time may run, with vectors of one model and without a filter."""
    folder = resources.files("skein_recall.search")
    queries = [
        query for file in folder.iterdir() if file.name.endswith(".sql") for query in parse(file.read_text("utf-8"))
    ]
    return {
        query.name: as_of(with_condition(for_table(query, VECTORS), "true"))
        for query in [*queries, NEAREST_AND_READ]
        if query.name not in OF_THE_PRESENT
    }


async def viewed_tables(catalog: Catalog) -> set[str]:
    """Return the tables that have a view of a time."""
    return {
        row["name"]
        for row in await catalog.fetch(
            """
            SELECT n.nspname || '.' || t.relname AS name
            FROM pg_class AS v
            JOIN pg_class AS t ON t.relname = v.relname AND t.relkind IN ('r', 'p', 'v')
            JOIN pg_namespace AS n ON n.oid = t.relnamespace AND n.nspname <> 'as_of'
            WHERE v.relnamespace = 'as_of'::regnamespace AND v.relkind = 'v'
            """
        )
    }


async def test_every_view_is_read_in_place_of_its_table(catalog: Catalog) -> None:
    views = {row["relname"] for row in await catalog.fetch(
        "SELECT relname FROM pg_class WHERE relnamespace = 'as_of'::regnamespace AND relkind = 'v'"
    )}  # fmt: skip

    assert await viewed_tables(catalog) == {
        *(f"{schema}.{table}" for schema, tables in AS_OF_VIEWS.items() for table in tables), f"recall.{VECTORS}",
    }  # fmt: skip
    assert len(views) == len(await viewed_tables(catalog))


async def test_every_table_that_keeps_former_rows_has_a_view(catalog: Catalog) -> None:
    rows = await catalog.fetch(
        """
        SELECT DISTINCT n.nspname || '.' || c.relname AS name
        FROM pg_trigger AS t
        JOIN pg_class AS c ON c.oid = t.tgrelid AND NOT c.relispartition
        JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE t.tgfoid IN ('skein.keep_deleted'::regproc, 'skein.keep_updated'::regproc)
        """
    )

    assert {row["name"] for row in rows} <= await viewed_tables(catalog)


async def test_no_search_as_of_a_time_reads_a_table_of_the_present(catalog: Catalog) -> None:
    tables = {
        row["name"]
        for row in await catalog.fetch(
            "SELECT schemaname || '.' || tablename AS name FROM pg_tables "
            "WHERE schemaname IN ('memory', 'recall', 'session', 'tenancy')"
        )
    } | {f"recall.{VECTORS}"}

    read = {
        name: named - TIMELESS
        for name, query in search_statements().items()
        if (named := set(re.findall(r"\b[a-z]+\.[a-z_0-9]+\b", query.text)) & tables) - TIMELESS
    }

    assert read == {}


async def test_every_search_statement_is_valid_as_of_a_time(untouched: TestDatabase) -> None:
    async with untouched.role("recall") as connection:
        for name, query in search_statements().items():
            try:
                await connection.prepare(query.text)
            except asyncpg.PostgresError as error:
                pytest.fail(f"{name}: {error}")


async def new_tenant(database: TestDatabase) -> uuid.UUID:
    tenant_id = uuid.uuid4()
    async with database.superuser() as connection:
        await connection.execute(
            "INSERT INTO tenancy.organizations (organization_id, display_name, slug, create_time, update_time) "
            "VALUES ($1, 'o', 'o', now(), now())",
            tenant_id,
        )
        await connection.execute(
            "INSERT INTO tenancy.tenants (tenant_id, organization_id, display_name, slug, create_time, update_time) "
            "VALUES ($1, $1, 't', 't', now(), now())",
            tenant_id,
        )
    return tenant_id


@contextlib.asynccontextmanager
async def call_of(database: TestDatabase, role: str, tenant_id: uuid.UUID, minute: int) -> AsyncIterator[Catalog]:
    """Open the transaction of a call that arrived at a minute after noon."""
    async with database.role(role) as connection, connection.transaction():
        await connection.execute(
            f"SET LOCAL skein.tenant_id = '{tenant_id}'; SET LOCAL skein.write_time = '2026-01-01 12:0{minute}:00+00'"
        )
        yield connection


async def seen_at(
    database: TestDatabase, role: str, tenant_id: uuid.UUID, time: str, query: str
) -> list[tuple[object, ...]]:
    async with database.role(role) as connection, connection.transaction():
        await connection.execute(
            f"SET LOCAL skein.tenant_id = '{tenant_id}'; SET LOCAL skein.as_of_time = '2026-01-01 12:{time}+00'"
        )
        return [tuple(row) for row in await connection.fetch(query)]


async def insert_subject_and_session(database: TestDatabase, tenant_id: uuid.UUID) -> None:
    async with call_of(database, "tenancy", tenant_id, 0) as connection:
        await connection.execute(
            "INSERT INTO tenancy.subjects (tenant_id, subject_id, display_name, status, revision, create_time, "
            "update_time, created_by, updated_by, writers) "
            "VALUES ($1, 'ada', 'Ada', 'active', 1, now(), now(), '', '', '{}')",
            tenant_id,
        )
    async with call_of(database, "session", tenant_id, 0) as connection:
        await connection.execute(
            "INSERT INTO session.sessions (tenant_id, session_id, summary, state, session_type, create_time, "
            "update_time, created_by) VALUES ($1, 'morning', '1', 'active', 'conversation', now(), now(), '')",
            tenant_id,
        )


# The call of 12:02 commits before the one of 12:01: what it wrote can be read, until the other commits.
ARRIVALS = ((0, 1), (2, 2), (1, 3))
OVERTAKEN = {"00:00": 1, "00:30": 1, "01:00": 1, "01:59.999999": 1, "02:00": 2, "02:00.000001": 3, "02:30": 3}


@pytest.mark.system
async def test_documents_that_replace_later_ones_keep_them(database: TestDatabase) -> None:
    tenant_id, item_id = await new_tenant(database), uuid.uuid4()
    for minute, frequency in ARRIVALS:
        async with call_of(database, "memory", tenant_id, minute) as connection:
            await connection.execute(
                "DELETE FROM recall.documents WHERE tenant_id = $1 AND item_id = $2", tenant_id, item_id
            )
            await connection.execute(
                "INSERT INTO recall.documents (tenant_id, item_id, kind, length, revision) "
                "VALUES ($1, $2, 'memory', 1, $3)",
                tenant_id,
                item_id,
                frequency,
            )
            await connection.execute(
                "INSERT INTO recall.postings (tenant_id, term, kind, item_id, frequency, length) "
                "VALUES ($1, 'tea', 'memory', $2, $3, 1)",
                tenant_id,
                item_id,
                frequency,
            )

    query = "SELECT d.revision, p.frequency FROM as_of.documents AS d JOIN as_of.postings AS p USING (item_id)"
    seen = {time: await seen_at(database, "recall", tenant_id, time, query) for time in OVERTAKEN}
    assert seen == {time: [(revision, revision)] for time, revision in OVERTAKEN.items()}


@pytest.mark.system
async def test_rows_that_are_updated_after_a_later_call_keep_its_version(database: TestDatabase) -> None:
    tenant_id = await new_tenant(database)
    await insert_subject_and_session(database, tenant_id)
    for minute, revision in ARRIVALS[1:]:
        async with call_of(database, "tenancy", tenant_id, minute) as connection:
            await connection.execute("UPDATE tenancy.subjects SET revision = $1", revision)
        async with call_of(database, "session", tenant_id, minute) as connection:
            await connection.execute("UPDATE session.sessions SET summary = $1", str(revision))

    subjects = {
        time: await seen_at(database, "tenancy", tenant_id, time, "SELECT revision FROM as_of.subjects")
        for time in OVERTAKEN
    }
    summaries = {
        time: await seen_at(database, "session", tenant_id, time, "SELECT summary::int FROM as_of.sessions")
        for time in OVERTAKEN
    }
    assert subjects == summaries == {time: [(revision,)] for time, revision in OVERTAKEN.items()}


async def test_a_second_update_by_one_call_keeps_what_was_there_before_the_first(database: TestDatabase) -> None:
    tenant_id = await new_tenant(database)
    await insert_subject_and_session(database, tenant_id)
    async with call_of(database, "session", tenant_id, 1) as connection:
        await connection.execute("UPDATE session.sessions SET summary = '2'")
        await connection.execute("UPDATE session.sessions SET summary = '3'")

    async with database.superuser() as connection:
        kept = await connection.fetch("SELECT summary FROM session.sessions_history WHERE tenant_id = $1", tenant_id)
    assert [row["summary"] for row in kept] == ["1"]


def test_items_are_looked_up_each_by_itself_within_a_range_of_months() -> None:
    statements = search_statements()
    lookup = re.compile(r"CROSS JOIN LATERAL \(\s+SELECT \w+\.\* FROM as_of\.(?:memories|messages)\b[^()]+BETWEEN")

    assert [name for name in LOOKUPS if not lookup.search(statements[name].text)] == []
    assert CONDITION not in "".join(query.text for query in statements.values())


@pytest.mark.system
async def test_lookups_open_the_months_of_their_ids_alone(database: TestDatabase) -> None:
    ids = [new_id(now()) for _ in range(3)]
    months = 24
    async with database.superuser() as connection:
        await connection.execute(
            "SELECT memory.ensure_month(now() - make_interval(months => ago)), "
            "session.ensure_month(now() - make_interval(months => ago)) FROM generate_series(1, $1) AS ago",
            months,
        )

    async with database.role("recall") as connection:
        await connection.execute(f"SET skein.tenant_id = '{uuid.uuid4()}'; SET plan_cache_mode = force_generic_plan")
        for name in LOOKUPS:
            query = with_condition(QUERIES[name], "true")
            known: dict[str, object] = {
                "memory_ids": ids,
                "message_ids": ids,
                "item_ids": ids,
                "tenant_id": uuid.uuid4(),
            }
            known |= {
                "names": [*"aaa"],
                "words": [*"aaa"],
                "language": "english",
                "show_superseded": False,
                "at": now(),
            }
            values = query.bind({argument: known[argument] for argument in query.arguments})
            texts = ["{" + ",".join(map(str, value)) + "}" if isinstance(value, list) else value for value in values]
            literals = ", ".join(f"'{text}'" for text in texts)
            await connection.execute(f"PREPARE {name} AS {query.text}")
            rows = await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE {name}({literals})")
            (plan,) = json.loads(rows)

            assert _months_removed(plan["Plan"]) >= months, name


def _months_removed(node: dict[str, Any]) -> int:
    below = (_months_removed(each) for each in node.get("Plans", ()))
    return int(node.get("Subplans Removed", 0)) + sum(below)
