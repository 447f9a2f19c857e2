"""Checks of a process's settings with the database: permission, schema, number of connections."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import asyncpg

from skein_cluster import registry
from skein_kit.calls import database_revision
from skein_kit.database.connection_settings import database_role, role_password
from skein_kit.database.named_queries import Queries
from skein_kit.settings import ProcessSettings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record]

_SECONDS = 5.0
# Besides its pool: the probe's connection.
_PROBE_CONNECTIONS = 1
# The worker's queue has one more.
_QUEUE_CONNECTIONS = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class DatabaseCheck:
    """Problems and notes of a database check."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def max_connections(services: Collection[str], pool_size: int) -> int:
    """Return the most connections of one process of these services."""
    pools = [name for name in registry.WITH_DATABASE if name in services]
    return len(pools) * (pool_size + _PROBE_CONNECTIONS) + (_QUEUE_CONNECTIONS if "worker" in pools else 0)


async def check_database(
    services: Collection[str], environment: Mapping[str, str], *, replicas: int = 1, connections: int | None = None
) -> DatabaseCheck:
    """Check the database of SKEIN_DATABASE_URL and its replica; an unreachable one is a note.

    `replicas` processes share it; a cluster of different processes gives the number of its `connections` instead.
    """
    settings = ProcessSettings.read(environment)
    database_services = [name for name in registry.WITH_DATABASE if name in services]
    result = DatabaseCheck()
    if not database_services or not settings.database_url:
        return result
    url = settings.database_direct_url or settings.database_url
    await _connect_and_check(
        "SKEIN_DATABASE_URL",
        url,
        partial(
            _run_checks,
            services=database_services,
            environment=environment,
            replicas=replicas,
            connections=connections,
        ),
        result,
    )
    replicated_services = [name for name in database_services if name in database_revision.SERVICES]
    if settings.replica_url and replicated_services:
        await _connect_and_check(
            "SKEIN_REPLICA_URL",
            settings.replica_url,
            partial(_run_replica_checks, services=replicated_services, environment=environment),
            result,
        )
    return result


async def _connect_and_check(
    setting: str, url: str, run_checks: Callable[[Connection, DatabaseCheck], Awaitable[None]], result: DatabaseCheck
) -> None:
    """Check the database of one setting; services also start without it."""
    try:
        async with asyncio.timeout(_SECONDS):
            connection = await asyncpg.connect(url)
            try:
                await run_checks(connection, result)
            finally:
                connection.terminate()
    except TimeoutError:
        result.notes.append(f"The database of {setting} did not answer within {_SECONDS:.0f} s: it was not checked.")
    except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError) as error:
        result.problems.append(f"The database of {setting} refuses: {error}.")
    except (ValueError, asyncpg.ClientConfigurationError):
        # The error would contain the URL.
        result.problems.append(f"{setting} should be an address such as postgresql://user@host:5432/skein.")
    except (OSError, asyncpg.PostgresError) as error:
        result.notes.append(f"The database of {setting} does not answer ({error}): it was not checked.")


async def _run_checks(
    connection: Connection,
    result: DatabaseCheck,
    *,
    services: list[str],
    environment: Mapping[str, str],
    replicas: int,
    connections: int | None,
) -> None:
    settings = ProcessSettings.read(environment)
    await _roles(connection, "SKEIN_DATABASE_URL", services, environment, result)
    await _schema(connection, services, result)
    # A connection pooler limits the connections of the database.
    if not settings.database_direct_url:
        await _connections(connection, services, settings, result, replicas=replicas, total=connections)


async def _run_replica_checks(
    connection: Connection, result: DatabaseCheck, *, services: list[str], environment: Mapping[str, str]
) -> None:
    await _roles(connection, "SKEIN_REPLICA_URL", services, environment, result)
    if not await connection.fetchval("SELECT pg_is_in_recovery()"):
        result.notes.append(
            "The database of SKEIN_REPLICA_URL is not a replica: its reads are additional load of a primary."
        )


async def _roles(
    connection: Connection, setting: str, services: list[str], environment: Mapping[str, str], result: DatabaseCheck
) -> None:
    # A service with a password logs in as its role.
    acting = {database_role(name) for name in services if not role_password(name, environment)}
    roles = {database_role(name) for name in services}
    roles_found = {
        row["rolname"]: row["may"]
        for row in await connection.fetch(
            "SELECT rolname, pg_has_role(current_user, oid, 'SET') AS may FROM pg_roles WHERE rolname = ANY($1)",
            list(roles),
        )
    }
    unavailable_roles = sorted(role for role in acting if roles_found.get(role) is False)
    if roles - roles_found.keys():
        result.problems.append(
            f"The database has no role {', '.join(sorted(roles - roles_found.keys()))}: run skein migrate."
        )
    if unavailable_roles:
        result.problems.append(f"The user of {setting} may not act as {', '.join(unavailable_roles)}.")


async def _schema(connection: Connection, services: list[str], result: DatabaseCheck) -> None:
    newest = registry.migrations()[-1].number
    try:
        # Everybody may read the versions; a user who may act as the service sees whether that one may.
        if await connection.fetchval("SELECT pg_has_role(current_user, $1, 'SET')", database_role(services[0])):
            await connection.execute(f"SET ROLE {database_role(services[0])}")
        version = await connection.fetchval(Queries.load("skein_kit")["schema_version"].text)
    except asyncpg.PostgresError:
        result.problems.append("The database has no readable schema: run skein migrate.")
        return
    finally:
        await connection.execute("RESET ROLE")
    if version < newest:
        result.problems.append(
            f"The schema is at version {version}, and this program needs {newest}: run skein migrate."
        )
    if version > newest + 1:
        result.problems.append(f"The schema is at version {version}: too new for this program, which knows {newest}.")


async def _connections(
    connection: Connection,
    services: list[str],
    settings: ProcessSettings,
    result: DatabaseCheck,
    *,
    replicas: int,
    total: int | None,
) -> None:
    available = await connection.fetchval(
        "SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int"
        " - coalesce(current_setting('reserved_connections', true)::int, 0)"
    )
    per_process = max_connections(services, settings.pool_size)
    needed = replicas * per_process if total is None else total
    if needed > available:
        users = f"{replicas} processes with up to {per_process} connections each" if replicas > 1 else "this process"
        users = users if total is None else "this cluster"
        result.problems.append(
            f"The database allows {available} connections, and {users} may use {needed}: lower SKEIN_POOL_SIZE or raise"
            " max_connections."
        )
    else:
        result.notes.append(f"{needed} of the database's {available} connections may be used.")
