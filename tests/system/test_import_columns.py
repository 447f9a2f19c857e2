"""Every column of every source system counts: with another value or none, the records or the report are others.

The tables are those of the systems' own DDL, each with one row and a value in each column.
"""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from fix_moving import a_database
from fix_stores import AGENTMEM, DUYETBOT, DUYETBOT_ITEMS, LETTA, LONGTERM, MEMORYVAULT, ORCHESTRATOR

from skein_importers.records import Record
from skein_importers.sources import FORMATS
from skein_importers.sources.base import Notes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
    from pathlib import Path

    from fix_cluster import Cluster

    # Sets a column of a table's rows.
    Set = Callable[[str, str, object], Awaitable[None]]
    Columns = Mapping[str, Mapping[str, str]]

T0 = 1_709_281_800
SOON = int((datetime.now(UTC) + timedelta(days=9)).timestamp())
# Values that the rows need to belong together; any other column has a value of its type.
SQLITE: dict[str, tuple[str, dict[str, Any]]] = {
    "duyetbot-d1": (
        DUYETBOT + DUYETBOT_ITEMS,
        {
            "memory_users.id": "u", "user_id": "u", "memory_sessions.id": "s", "session_id": "s", "role": "assistant",
            "state": "archived", "importance": 3, "metadata": '{"a": 1}', "category": "fact", "expires_at": SOON,
        },
    ),
    "longterm-d1": (LONGTERM, {"metadata": '{"a": 1}'}),
    "memoryvault-d1": (
        MEMORYVAULT,
        {
            "brains.id": "b", "brain_id": "b", "users.id": "u", "user_id": "u", "owner_user_id": "u",
            "email": "a@b.org", "role": "admin", "memories.id": "m",
            "type": "fact", "confidence": 0.4, "importance": 0.3,
            "from_id": "m", "to_id": "m", "a_id": "m", "b_id": "m", "canonical_id": "m", "canonical_memory_id": "m",
            "alias_memory_id": "m", "status": "resolved", "trust": 0.2, "event_types": '["memory_saved"]',
            "redirect_uris": '["https://a.org/b"]', "grant_types": '["authorization_code"]',
            "response_types": '["code"]', "policy_json": '{"decay_days": 9}', "client_secret_hash": "ab" * 32,
            "token_endpoint_auth_method": "client_secret_post", "webhook_url": "https://a.org/hook",
        },
    ),
}  # fmt: skip
POSTGRES: dict[str, tuple[str, dict[str, Any]]] = {
    "agentmem-pg": (
        AGENTMEM,
        {
            "organizations.id": "o", "organization_id": "o", "users.id": "u", "user_id": "u", "agents.id": "a",
            "agent_id": "a", "tools.id": "t", "tool_id": "t", "blocks.id": "k", "block_id": "k", "role": "assistant",
            "timezone": "Europe/Vienna", "scope": "session", "level": "tactical", "status": "suspended",
            "limit": 5000, "mcp_tools": '["files"]', "tags": '["web"]', "importance": 0.3, "is_deleted": False,
        },
    ),
    "letta-pg": (
        LETTA,
        {
            "organizations.id": "o", "organization_id": "o", "identities.id": "i", "identity_id": "i",
            "agents.id": "a", "agent_id": "a", "tools.id": "t", "tool_id": "t", "block.id": "k", "block_id": "k",
            "archive_id": "v", "role": "assistant", "limit": 5000, "is_deleted": False, "embedding": "[0.1,0.1,0.1]",
            "content": '[{"type": "text", "text": "tea"}]', "tags": '["web"]', "agents_tags.tag": "web",
            "tool_calls": '[{"name": "search"}]',
        },
    ),
    "orchestrator-pg": (
        ORCHESTRATOR,
        {
            "sessions.session_id": "s", "session_id": "s", "memory_entries.memory_id": "m", "memory_id": "m",
            "source_memory_id": "m", "target_memory_id": "m", "priority": 3, "is_active": True,
            "content": '{"text": "tea"}', "expires_at": datetime.fromtimestamp(SOON, UTC).replace(tzinfo=None),
            "embedding": "[" + ",".join(["0.1"] * 1536) + "]", "embedding_model": "m1", "user_profiles.user_id": "u",
            "user_id": "u",
        },
    ),
}  # fmt: skip


def value_of(table: str, column: str, kind: str, number: int, values: Mapping[str, Any]) -> Any:
    """Return the value of a column: a given one, or one of its type that no other column has."""
    for name in (f"{table}.{column}", column):
        if name in values:
            return values[name]
    kind = kind.lower()
    if "timestamp" in kind or (column.endswith(("_at", "timestamp")) and "text" not in kind):
        time = datetime.fromtimestamp(T0 + number, UTC)
        return T0 + number if "int" in kind else time if "with time zone" in kind else time.replace(tzinfo=None)
    if "json" in kind:
        return f'{{"{column}": true}}'
    if "bool" in kind:
        return True
    if any(name in kind for name in ("int", "serial", "real", "double")):
        return number
    return column


def outcome(form: str, source: str) -> list[str]:
    """Read a source as an import does; return its realms, records and accounts, and the report."""
    notes = Notes()
    with FORMATS[form].open(source) as opened:
        realms = opened.tenants()
        entries = [entry for realm in realms for entry in opened.records(realm, notes)]
        accounts = list(opened.accounts(notes))
    lines = [f"{realm} {realm.times}" for realm in realms]
    for entry in entries:
        if isinstance(entry, Record):
            if "ttl" in entry.item.DESCRIPTOR.fields_by_name:
                # The time from now until expire_time.
                entry.item.ClearField("ttl")
            lines.append(f"{entry.kind} {entry.item}")
        else:
            lines.append(str(entry))
    lines += [str(account) for account in accounts]
    return [*lines, *map(str, sorted(notes.conversions)), *map(str, sorted(notes.ignored.items()))]


