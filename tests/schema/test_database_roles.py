"""Roles belong to the server: what a migration gives them, and what one of a second database leaves alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fix_own_postgres import PasswordServer, password_server

from skein_cluster import registry
from skein_kit.database.citus import SETTINGS
from skein_kit.database.schema_migrations import OWNER, MigrationError, migrate

PASSWORDS = {name: f"of {name}" for name in registry.WITH_DATABASE}


@pytest.fixture
async def server() -> AsyncIterator[PasswordServer]:
    """A server without roles of ours."""
    async with password_server() as running:
        yield running


async def created(server: PasswordServer, name: str) -> str:
    async with server.superuser() as connection:
        await connection.execute(f"CREATE DATABASE {name}")
    return server.url("postgres", name)


async def prepared(url: str, *, citus: bool = False, passwords: dict[str, str] | None = None) -> None:
    """Do all that a migration does but its files."""
    await migrate(url, [], registry.WITH_DATABASE, passwords=passwords, citus=citus)


async def roles(server: PasswordServer) -> dict[str, Any]:
    """Return our roles and memberships, with the transactions that wrote them last."""
    async with server.superuser() as connection:
        rows = await connection.fetch(
            "SELECT rolname, xmin::text, to_jsonb(r)::text AS all FROM pg_authid AS r WHERE rolname LIKE 'skein%'"
        )
        members = await connection.fetch("SELECT member::regrole::text, xmin::text FROM pg_auth_members")
    return {row["rolname"]: (row["xmin"], row["all"]) for row in rows} | {row["member"]: row["xmin"] for row in members}


async def rights(server: PasswordServer) -> tuple[bool, bool]:
    """Return whether the owner logs in, and whether it bypasses row-level security."""
    async with server.superuser() as connection:
        row = await connection.fetchrow("SELECT rolcanlogin, rolbypassrls FROM pg_roles WHERE rolname = $1", OWNER)
    assert row is not None
    return row["rolcanlogin"], row["rolbypassrls"]


async def settings(server: PasswordServer, database: str) -> dict[str, str]:
    """Return the settings of a database that a new connection has."""
    async with server.superuser(database) as connection:
        return {name: await connection.fetchval("SELECT current_setting($1, true)", name) for name in SETTINGS}


@pytest.mark.parametrize("citus", [False, True])
async def test_a_second_database_alters_no_role_that_is_there(server: PasswordServer, *, citus: bool) -> None:
    await prepared(await created(server, "first"), citus=citus, passwords=PASSWORDS)
    before = await roles(server)

    await prepared(await created(server, "second"), citus=citus, passwords=PASSWORDS)

    assert await roles(server) == before
    assert await settings(server, "second") == (dict(SETTINGS) if citus else dict.fromkeys(SETTINGS))


@pytest.mark.system
async def test_databases_that_are_prepared_at_the_same_time_do_not_fail(server: PasswordServer) -> None:
    urls = [await created(server, f"at_once_{number}") for number in range(4)]

    await asyncio.gather(*(prepared(url, citus=True, passwords=PASSWORDS) for url in urls))

    assert await rights(server) == (True, True)


@pytest.mark.system
async def test_only_citus_lets_the_owner_log_in_and_bypass_row_level_security(server: PasswordServer) -> None:
    url = await created(server, "plain")
    await prepared(url)
    before, unset = await rights(server), await settings(server, "plain")

    await prepared(url, citus=True)

    assert (before, unset) == ((False, False), dict.fromkeys(SETTINGS))
    assert (await rights(server), await settings(server, "plain")) == ((True, True), dict(SETTINGS))


@pytest.mark.system
async def test_a_migration_without_the_choice_takes_nothing_back(server: PasswordServer) -> None:
    url = await created(server, "kept")
    await prepared(url, citus=True)

    await prepared(url)

    assert await rights(server) == (True, True)


@pytest.mark.system
async def test_the_owner_is_told_what_a_superuser_has_to_run_for_citus(server: PasswordServer) -> None:
    url = await created(server, "owned")
    await prepared(url)
    async with server.superuser() as connection:
        await connection.execute(f"ALTER ROLE {OWNER} LOGIN PASSWORD 'x'")

    with pytest.raises(MigrationError) as refused:
        await prepared(server.url(OWNER, "owned", "x"), citus=True)
    statements = str(refused.value).partition("let one run: ")[2].rstrip(".").split("; ")
    async with server.superuser("owned") as connection:
        for statement in statements:
            await connection.execute(statement)
    await prepared(server.url(OWNER, "owned", "x"), citus=True)

    assert statements[0] == f"ALTER ROLE {OWNER} LOGIN BYPASSRLS"
    assert len(statements) == 1 + len(SETTINGS)


@pytest.mark.system
async def test_roles_from_before_a_database_are_introduced_to_citus(server: PasswordServer) -> None:
    await prepared(await created(server, "first"), citus=True)
    url = await created(server, "second")
    async with server.superuser("second") as connection:
        # What Citus keeps of the objects that every machine has; it enters the owner of each schema.
        await connection.execute(
            """
            SET allow_system_table_mods = on;
            CREATE TABLE pg_catalog.pg_dist_object (classid oid, objid oid);
            CREATE FUNCTION public.enter_owner() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
                INSERT INTO pg_catalog.pg_dist_object
                SELECT 'pg_authid'::regclass, n.nspowner
                FROM pg_event_trigger_ddl_commands() AS c JOIN pg_namespace AS n ON n.oid = c.objid; END $$;
            CREATE EVENT TRIGGER enter_owner ON ddl_command_end WHEN TAG IN ('CREATE SCHEMA')
                EXECUTE FUNCTION public.enter_owner();
            """
        )

    await prepared(url, citus=True)

    async with server.superuser("second") as connection:
        introduced = await connection.fetch("SELECT objid::regrole::text AS name FROM pg_catalog.pg_dist_object")
        left = await connection.fetchval("SELECT to_regnamespace('skein_introduced')")
    assert {row["name"] for row in introduced} >= {OWNER, *(f"skein_{name}" for name in registry.WITH_DATABASE)}
    assert left is None


async def test_a_changed_password_becomes_that_of_the_role(server: PasswordServer) -> None:
    url = await created(server, "changed")
    await prepared(url, passwords=PASSWORDS)
    before = await roles(server)

    await prepared(url, passwords=PASSWORDS | {"memory": "newer"})

    after = await roles(server)
    assert {name for name in after if after[name] != before[name]} == {"skein_memory"}


@pytest.mark.system
async def test_an_extension_elsewhere_than_in_public_is_refused(server: PasswordServer) -> None:
    url = await created(server, "elsewhere")
    async with server.superuser("elsewhere") as connection:
        await connection.execute("CREATE SCHEMA extensions; CREATE EXTENSION vector WITH SCHEMA extensions")

    with pytest.raises(MigrationError, match="pgvector is in the schema extensions"):
        await prepared(url)
