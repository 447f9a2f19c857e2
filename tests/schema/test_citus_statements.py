"""Named statements and the catalog keep what Citus refuses out; no Citus is needed to tell."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import fix_citus_rules as rules
from fix_catalogue import over
from fix_database import TestDatabase
from fix_query_trees import analyze

from skein_cluster import registry
from skein_kit.database.named_queries import Queries

if TYPE_CHECKING:
    import asyncpg

    Connection = asyncpg.Connection[asyncpg.Record]

SCRIPT = (Path(__file__).parents[2] / "deploy/citus/distribute.sql").read_text("utf-8")
LOCAL_TABLES = set(re.findall(r"^--   (\S+)$", SCRIPT, re.MULTILINE))
DISTRIBUTED_TABLES = {
    name
    for names in re.findall(r"create_distributed_table\(.*\nFROM unnest\(ARRAY\[([^]]+)\]", SCRIPT)
    for name in re.findall(r"'([^']+)'", names)
}
COPIED_TABLES = [
    name
    for names in re.findall(r"create_reference_table\(.*\nFROM unnest\(ARRAY\[([^]]+)\]", SCRIPT)
    for name in re.findall(r"'([^']+)'", names)
]
# What is put in the places that statements leave open.
EXAMPLES = {
    "any_schema.": "memory.",
    "{table}": "embeddings_all_minilm_l6_v2",
    "{condition}": "true",
    "{column}": "memories.session_id",
    "{value}": "requested.value",
}
# Statements that break a rule, each with the reason.
ACCEPTED = {
    f"session.put_item: {rules.TRANSACTION_ID}": "xmax tells whether this very statement found a row, on any machine.",
}
# Columns whose default is an id of a transaction, each with the reason.
ACCEPTED_DEFAULTS = {
    "memory.changes.transaction": "Defaults are filled in by the coordinator, which is also asked for the horizon.",
    "memory.versions.until_transaction": "Read by replays alone, and no history is kept on Citus.",
    "recall.documents.insert_transaction": "The same.",
    "recall.documents_history.until_transaction": "The same.",
    "recall.embeddings_all_minilm_l6_v2_history.until_transaction": "The same.",
    "recall.documents.transaction": "The same; the term cache has the horizon of the vector cache.",
    "recall.embeddings_all_minilm_l6_v2.transaction": "The same; read_horizon of the vector cache names no table.",
}
# Copied tables that a role may write that also numbers rows by transaction. A transaction that wrote both would commit
# on the workers after the coordinator, and a reader would pass its rows. Each has the reason why none does.
ACCEPTED_COPIES = {
    "skein_recall: recall.embedding_models": "Operators' calls write it, which write no document and no vector.",
    "skein_recall: recall.reindexes": "The same; a failed model's reindex is marked before vectors are written.",
}


async def test_each_statement_keeps_the_rules(catalog: Connection) -> None:
    known = await rules.Rules.read(catalog, LOCAL_TABLES, DISTRIBUTED_TABLES)
    broken: dict[str, list[str]] = {}

    for service in ("kit", *registry.WITH_DATABASE):
        for query in Queries.load(f"skein_{service}").by_name.values():
            text = query.text
            for mark, example in EXAMPLES.items():
                text = text.replace(mark, example)
            if found := known.broken_by(await analyze(catalog, text)):
                broken[f"{service}.{query.name}"] = found

    assert [line for line in rules.lines(broken) if line not in ACCEPTED] == []
    assert set(ACCEPTED) <= set(rules.lines(broken))


async def test_each_statement_within_a_function_keeps_the_rules(catalog: Connection) -> None:
    known = await rules.Rules.read(catalog, LOCAL_TABLES, DISTRIBUTED_TABLES)
    trees = await rules.function_trees(catalog)

    broken = {f"{name}: {rule}" for name, tree in trees for rule in known.broken_by(tree)}

    assert broken == set()
    # The lists of the tenants with work run whole, whatever they are asked.
    assert {name for name, _ in trees} >= {"recall.list_backlog_tenants", "tenancy.list_usage_tenants"}
    assert await rules.generic_plans(catalog) == []


def test_a_constraint_is_never_known_by_the_field_that_a_worker_leaves_wrong() -> None:
    root = Path(__file__).parents[2]
    readers = {
        path.relative_to(root).as_posix()
        for folder in ("libs", "services")
        for path in (root / folder).rglob("*.py")
        if ".constraint_name" in path.read_text("utf-8")
    }

    # The first finds the name in the message as well; the second only writes it down.
    assert readers == {"libs/kit/skein_kit/database/postgres_errors.py", "libs/kit/skein_kit/telemetry/logs.py"}


async def test_the_catalog_keeps_the_rules(catalog: Connection) -> None:
    assert await rules.transaction_defaults(catalog) == sorted(ACCEPTED_DEFAULTS)
    assert await rules.updating_keys(catalog) == []
    assert await rules.unwritable_keys(catalog, COPIED_TABLES) == []
    assert await rules.partial_inserts(catalog, [*COPIED_TABLES, *DISTRIBUTED_TABLES]) == []
    assert await rules.copies_of_numbering_roles(catalog, COPIED_TABLES) == sorted(ACCEPTED_COPIES)


@over(
    ("statement", "rule"),
    [
        (
            (
                "DELETE FROM memory.tags WHERE tenant_id = $1 AND (memory_id, tag) IN "
                "(SELECT memory_id, tag FROM memory.tags WHERE tenant_id = $1 LIMIT 5)"
            ),
            rules.ROW_IN_SELECT,
        ),
        (
            (
                "WITH gone AS (UPDATE memory.tags SET position = 0 WHERE tenant_id = $1 AND (memory_id, tag) NOT IN "
                "(SELECT memory_id, tag FROM memory.tags WHERE tenant_id = $1) RETURNING tag) SELECT tag FROM gone"
            ),
            rules.ROW_IN_SELECT,
        ),
        (
            "INSERT INTO recall.corpora (tenant_id, kind) VALUES ($1, (SELECT 'memory'))",
            rules.SUBQUERY_IN_INSERT,
        ),
        (
            "INSERT INTO recall.corpora (tenant_id, kind) VALUES ($1, 'message'), ($1, (SELECT 'memory'))",
            rules.SUBQUERY_IN_INSERT,
        ),
        (
            (
                "INSERT INTO recall.corpora AS c (tenant_id, kind) VALUES ($1, 'memory') "
                "ON CONFLICT (tenant_id, kind) DO UPDATE SET (documents, length) = (SELECT c.documents, c.length)"
            ),
            rules.SUBQUERY_IN_INSERT,
        ),
        (
            (
                "INSERT INTO recall.corpora AS c (tenant_id, kind) VALUES ($1, 'memory') "
                "ON CONFLICT (tenant_id, kind) DO UPDATE SET documents = extract(epoch FROM now())"
            ),
            rules.MUTABLE_FUNCTION,
        ),
        (
            "UPDATE memory.webhooks SET retry_time = create_time + interval '1 day' WHERE tenant_id = $1",
            rules.MUTABLE_FUNCTION,
        ),
        (
            "UPDATE memory.webhooks SET display_name = display_name || create_time::text WHERE tenant_id = $1",
            rules.MUTABLE_FUNCTION,
        ),
        (
            (
                "UPDATE memory.webhooks SET retry_time = CASE WHEN is_active THEN CURRENT_TIMESTAMP END "
                "WHERE tenant_id = $1"
            ),
            rules.MUTABLE_FUNCTION,
        ),
        (
            (
                "SELECT change_id FROM memory.changes WHERE tenant_id = $1 "
                "AND transaction < pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
            ),
            rules.TRANSACTION_ID,
        ),
        (
            "SELECT change_id FROM memory.changes WHERE tenant_id = $1 AND xmin::text::bigint >= $2",
            rules.TRANSACTION_ID,
        ),
        (
            "SELECT change_id, pg_postmaster_start_time() FROM memory.changes WHERE tenant_id = $1",
            rules.SERVER_STATE,
        ),
        (
            (
                "SELECT change_id, coalesce(create_time, pg_postmaster_start_time()) "
                "FROM memory.changes WHERE tenant_id = $1"
            ),
            rules.SERVER_STATE,
        ),
        (
            (
                "SELECT m.role FROM tenancy.tenants AS t LEFT JOIN tenancy.memberships AS m "
                "ON m.tenant_id = t.tenant_id AND m.account_id = $2 WHERE t.tenant_id = $1"
            ),
            rules.OUTER_JOIN,
        ),
        (
            (
                "SELECT t.tenant_id FROM tenancy.tenants AS t WHERE EXISTS "
                "(SELECT FROM recall.reindex_progress AS d WHERE d.tenant_id = t.tenant_id)"
            ),
            rules.CORRELATED,
        ),
        (
            (
                "SELECT r.reindex_id, s.n FROM recall.reindexes AS r CROSS JOIN LATERAL "
                "(SELECT count(*) AS n FROM recall.reindex_progress AS d WHERE d.reindex_id = r.reindex_id) AS s"
            ),
            rules.CORRELATED,
        ),
        (
            (
                "WITH found (at) AS (SELECT d.record_time FROM recall.documents AS d WHERE d.tenant_id = $1 "
                "UNION ALL SELECT d.until_time FROM recall.documents_history AS d WHERE d.tenant_id = $1) "
                "SELECT at FROM found"
            ),
            rules.UNNAMED_UNION,
        ),
        (
            (
                "WITH granted AS (UPDATE auth.clients SET grant_expire_time = $2 WHERE client_id = $3) "
                "UPDATE auth.auth_sessions SET use_time = $2 WHERE tenant_id = $1"
            ),
            rules.OTHER_WRITE,
        ),
    ],
)
async def test_a_statement_that_breaks_a_rule_is_found(catalog: Connection, statement: str, rule: str) -> None:
    known = await rules.Rules.read(catalog, LOCAL_TABLES, DISTRIBUTED_TABLES)

    assert known.broken_by(await analyze(catalog, statement)) == [rule]


@over(
    "statement",
    [
        (
            "DELETE FROM memory.tags "
            "USING (SELECT memory_id, tag FROM memory.tags WHERE tenant_id = $1 LIMIT 5) AS picked "
            "WHERE tags.tenant_id = $1 AND tags.memory_id = picked.memory_id AND tags.tag = picked.tag"
        ),
        "DELETE FROM memory.links WHERE tenant_id = $1 AND link_id = ANY (ARRAY(SELECT link_id FROM memory.links))",
        (
            "SELECT tag FROM memory.tags WHERE tenant_id = $1 AND (memory_id, tag) IN "
            "(SELECT memory_id, tag FROM memory.tags WHERE tenant_id = $1)"
        ),
        "UPDATE memory.webhooks SET retry_time = now(), failures = failures + 1 WHERE tenant_id = $1",
        "SELECT pg_snapshot_xmin(pg_current_snapshot())",
        (
            "SELECT change_id, coalesce($2::timestamptz, pg_postmaster_start_time()) "
            "FROM memory.changes WHERE tenant_id = $1"
        ),
        (
            "SELECT m.role FROM tenancy.tenants AS t LEFT JOIN tenancy.memberships AS m "
            "ON m.tenant_id = $1 AND m.account_id = $2 WHERE t.tenant_id = $1"
        ),
        (
            "WITH found (at) AS (SELECT d.record_time AS at FROM recall.documents AS d WHERE d.tenant_id = $1 "
            "UNION ALL SELECT d.until_time FROM recall.documents_history AS d WHERE d.tenant_id = $1) "
            "SELECT at FROM found"
        ),
        # A local table.
        "UPDATE auth.attempts SET expire_time = expire_time + interval '1 day' WHERE kind = $1",
    ],
)
async def test_a_statement_that_keeps_the_rules_passes(catalog: Connection, statement: str) -> None:
    known = await rules.Rules.read(catalog, LOCAL_TABLES, DISTRIBUTED_TABLES)

    assert known.broken_by(await analyze(catalog, statement)) == []


async def test_what_breaks_a_rule_in_the_catalog_is_found(database: TestDatabase) -> None:
    async with database.superuser() as connection:
        before = await rules.transaction_defaults(connection)
        await connection.execute(
            """
            CREATE TABLE memory.shelves (
                tenant_id uuid REFERENCES tenancy.tenants (tenant_id) ON UPDATE CASCADE,
                transaction bigint DEFAULT (pg_current_xact_id()::text::bigint)
            )
            """
        )

        copied = ["memory.racks"]
        await connection.execute(
            "CREATE TABLE memory.racks (account_id uuid REFERENCES auth.accounts (account_id));"
            "GRANT INSERT (account_id) ON memory.racks TO skein_memory"
        )
        racks = ["skein_memory: memory.racks names auth.accounts"]
        assert await rules.partial_inserts(connection, copied) == ["skein_memory: memory.racks"]

        assert await rules.unwritable_keys(connection, copied) == racks
        assert await rules.copies_of_numbering_roles(connection, copied) == ["skein_memory: memory.racks"]
        assert await rules.updating_keys(connection) == ["memory.shelves.shelves_tenant_id_fkey"]
        assert set(await rules.transaction_defaults(connection)) - set(before) == {"memory.shelves.transaction"}
