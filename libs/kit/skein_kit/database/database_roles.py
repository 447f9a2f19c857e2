"""What a database needs before its first migration: roles, rights and the extension for vectors.

Roles belong to the server, and other databases of it use them too: what a role already has is not set again.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
from contextlib import suppress
from typing import TYPE_CHECKING

import asyncpg

from skein_kit.database.connection_settings import database_role
from skein_kit.database.migration_errors import MigrationError, MigrationNotAllowed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Connection = asyncpg.Connection[asyncpg.Record]

# GRANT ROLE with options, and the default that PUBLIC creates nothing in the schema public.
MIN_SERVER = 16
# Earlier versions lose rows of an index.
MIN_VECTOR = (0, 8, 4)
_DISABLE_STATEMENT_LOG = (
    "SET log_min_duration_statement = -1; SET log_min_error_statement = panic; SET log_statement = none"
)
_RESTORE_STATEMENT_LOG = "RESET log_min_duration_statement; RESET log_min_error_statement; RESET log_statement"
_ATTEMPTS, _PAUSE_SECONDS = 5, 0.1
# Postgres' role that sees all sessions.
_MONITOR = "pg_read_all_stats"


async def prepare(connection: Connection, owner: str, services: Iterable[str], passwords: Mapping[str, str]) -> None:
    """Create what is missing, as a superuser or as a role that may create roles; else check that nothing is.

    `passwords` has passwords of services' roles. Raises MigrationNotAllowed, MigrationError.
    """
    server = connection.get_server_version()
    if server.major < MIN_SERVER:
        message = f"The server is Postgres {server.major}; Skein needs {MIN_SERVER} or newer."
        raise MigrationError(message)
    rights = await connection.fetchrow(
        "SELECT rolname, rolsuper, rolcreaterole FROM pg_roles WHERE rolname = session_user"
    )
    if rights is None or not (rights["rolsuper"] or rights["rolcreaterole"] or rights["rolname"] == owner):
        message = (
            f"Migrations need a superuser, a role that may create roles, or the role {owner}; the user of the URL is"
            " none of them."
        )
        raise MigrationNotAllowed(message)
    if rights["rolname"] == owner and not rights["rolsuper"]:
        await require_vector(connection)
        return
    try:
        await _create_roles(connection, owner, services, passwords, is_superuser=rights["rolsuper"])
        await _grant_database(connection, owner)
    except asyncpg.InsufficientPrivilegeError as error:
        raise MigrationError(_not_administrator(str(error))) from None
    await _create_vector(connection)


async def require_vector(connection: Connection) -> None:
    """Raise MigrationError unless the database has pgvector, where the statements look for it."""
    problem = vector_problem(
        await connection.fetchrow(
            "SELECT e.extversion, n.nspname FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace"
            " WHERE e.extname = 'vector'"
        )
    )
    if problem:
        raise MigrationError(problem)


def vector_problem(row: asyncpg.Record | None) -> str:
    """Return what is wrong with the extension, whose row has extversion and nspname; "" for nothing."""
    least = ".".join(str(number) for number in MIN_VECTOR)
    if row is None:
        return (
            f"The database has no pgvector: install version {least} or newer on the server, and let a superuser run"
            " CREATE EXTENSION vector WITH SCHEMA public."
        )
    if row["nspname"] != "public":
        return (
            f"pgvector is in the schema {row['nspname']}: a superuser can move it by ALTER EXTENSION vector SET SCHEMA"
            " public."
        )
    numbers = tuple(int(number) for number in re.findall(r"\d+", row["extversion"]))
    if numbers < MIN_VECTOR:
        return (
            f"pgvector is {row['extversion']}; Skein needs {least} or newer: update it on the server, then run ALTER"
            " EXTENSION vector UPDATE."
        )
    return ""


def _not_administrator(reason: str) -> str:
    return (
        f"The user of the URL may not prepare the database ({reason}). It needs to own the database and, unless it is a"
        " superuser, to have made the roles itself or to be their administrator."
    )


async def _create_roles(
    connection: Connection, owner: str, services: Iterable[str], passwords: Mapping[str, str], *, is_superuser: bool
) -> None:
    await _create_role(connection, owner, "NOLOGIN")
    roles = {service: database_role(service) for service in services}
    for role in roles.values():
        await _create_role(connection, role, "LOGIN")
    for service, role in roles.items():
        if service in passwords:
            await _set_password(connection, role, passwords[service])
    if not is_superuser:
        for role in (owner, *(role for service, role in roles.items() if service not in passwords)):
            if not await connection.fetchval("SELECT pg_has_role(session_user, $1, 'SET')", role):
                await connection.execute(f"GRANT {role} TO SESSION_USER WITH INHERIT FALSE, SET TRUE")


async def _create_role(connection: Connection, role: str, login: str) -> None:
    if await connection.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", role):
        return
    try:
        await connection.execute(
            f"CREATE ROLE {role} {login} NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOINHERIT NOREPLICATION"
        )
    except (asyncpg.DuplicateObjectError, asyncpg.UniqueViolationError):
        # A migration of another database has created it at the same time.
        return


async def _set_password(connection: Connection, role: str, password: str) -> None:
    stored = None
    # Only a superuser may read it.
    with suppress(asyncpg.InsufficientPrivilegeError):
        stored = await connection.fetchval("SELECT rolpassword FROM pg_authid WHERE rolname = $1", role)
    if stored and is_password_of(stored, password):
        return
    literal = await connection.fetchval("SELECT quote_literal($1)", password)
    # The statement has the password: the server would log slow and failed ones. Others than superusers may not say so.
    with suppress(asyncpg.InsufficientPrivilegeError):
        await connection.execute(_DISABLE_STATEMENT_LOG)
    await alter_role(connection, f"ALTER ROLE {role} PASSWORD {literal}")
    with suppress(asyncpg.InsufficientPrivilegeError):
        await connection.execute(_RESTORE_STATEMENT_LOG)


async def alter_role(connection: Connection, statement: str) -> None:
    """Run a statement about a role, which a migration of another database may alter at the same time."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            await connection.execute(statement)
        except asyncpg.InternalServerError:
            # "tuple concurrently updated": the server does not wait for the other one.
            if attempt == _ATTEMPTS:
                raise
            await asyncio.sleep(_PAUSE_SECONDS)
        else:
            return


