"""Databases of a running embedded server."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import asyncpg

from skein_cluster.embedded.errors import DataDirUnusable

if TYPE_CHECKING:
    from skein_cluster.embedded.server import Server

# The database of a cluster on an embedded server.
DATABASE = "skein"


async def has_cluster_database(server: Server) -> bool:
    """Return whether the cluster's database is there. Raises DataDirUnusable for a server of another program."""
    try:
        async with _connection(server) as connection:
            rows = await connection.fetch("SELECT datname FROM pg_database WHERE NOT datistemplate")
        names = {row["datname"] for row in rows}
    except asyncpg.InvalidAuthorizationSpecificationError:
        # Its superuser has another name, or a password.
        names = {""}
    if DATABASE not in names and names - {"postgres"}:
        problem = "it is of another program's Postgres; name another data folder, or set SKEIN_DATABASE_URL"
        raise DataDirUnusable(server.data_dir, problem)
    return DATABASE in names


async def create_database(server: Server, name: str, template: str | None = None, *, if_missing: bool = False) -> None:
    """Create a database, as a copy of `template` if set (which must have no connections).

    With `if_missing` an existing database is left as it is; otherwise it is asyncpg's DuplicateDatabaseError.
    """
    statement = f"CREATE DATABASE {quote_identifier(name)}"
    if template is not None:
        statement += f" TEMPLATE {quote_identifier(template)}"
        # Faster than going through the write-ahead log, but it needs a checkpoint: cheap only without fsync.
        statement += "" if server.durable else " STRATEGY file_copy"
    async with _connection(server) as connection:
        try:
            await connection.execute(statement)
        except asyncpg.DuplicateDatabaseError:
            if not if_missing:
                raise


async def drop_database(server: Server, name: str) -> None:
    """Drop a database if it exists, ending the sessions that are connected to it."""
    async with _connection(server) as connection:
        await connection.execute(f"DROP DATABASE IF EXISTS {quote_identifier(name)} WITH (FORCE)")


@contextlib.asynccontextmanager
async def _connection(server: Server) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(**server.dsn(database="postgres"))
    try:
        yield connection
    finally:
        await connection.close()


def quote_identifier(name: str) -> str:
    """Return a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
