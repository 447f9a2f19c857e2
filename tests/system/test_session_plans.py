"""The plans of the session service's queries, as its own role sees them: each reads an index, none reads a table."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from fix_database import TestDatabase

from skein_kit.database.named_queries import Queries, with_condition
from skein_kit.ids import min_id_at, new_id, now

QUERIES = Queries.load("skein_session")
TENANT = UUID(int=1)
# Five tenants with 4,000 sessions each, of which every tenth is hidden and every hundredth still active, and as many
# messages; an extractor has read the newest hundred of the first one. Without the checks of foreign keys, which would
# take most of the time.
FILL = """
    SELECT session.ensure_month(now() - interval '1 month'), session.ensure_month(now());
    SET session_replication_role = replica;
    INSERT INTO session.sessions
        (tenant_id, session_id, state, hidden_state, session_type, subject_id, agent_id, create_time, update_time,
         active_time, created_by, is_active)
    SELECT lpad(to_hex(1 + n % 5), 32, '0')::uuid, 'session ' || n,
           CASE WHEN n / 5 % 10 = 0 THEN 'hidden' WHEN n / 5 % 100 = 1 THEN 'active' ELSE 'ended' END,
           CASE WHEN n / 5 % 10 = 0 THEN 'ended' END,
           CASE WHEN n / 5 % 50 = 3 THEN 'task' ELSE 'conversation' END, 'subject ' || n % 300, 'agent ' || n % 300,
           now() - make_interval(mins => n), now() - make_interval(mins => n), now() - make_interval(mins => n), 'test',
           n / 5 % 7 <> 0
    FROM generate_series(1, 20000) AS n;
    INSERT INTO session.session_properties (tenant_id, path, value, session_id)
    SELECT tenant_id, 'metadata.room', '"room ' || substr(session_id, 9, 2) || '"', session_id FROM session.sessions;
    INSERT INTO session.messages
        (tenant_id, message_id, session_id, sequence, role, content, subject_id, agent_id, create_time, created_by)
    SELECT lpad(to_hex(1 + n % 5), 32, '0')::uuid,
           (lpad(to_hex((extract(epoch FROM now() - n * interval '1 minute') * 1000)::bigint), 12, '0') || '7'
            || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid,
           'session ' || n, 1, 'user', 'text', 'subject ' || n % 300, 'agent ' || n % 300, now(), 'test'
    FROM generate_series(1, 20000) AS n;
    INSERT INTO session.message_order SELECT tenant_id, session_id, sequence, message_id FROM session.messages;
    INSERT INTO session.extracted_messages (tenant_id, message_id, extractor, revision)
    SELECT tenant_id, message_id, 'extractor:a@1', 1 FROM session.messages
    WHERE tenant_id = lpad('1', 32, '0')::uuid ORDER BY message_id DESC LIMIT 100;
    ANALYZE session.sessions, session.session_properties, session.messages, session.message_order;
"""


@pytest.fixture
async def connection(database: TestDatabase) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection of the service in a database of five tenants."""
    async with database.superuser() as superuser:
        await superuser.execute(FILL)
    async with database.role("session") as connection:
        await connection.execute(f"SET skein.tenant_id = '{TENANT}'")
        # A month with hardly a row in it is rightly read whole; the question is whether an index can serve.
        await connection.execute("SET enable_seqscan = off")
        yield connection


async def plan(connection: asyncpg.Connection[asyncpg.Record], name: str, **values: Any) -> str:
    """Return the plan of a query; conditions that are not given are null."""
    query = with_condition(QUERIES[name], "content ILIKE :pattern") if name == "messages_containing" else QUERIES[name]
    bound = query.bind(dict.fromkeys(query.arguments) | {"tenant_id": TENANT} | values)
    rows = await connection.fetch(f"EXPLAIN {query.text}", *bound)
    return "\n".join(row[0] for row in rows)


AT = now()
LISTED: list[tuple[dict[str, Any], str]] = [
    ({}, "sessions_update_time"),
    ({"after_time": AT - timedelta(days=1), "after_id": "x"}, "sessions_update_time"),
    ({"of_subject_id": "subject 5", "subject_id": "subject 5"}, "sessions_subject"),
    ({"of_agent_id": "agent 5", "agent_id": "agent 5"}, "sessions_agent"),
    ({"of_session_type": "task", "session_type": "task"}, "sessions_session_type"),
    ({"of_session_ids": ["session 5", "session 10"]}, "sessions_pkey"),
    ({"current": False, "hidden": True, "states": ["hidden"]}, "sessions_hidden"),
    ({"path_1": "metadata.room", "value_1": '"room 10"'}, "session_properties_"),
]
READ: list[tuple[str, dict[str, Any], str]] = [
    (
        "sessions_with_property",
        {"path": "metadata.room", "value": '"room 10"', "count": 1000},
        "session_properties_pkey",
    ),
    ("end_idle_sessions", {"idle_cutoff": AT - timedelta(days=1), "at": AT, "count": 500}, "sessions_open"),
    ("messages_of_agent", {"agent_id": "agent 5", "window": 1000}, "agent_id_message_id_idx"),
    ("messages_of_subject", {"subject_id": "subject 5", "window": 1000}, "subject_id_message_id_idx"),
    ("next_session_to_inherit", {}, "sessions_uninherited"),
    ("newest_messages", {"count": 5000}, "_pkey"),
    ("messages_containing", {"message_ids": [new_id(AT)], "pattern": "%x%", "count": 10}, "_pkey"),
    ("messages_with_term", {"term": "kettl", "count": 5000}, "postings_"),
    ("rarest_term", {"words": "red kettle", "count": 5000}, "postings_"),
    (
        "find_backfill_messages",
        {"roles": ["user"], "extractor": "extractor:a@1", "window": 2000, "count": 32, "first_id": UUID(int=0)},
        "_pkey",
    ),
    ("skip_backfill_window", {"window": 2000, "create_time": AT, "at": AT, "first_id": UUID(int=0)}, "_pkey"),
    ("lease_session", {"at": AT, "lease_end_time": AT}, "extractions_"),
    ("read_queued", {"session_id": "session 5", "count": 32}, "extraction_messages_"),
]


async def test_every_list_of_sessions_walks_an_index(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    page = {"current": True, "hidden": False, "window": 1000, "limit": 51}

    for conditions, index in LISTED:
        text = await plan(connection, "list_sessions", **(page | conditions))
        assert "Seq Scan" not in text, text
        assert index in text, text
    again = {"updated_after": AT - timedelta(minutes=30), "created_until": AT, "after_id": ""}
    text = await plan(connection, "list_sessions_second_pass", **page, **again)
    assert "Seq Scan" not in text, text
    assert "sessions_update_time" in text, text


async def test_a_page_looks_at_no_more_than_its_window(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    query = QUERIES["list_sessions"]
    values = {"tenant_id": TENANT, "current": True, "hidden": False, "window": 100, "limit": 51, "states": ["paused"]}
    rows = await connection.fetch(query.text, *query.bind(dict.fromkeys(query.arguments) | values))

    (row,) = rows
    assert (row["scanned_count"], row["session_id"]) == (100, None)
    assert row["last_time"] < row["newest_update_time"]


async def test_every_other_read_uses_an_index(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    ids = {"from_id": min_id_at(AT - timedelta(days=10)), "before_id": min_id_at(AT)}

    for name, values, index in READ:
        needed = {key: value for key, value in ids.items() if key in QUERIES[name].parameters}
        text = await plan(connection, name, **needed, **values)
        assert "Seq Scan" not in text, text
        assert index in text, text


async def test_a_backfill_looks_at_no_more_than_its_window(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    query = QUERIES["find_backfill_messages"]
    values: dict[str, Any] = {
        "tenant_id": TENANT,
        "first_id": UUID(int=0),
        "before_id": UUID(int=2**128 - 1),
        "roles": ["user"],
        "extractor": "extractor:a@1",
        "count": 32,
    }

    rows = [await connection.fetch(query.text, *query.bind({**values, "window": window})) for window in (100, 110)]

    assert [len(found) for found in rows] == [0, 10]
