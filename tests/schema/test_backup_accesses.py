"""What a restore closes again: every way in that can be closed, as it was in the newest state that is known."""

from __future__ import annotations

import uuid

import asyncpg
from fix_database import TestDatabase

from skein_cluster.backup.deletion_statements import revoke_access, revoke_statement
from skein_cluster.backup.deletions import REVOCABLE_TABLES, read_deletions

# A row of each table that grants access, named by $1; all belong to a tenant of their own.
_OPEN = {
    "auth.api_keys": """
        INSERT INTO auth.api_keys
            (tenant_id, api_key_id, display_name, permissions, secret_hash, create_time, created_by)
        VALUES (gen_random_uuid(), $1::text::uuid, '', '{}', sha256($1::text::bytea), now(), 'test')
    """,
    "auth.operator_keys": """
        INSERT INTO auth.operator_keys (api_key_id, display_name, secret_hash, create_time)
        VALUES ($1::text::uuid, '', sha256($1::text::bytea), now())
    """,
    "auth.auth_sessions": """
        INSERT INTO auth.auth_sessions
            (tenant_id, auth_session_id, account_id, scopes, resources, auth_time, create_time, use_time, expire_time)
        VALUES ('00000000-0000-0000-0000-000000000000', $1::text::uuid, gen_random_uuid(), '{}', '{}', now(), now(),
                now(), now() + interval '1 day')
    """,
    "auth.clients": """
        INSERT INTO auth.clients (client_id, source, client_name, redirect_uris, grant_types, response_types,
            token_endpoint_auth_method, scope, create_time, update_time)
        VALUES ($1::text, 'registered', '', '{}', '{}', '{}', 'none', '', now(), now())
    """,
    "tenancy.invitations": """
        INSERT INTO tenancy.invitations
            (tenant_id, invitation_id, email, role, secret_hash, create_time, expire_time, created_by)
        VALUES (gen_random_uuid(), $1::text::uuid, $1::text || '@example.com', 'viewer', sha256($1::text::bytea), now(),
                now() + interval '1 day', 'test')
    """,
    "tenancy.space_grants": """
        INSERT INTO tenancy.space_grants (tenant_id, grant_id, space_id, principal, role, create_time, created_by)
        VALUES (gen_random_uuid(), $1::text::uuid, gen_random_uuid(), 'agent:x', 'reader', now(), 'test')
    """,
    "auth.accounts": """
        INSERT INTO auth.accounts (account_id, display_name, status, create_time, update_time)
        VALUES ($1::text::uuid, '', 'active', now(), now())
    """,
    "auth.service_accounts": """
        INSERT INTO auth.service_accounts
            (tenant_id, service_account_id, display_name, permissions, create_time, update_time, created_by)
        VALUES (gen_random_uuid(), $1::text::uuid, '', '{}', now(), now(), 'test')
    """,
}
_DELETED = """
    INSERT INTO auth.audit_events (tenant_id, audit_event_id, event, outcome, target, create_time)
    VALUES (gen_random_uuid(), skein.first_id(now()), 'service_account_deleted', 'success', 'service_account:' || $1,
            now())
"""


async def test_whatever_can_be_revoked_is_revoked_again(catalog: asyncpg.Connection[asyncpg.Record]) -> None:
    revocable = await catalog.fetch(
        "SELECT format('%s.%s', table_schema, table_name) AS name FROM information_schema.columns"
        " WHERE column_name = 'revoke_time'"
    )

    assert revocable
    assert {row["name"] for row in revocable} <= {access.table for access in REVOCABLE_TABLES}


async def test_people_who_were_kept_out_are_kept_out_again_and_no_others(database: TestDatabase) -> None:
    kept_out = {access.table: str(uuid.uuid4()) for access in REVOCABLE_TABLES}
    let_in = {access.table: str(uuid.uuid4()) for access in REVOCABLE_TABLES}
    deleted = str(uuid.uuid4())
    async with database.superuser() as connection:
        # The tenants and accounts that these are of are of no account here.
        await connection.execute("SET session_replication_role = replica")
        before = connection.transaction()
        await before.start()
        for access in REVOCABLE_TABLES:
            await connection.execute(_OPEN[access.table], kept_out[access.table])
            await connection.execute(
                revoke_statement(access), [kept_out[access.table]], [await connection.fetchval("SELECT now()")]
            )
        await connection.execute(_DELETED, deleted)
        newest = await read_deletions(connection)
        await before.rollback()

        for access in REVOCABLE_TABLES:
            await connection.execute(_OPEN[access.table], kept_out[access.table])
            await connection.execute(_OPEN[access.table], let_in[access.table])
        await connection.execute(_OPEN["auth.service_accounts"], deleted)
        could_come_in = await revoke_access(connection, newest)
        again = await revoke_access(connection, newest)
        now_known = await read_deletions(connection)
        rows = await connection.fetch("SELECT service_account_id::text AS name FROM auth.service_accounts")

    assert could_come_in == len(REVOCABLE_TABLES) + 1
    assert again == 0
    assert {table: set(closed) for table, closed in now_known.revocations.items()} == {
        table: {name} for table, name in kept_out.items()
    }
    assert {row["name"] for row in rows} == {kept_out["auth.service_accounts"], let_in["auth.service_accounts"]}


async def test_a_principal_that_was_bound_is_bound_again(database: TestDatabase) -> None:
    async with database.superuser() as connection:
        await connection.execute("SET session_replication_role = replica")
        before = connection.transaction()
        await before.start()
        await connection.execute(
            "INSERT INTO tenancy.tenants (tenant_id, organization_id, slug, display_name, create_time, update_time)"
            " VALUES ($1, $1, $2, '', now(), now())",
            tenant_id := uuid.uuid4(),
            f"t{tenant_id.hex[:20]}",
        )
        for name in ("api_key:1", "agent:cook"):
            await connection.execute(
                "INSERT INTO tenancy.space_bindings (tenant_id, principal, create_time, created_by)"
                " VALUES ($1, $2, now(), 'test')",
                tenant_id,
                name,
            )
        newest = await read_deletions(connection)
        await connection.execute(
            "DELETE FROM tenancy.space_bindings WHERE tenant_id = $1 AND principal = 'api_key:1'", tenant_id
        )

        await revoke_access(connection, newest)
        await revoke_access(connection, newest)

        rows = await connection.fetch("SELECT principal FROM tenancy.space_bindings WHERE tenant_id = $1", tenant_id)
        await before.rollback()
    assert sorted(row["principal"] for row in rows) == ["agent:cook", "api_key:1"]