def left_tables(form: str, source: str) -> set[str]:
    """Return the tables that the report says are ignored as a whole."""
    notes = Notes()
    with FORMATS[form].open(source) as opened:
        records = [entry.table for realm in opened.tenants() for entry in opened.records(realm, notes)]
        list(opened.accounts(notes))
    return {table for table, _ in notes.ignored} - set(records)


async def unaccounted(form: str, source: str, columns: Columns, values: Mapping[str, Any], change: Set) -> list[str]:
    """Return the columns whose value changes neither a record nor the report, and whose absence does not either."""
    whole = await asyncio.to_thread(outcome, form, source)
    left = await asyncio.to_thread(left_tables, form, source)
    numbers = itertools.count(2)
    dropped = []
    for table, kinds in columns.items():
        for column, kind in kinds.items():
            value = value_of(table, column, kind, next(numbers), values)
            if table in left:
                continue
            dropped.append(f"{table}.{column}")
            for changed in (_other(value), None):
                await change(table, column, changed)
                if await asyncio.to_thread(outcome, form, source) != whole:
                    dropped.pop()
                    break
            await change(table, column, value)
    return dropped


def _other(value: Any) -> Any:
    """Return another value of the same type."""
    if isinstance(value, str) and value.startswith("[0."):
        return value.replace("0.1", "0.2")
    if isinstance(value, str):
        return '{"other": 1}' if value.startswith("{") else '["other"]' if value.startswith("[") else "other"
    if isinstance(value, datetime):
        return value + timedelta(days=1)
    return not value if isinstance(value, bool) else value + 1


@pytest.mark.parametrize("form", SQLITE)
async def test_every_column_of_an_sqlite_source_counts(tmp_path: Path, form: str) -> None:
    ddl, values = SQLITE[form]
    path = tmp_path / "source.sqlite"
    with closing(sqlite3.connect(":memory:")) as model, closing(sqlite3.connect(path, isolation_level=None)) as file:
        model.executescript(ddl)
        columns = dict(_sqlite_columns(model))
        numbers = itertools.count(2)
        for table, kinds in columns.items():
            # Without constraints, so that any value can be missing.
            names = ", ".join(f'"{name}"' for name in kinds)
            file.execute(f'CREATE TABLE "{table}" ({names})')
            row = [value_of(table, column, kind, next(numbers), values) for column, kind in kinds.items()]
            file.execute(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(row))})', row)  # noqa: S608 - our names.

        async def change(table: str, column: str, value: object) -> None:
            file.execute(f'UPDATE "{table}" SET "{column}" = ?', (value,))  # noqa: S608 - our names.

        assert await unaccounted(form, str(path), columns, values, change) == []


@pytest.mark.parametrize("form", POSTGRES)
async def test_every_column_of_a_postgres_source_counts(cluster: Cluster, form: str) -> None:
    ddl, values = POSTGRES[form]
    async with _postgres_source(cluster, ddl, values) as (url, columns, change):
        assert await unaccounted(form, url, columns, values, change) == []


def _sqlite_columns(model: sqlite3.Connection) -> Iterator[tuple[str, dict[str, str]]]:
    tables = model.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'").fetchall()
    for (table,) in tables:
        yield table, dict(model.execute("SELECT name, type FROM pragma_table_info(?)", (table,)).fetchall())


@asynccontextmanager
async def _postgres_source(
    cluster: Cluster, ddl: str, values: Mapping[str, Any]
) -> AsyncIterator[tuple[str, Columns, Set]]:
    async with a_database(cluster, ddl) as (url, connection):
        rows = await connection.fetch(
            "SELECT table_name, column_name, data_type FROM information_schema.columns "
            "WHERE table_schema = 'public' ORDER BY table_name, ordinal_position"
        )
        columns: dict[str, dict[str, str]] = {}
        for row in rows:
            columns.setdefault(row["table_name"], {})[row["column_name"]] = row["data_type"]
        numbers = itertools.count(2)
        for table, kinds in columns.items():
            # Without constraints and generated columns, so that any value can be missing.
            await connection.execute(f'ALTER TABLE "{table}" RENAME TO "model_{table}"')
            await connection.execute(f'CREATE TABLE "{table}" AS SELECT * FROM "model_{table}" WITH NO DATA')  # noqa: S608 - our names.
            line = [value_of(table, column, kind, next(numbers), values) for column, kind in kinds.items()]
            places = ", ".join(
                f"${number}::text::{kind}" if kind in {"USER-DEFINED", "json", "jsonb"} else f"${number}"
                for number, kind in enumerate(kinds.values(), 1)
            ).replace("USER-DEFINED", "vector")
            await connection.execute(f'INSERT INTO "{table}" VALUES ({places})', *line)  # noqa: S608 - our names.

        async def change(table: str, column: str, value: object) -> None:
            kind = columns[table][column].replace("USER-DEFINED", "vector")
            cast = f"$1::text::{kind}" if kind in {"vector", "json", "jsonb"} else "$1"
            await connection.execute(f'UPDATE "{table}" SET "{column}" = {cast}', value)  # noqa: S608 - our names.

        yield url, columns, change
