"""Conditions in the database: each means there what it means in Python, for any memory or message."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

import pytest
from fix_database import TestDatabase
from fix_filtering import EXPRESSIONS, ITEM_EXPRESSIONS, MEMORIES
from fix_filtering import MESSAGES as MESSAGE_ROWS
from hypothesis import HealthCheck, Phase, given, settings

from skein_kit.database.named_queries import Query, with_condition
from skein_kit.filters.compiler import ENTRIES, MESSAGES, VERSIONS, FilterTable, compile_to_sql
from skein_kit.filters.evaluator import matches
from skein_kit.filters.expression import Expression, format_expression
from skein_kit.filters.item_kinds import for_kind
from skein_kit.ids import new_ids, now

TENANT = uuid.UUID(int=1)
ROWS = 60
COLUMNS = (
    "external_id", "type", "title", "key", "content", "data", "source", "source_agent", "agent_id", "subject_id",
    "session_id", "scope", "level", "confidence", "importance", "expire_time", "archive_time", "valid_from_time",
    "valid_to_time", "metadata", "delete_time", "revision", "create_time", "update_time", "created_by", "updated_by",
)  # fmt: skip
ASKED = {
    ENTRIES.name: Query.parse(
        "asked", "SELECT memory_id, ({condition}) AS holds FROM memory.memories WHERE tenant_id = :tenant_id"
    ),
    VERSIONS.name: Query.parse(
        "asked", "SELECT memory_id, ({condition}) AS holds FROM memory.versions WHERE tenant_id = :tenant_id"
    ),
}
MESSAGES_PASSING = Query.parse(
    "passing", "SELECT message_id, ({condition}) AS passes FROM session.messages WHERE tenant_id = :tenant_id"
)


def some(strategy: Any, count: int) -> list[Any]:
    """Draw what hypothesis thinks of; it is held against the database afterwards, all at once."""
    results: list[Any] = []

    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(value: Any) -> None:
        results.append(value)

    draw()
    return results


async def fill(database: TestDatabase, memories: dict[uuid.UUID, dict[str, Any]]) -> None:
    entries, versions, tags = [], [], []
    for id_, memory in memories.items():
        row = {**memory, "data": _json(memory["data"]), "metadata": _json(memory["metadata"])}
        values = [row[name] for name in COLUMNS]
        digest = hashlib.sha256(f"{memory['type']}\n{memory['content']}".encode()).digest()
        memory["content_hash"], memory["is_active"] = digest.hex(), memory["delete_time"] is None
        entries.append((TENANT, id_, digest, memory["is_active"], *values))
        versions.append((TENANT, id_, now(), memory["tags"], *values))
        tags += [(TENANT, id_, tag) for tag in memory["tags"]]
    names = ", ".join(COLUMNS)
    places = ", ".join(f"${n}" for n in range(1, len(COLUMNS) + 5))
    async with database.superuser() as connection:
        # Without the tenant's row, which matters to foreign keys alone.
        await connection.execute("SET session_replication_role = replica; SELECT memory.ensure_month(now())")
        await connection.executemany(
            f"INSERT INTO memory.memories (tenant_id, memory_id, content_hash, is_active, {names}) VALUES ({places})",  # noqa: S608 - constants.
            entries,
        )
        await connection.executemany(
            f"INSERT INTO memory.versions (tenant_id, memory_id, until_time, tags, {names}) VALUES ({places})",  # noqa: S608
            versions,
        )
        await connection.executemany("INSERT INTO memory.tags (tenant_id, memory_id, tag) VALUES ($1, $2, $3)", tags)


def _json(value: object) -> str | None:
    return None if value is None else json.dumps(value)


async def test_a_condition_holds_in_the_database_for_the_memories_that_it_holds_for_in_python(
    database: TestDatabase,
) -> None:
    drawn = some(MEMORIES, ROWS)
    memories = dict(zip(new_ids(now(), len(drawn)), drawn, strict=True))
    await fill(database, memories)

    async def passing(source: FilterTable, expression: Expression) -> set[uuid.UUID]:
        condition = compile_to_sql(expression, source)
        query = with_condition(ASKED[source.name], condition.text)
        rows = await connection.fetch(query.text, *query.bind({"tenant_id": TENANT, **condition.values}))
        assert {row["holds"] for row in rows} <= {True, False}
        return {row["memory_id"] for row in rows if row["holds"]}

    async with database.role("memory") as connection:
        await connection.execute(f"SET skein.tenant_id = '{TENANT}'")
        for expression in some(EXPRESSIONS, 600):
            expected = {id_ for id_, memory in memories.items() if matches(expression, memory)}

            assert await passing(ENTRIES, expression) == expected, format_expression(expression)
            assert await passing(VERSIONS, expression) == expected, format_expression(expression)


@pytest.mark.system
async def test_a_condition_holds_in_the_database_for_the_messages_that_it_holds_for_in_python(
    database: TestDatabase,
) -> None:
    drawn = some(MESSAGE_ROWS, ROWS)
    messages = dict(zip(new_ids(now(), len(drawn)), drawn, strict=True))
    names = list(drawn[0])
    async with database.superuser() as connection:
        # Without the rows of the tenant and the session, which matter to foreign keys alone.
        await connection.execute("SET session_replication_role = replica; SELECT session.ensure_month(now())")
        await connection.executemany(
            f"INSERT INTO session.messages (tenant_id, message_id, {', '.join(names)}) "  # noqa: S608 - constants.
            f"VALUES ({', '.join(f'${n}' for n in range(1, len(names) + 3))})",
            [
                (TENANT, id_, *(_json(row[name]) if name == "metadata" else row[name] for name in names))
                for id_, row in messages.items()
            ],
        )

    # Until the first update, its time and its author are those of the creation.
    items = {
        id_: {
            **row,
            "update_time": row["update_time"] or row["create_time"],
            "updated_by": row["updated_by"] or row["created_by"],
        }
        for id_, row in messages.items()
    }
    tested = 0
    async with database.role("recall") as connection:
        await connection.execute(f"SET skein.tenant_id = '{TENANT}'")
        for expression in some(ITEM_EXPRESSIONS, 600):
            remaining = for_kind(expression, "message")
            if isinstance(remaining, bool):
                continue
            tested += 1
            condition = compile_to_sql(remaining, MESSAGES)
            query = with_condition(MESSAGES_PASSING, condition.text)
            rows = await connection.fetch(query.text, *query.bind({"tenant_id": TENANT, **condition.values}))

            expected = {id_ for id_, item in items.items() if matches(expression, {**item, "kind": "message"})}
            assert {row["passes"] for row in rows} <= {True, False}
            assert {row["message_id"] for row in rows if row["passes"]} == expected, format_expression(expression)
    assert tested > 100
