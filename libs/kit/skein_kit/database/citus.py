"""What a database needs on Citus beyond Postgres: rights of the owner of the schema, and settings of the database.

deploy/citus/README.md says what each is for, and what the rights mean for security. What is in place is not set again.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from skein_kit.database.database_roles import alter_role
from skein_kit.database.migration_errors import MigrationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import asyncpg

    Connection = asyncpg.Connection[asyncpg.Record]

# Settings of the database on the coordinator.
SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        # Each transaction says its tenant with SET LOCAL, which must reach the workers.
        "citus.propagate_set_commands": "local",
        # Else the first reference table takes all that is tied to it by foreign keys along.
        "citus.enable_local_reference_table_foreign_keys": "off",
        # Else each new connection looks at every shard to learn the types of its parameters.
        "citus.override_table_visibility": "off",
    }
)


# Roles that Citus does not know in this database: they were there before it.
_UNKNOWN_ROLES = """
SELECT r.rolname
FROM pg_roles AS r
WHERE r.rolname = ANY ($1) AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_dist_object AS o WHERE o.classid = 'pg_authid'::regclass AND o.objid = r.oid)
ORDER BY r.rolname
"""


async def prepare_for_citus(connection: Connection, owner: str, roles: Iterable[str]) -> None:
    """Let the owner of the schema log in and bypass row-level security, and set the database's settings.

    Citus gets to know those of the `roles` that it does not. A superuser does what is missing. Raises MigrationError,
    with the statements that are missing, for any other role.
    """
    statements = [*await _introductions(connection, [owner, *roles]), *await _missing_statements(connection, owner)]
    if statements and not await connection.fetchval("SELECT rolsuper FROM pg_roles WHERE rolname = session_user"):
        message = f"Citus needs what only a superuser may do; let one run: {'; '.join(statements)}."
        raise MigrationError(message)
    for statement in statements:
        await alter_role(connection, statement)


async def _missing_statements(connection: Connection, owner: str) -> list[str]:
    rights = await connection.fetchrow("SELECT rolcanlogin, rolbypassrls FROM pg_roles WHERE rolname = $1", owner)
    has_rights = rights is not None and rights["rolcanlogin"] and rights["rolbypassrls"]
    rows = await connection.fetch(
        "SELECT unnest(s.setconfig) AS setting FROM pg_db_role_setting AS s JOIN pg_database AS d"
        " ON d.oid = s.setdatabase WHERE s.setrole = 0 AND d.datname = current_database()"
    )
    present = {row["setting"] for row in rows}
    database = await connection.fetchval("SELECT quote_ident(current_database())")
    return [
        *([] if has_rights else [f"ALTER ROLE {owner} LOGIN BYPASSRLS"]),
        *(
            f"ALTER DATABASE {database} SET {name} = '{value}'"
            for name, value in SETTINGS.items()
            if f"{name}={value}" not in present
        ),
    ]


async def _introductions(connection: Connection, roles: list[str]) -> list[str]:
    """Return statements by which a superuser makes roles known to Citus.

    Citus learns of a role when it is created in this database, or when it owns something. Left to the owner of the
    schema, whose first function needs the roles on every machine, it would fail: that one may not alter roles.
    """
    if await connection.fetchval("SELECT to_regclass('pg_catalog.pg_dist_object')") is None:
        return []
    return [
        statement
        for row in await connection.fetch(_UNKNOWN_ROLES, roles)
        for statement in (
            f"CREATE SCHEMA skein_introduced AUTHORIZATION {row['rolname']}",
            "DROP SCHEMA skein_introduced",
        )
    ]
