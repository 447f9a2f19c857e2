from __future__ import annotations

import asyncio
import dataclasses
import uuid
from datetime import UTC, datetime

import asyncpg
import pytest
from fix_database import TestDatabase

from skein_cluster import embedded, registry
from skein_cluster.embedded.server import Server
from skein_kit import ids
from skein_kit.database.schema_migrations import MigrationError, migrate, version


async def test_migrating_again_changes_nothing(database: TestDatabase) -> None:
    assert await migrate(database.url, registry.migrations(), registry.WITH_DATABASE) == []


async def test_two_migrations_at_once_apply_each_file_once(server: Server, template: str) -> None:
    assert template
    name = f"race_{uuid.uuid4().hex}"
    await embedded.create_database(server, name)
    url = server.url(user="postgres", database=name)

    one, other = await asyncio.gather(*(migrate(url, registry.migrations(), registry.WITH_DATABASE) for _ in range(2)))

    assert sorted(one + other) == registry.migrations()
    await embedded.drop_database(server, name)


async def test_a_file_changed_after_it_was_applied_is_refused(database: TestDatabase) -> None:
    first, *rest = registry.migrations()
    changed = [dataclasses.replace(first, text=first.text + "\n-- more"), *rest]

    with pytest.raises(MigrationError, match="0001_create_tenancy changed"):
        await migrate(database.url, changed, registry.WITH_DATABASE)


async def test_a_failing_migration_leaves_nothing_behind(database: TestDatabase) -> None:
    last = registry.migrations()[-1]
    broken = dataclasses.replace(
        last, number=last.number + 1, name="broken", text="CREATE TABLE skein.half (x int); SELECT 1 / 0;"
    )

    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrate(database.url, [*registry.migrations(), broken], registry.WITH_DATABASE)

    async with database.superuser() as connection:
        assert await version(connection) == last.number
        assert await connection.fetchval("SELECT to_regclass('skein.half')") is None


async def test_a_blocked_migration_gives_up_in_time_says_so_and_leaves_nothing(database: TestDatabase) -> None:
    last = registry.migrations()[-1]
    first, second = (
        dataclasses.replace(last, number=last.number + number, name=name, text=text)
        for number, name, text in (
            (1, "free", "CREATE TABLE skein.whole (x int)"),
            (2, "blocked", "CREATE TABLE skein.half (x int); ALTER TABLE memory.memories ADD COLUMN half int"),
        )
    )

    async with database.superuser() as reader, reader.transaction():
        await reader.fetch("SELECT FROM memory.memories")
        with pytest.raises(MigrationError, match=r"_blocked waited too long for a lock .* run `skein migrate` again"):
            await migrate(
                database.url, [*registry.migrations(), first, second], registry.WITH_DATABASE, lock_seconds=0.05
            )
        read = await reader.fetchval("SELECT count(*) FROM memory.memories")

    async with database.superuser() as connection:
        assert read == 0
        assert await version(connection) == first.number
        assert await connection.fetchval("SELECT to_regclass('skein.half')") is None
    applied = await migrate(database.url, [*registry.migrations(), first, second], registry.WITH_DATABASE)
    assert applied == [second]


async def test_months_are_made_once_also_by_several_at_a_time(database: TestDatabase) -> None:
    month = datetime(2031, 5, 17, tzinfo=UTC)

    async def make() -> bool:
        async with database.role("memory") as connection:
            return bool(await connection.fetchval("SELECT memory.ensure_month($1)", month))

    assert sorted(await asyncio.gather(*(make() for _ in range(4)))) == [False, False, False, True]


async def test_the_database_and_the_code_agree_on_the_first_id_of_a_time(database: TestDatabase) -> None:
    times = [datetime(2015, 1, 1, tzinfo=UTC), datetime(2026, 11, 21, 3, 4, 5, 678000, tzinfo=UTC)]

    async with database.superuser() as connection:
        for time in times:
            assert await connection.fetchval("SELECT skein.first_id($1)", time) == ids.min_id_at(time)


async def test_a_partition_cannot_be_read_past_the_parent(database: TestDatabase) -> None:
    async with database.role("memory") as connection:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetch("SELECT * FROM memory.memories_before_2015")


@pytest.mark.parametrize("service", ["auth", "tenancy", "session", "memory", "recall"])
async def test_without_a_tenant_a_service_sees_no_row_of_anybody(database: TestDatabase, service: str) -> None:
    tenant_id, organization_id, now = ids.new_id(ids.now()), ids.new_id(ids.now()), ids.now()
    async with database.superuser() as connection:
        await connection.execute(
            "INSERT INTO tenancy.organizations VALUES ($1, 'o', 'o', NULL, true, 1, $2, $2)", organization_id, now
        )
        await connection.execute(
            "INSERT INTO tenancy.tenants VALUES ($1, $2, 't', 't', NULL, true, 1, $3, $3)",
            tenant_id,
            organization_id,
            now,
        )
        await connection.execute(
            "INSERT INTO session.sessions"
            " (tenant_id, session_id, state, session_type, create_time, update_time, created_by)"
            " VALUES ($1, 's', 'active', 'conversation', $2, $2, 'x')",
            tenant_id,
            now,
        )
        await connection.execute(
            "INSERT INTO tenancy.agents"
            " (tenant_id, agent_id, display_name, create_time, update_time, created_by, updated_by)"
            " VALUES ($1, 'a', 'a', $2, $2, 'x', 'x')",
            tenant_id,
            now,
        )
        tables = await connection.fetch(
            "SELECT table_schema || '.' || table_name AS name FROM information_schema.role_table_grants g "
            "WHERE grantee = $1 AND privilege_type = 'SELECT' AND EXISTS (SELECT FROM information_schema.columns c "
            "WHERE (c.table_schema, c.table_name, c.column_name) = (g.table_schema, g.table_name, 'tenant_id'))",
            f"skein_{service}",
        )
    assert tables

    async with database.role(service) as connection:
        for table in tables:
            assert await connection.fetchval(f"SELECT count(*) FROM {table['name']}") == 0  # noqa: S608 - the catalog's.