def is_password_of(stored: str, password: str) -> bool:
    """Return whether a stored secret of Postgres (SCRAM-SHA-256, RFC 5803) is that of the password.

    False for secrets of another form, and for passwords that RFC 4013 would change first.
    """
    found = re.fullmatch(r"SCRAM-SHA-256\$(\d+):([^$]+)\$([^:]+):.+", stored)
    if found is None or not password.isascii():
        return False
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(found[2]), int(found[1]))
    stored_key = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    return hmac.compare_digest(stored_key, base64.b64decode(found[3]))


async def _grant_database(connection: Connection, owner: str) -> None:
    if not await _may_create(connection, owner):
        database = await connection.fetchval("SELECT quote_ident(current_database())")
        await connection.execute(f"GRANT CREATE, CONNECT ON DATABASE {database} TO {owner}")
        # A user without the right gets a warning, and grants nothing.
        if not await _may_create(connection, owner):
            raise MigrationError(_not_administrator(f"it may not grant rights on the database {database}"))
    # For functions of the worker: the age of transactions and the lag of replicas. They do without where the user may
    # not grant it, and the worker's metrics then say that they are missing.
    if not await connection.fetchval("SELECT pg_has_role($1, $2, 'USAGE')", owner, _MONITOR):
        with suppress(asyncpg.InsufficientPrivilegeError):
            await alter_role(connection, f"GRANT {_MONITOR} TO {owner} WITH INHERIT TRUE")
    if await connection.fetchval("SELECT has_schema_privilege('public', 'public', 'CREATE')"):
        await connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")


async def _may_create(connection: Connection, role: str) -> bool:
    may: bool = await connection.fetchval(
        "SELECT has_database_privilege($1, current_database(), 'CREATE')"
        " AND has_database_privilege($1, current_database(), 'CONNECT')",
        role,
    )
    return may


async def _create_vector(connection: Connection) -> None:
    if await connection.fetchval("SELECT true FROM pg_extension WHERE extname = 'vector'"):
        await require_vector(connection)
        return
    # Without it the error says why, unless it is only a matter of rights: then require_vector does.
    with suppress(asyncpg.InsufficientPrivilegeError, asyncpg.FeatureNotSupportedError, asyncpg.UndefinedFileError):
        await connection.execute("CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public")
    await require_vector(connection)
