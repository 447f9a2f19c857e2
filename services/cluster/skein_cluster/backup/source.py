"""The database of a backup: the embedded one of a data folder, running or not, or another by its URL."""

from __future__ import annotations

import dataclasses
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

import asyncpg

from skein_cluster.backup import wal_archive
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.embedded.data_dir import refuse_postgres_folder
from skein_cluster.embedded.databases import DATABASE
from skein_cluster.embedded.recovery import find_server
from skein_kit.database.schema_migrations import version
from skein_kit.settings import ProcessSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from skein_cluster.embedded.server import Server

    Connection = asyncpg.Connection[asyncpg.Record]

_CONNECT_SECONDS = 10.0
_FACTS = """
    SELECT (SELECT system_identifier::text FROM pg_control_system()) AS system_identifier,
           current_setting('server_version') AS version, current_setting('server_version_num')::int AS version_number,
           pg_size_bytes(current_setting('wal_segment_size')) AS wal_segment_bytes,
           (SELECT sum(pg_database_size(oid))::bigint FROM pg_database) AS database_bytes,
           current_setting('archive_mode') <> 'off' AS archives,
           current_setting('max_wal_senders')::int AS senders,
           (SELECT count(*) FROM pg_tablespace) AS tablespaces,
           to_regclass('pg_catalog.pg_dist_node') IS NOT NULL AS is_citus,
           (SELECT rolname FROM pg_roles WHERE oid = 10) AS superuser,
           (SELECT rolsuper OR rolreplication FROM pg_roles WHERE rolname = session_user) AS may_copy,
           current_database() AS database
"""
# Databases that every server has.
_OWN_TABLESPACES = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerInfo:
    """Facts of a server."""

    system_identifier: str
    version: str
    major: int
    wal_segment_bytes: int
    database_bytes: int
    archives: bool
    superuser: str
    database: str
    schema_version: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """How asyncpg and Postgres' programs reach a server."""

    connect: Mapping[str, Any] = dataclasses.field(repr=False)
    arguments: Sequence[str]
    # PGPASSWORD, which must not appear in the process list.
    environment: Mapping[str, str] = dataclasses.field(repr=False)
    # The embedded cluster's data folder; None for a database by URL.
    data_dir: Path | None

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Connect until the block ends. Raises CommandError."""
        try:
            connection = await asyncpg.connect(**self.connect, timeout=_CONNECT_SECONDS)
        except OSError as error:
            raise CommandError(
                f"The database does not answer ({error}); check SKEIN_DATABASE_URL.", ExitCode.UNREACHABLE
            ) from None
        try:
            yield connection
        finally:
            await connection.close()

    async def facts(self) -> ServerInfo:
        """Read the server's facts. Raises CommandError when it cannot be backed up."""
        async with self.connection() as connection:
            row = await connection.fetchrow(_FACTS)
            assert row is not None  # noqa: S101 - it selects from nothing.
            schema_version = await version(connection)
        problem = ""
        if row["is_citus"]:
            problem = (
                "The server is the coordinator of a Citus cluster, whose rows are on other servers too: back up each of"
                " them, with restore points of one name (SELECT citus_create_restore_point('…')); deploy/citus/"
                "backing-up.md says how."
            )
        elif not row["may_copy"]:
            problem = "The role of SKEIN_DATABASE_URL may not copy a server; name a superuser, or one with REPLICATION."
        elif row["senders"] == 0:
            problem = "The server does not send its log; set max_wal_senders to 10 and wal_level to replica."
        elif row["tablespaces"] > _OWN_TABLESPACES:
            problem = "The server has tablespaces of its own, which `skein backup` does not carry; use pg_basebackup."
        if problem:
            raise CommandError(problem, ExitCode.REFUSED)
        return ServerInfo(
            system_identifier=row["system_identifier"],
            version=row["version"].split(" ", maxsplit=1)[0],
            major=row["version_number"] // 10_000,
            wal_segment_bytes=row["wal_segment_bytes"],
            database_bytes=row["database_bytes"],
            archives=row["archives"],
            superuser=row["superuser"],
            database=row["database"],
            schema_version=schema_version,
        )


@asynccontextmanager
async def open_source(data_dir: Path, environment: Mapping[str, str]) -> AsyncIterator[Source]:
    """Open the database of SKEIN_DATABASE_URL, or that of a data folder, which is started if needed."""
    settings = ProcessSettings.read(environment)
    url = settings.database_direct_url or settings.database_url
    if url:
        yield _by_url(url)
        return
    async with open_embedded_server(data_dir, environment) as server:
        yield _by_socket(server, data_dir)


@asynccontextmanager
async def open_embedded_server(data_dir: Path, environment: Mapping[str, str]) -> AsyncIterator[Server]:
    """Open the server of a data folder; start a stopped one until the block ends. Raises CommandError, DataDirUnusable.

    The environment has the repository of its log.
    """
    refuse_postgres_folder(data_dir)
    postgres_folder = data_dir / "postgres"
    if not (postgres_folder / "PG_VERSION").exists():
        raise CommandError(
            f"There is no database in {data_dir}; name another with --data-dir, or set SKEIN_DATABASE_URL.",
            ExitCode.REFUSED,
        )
    server = find_server(postgres_folder)
    if server is not None:
        yield server
        return
    async with wal_archive.run_server(data_dir, wal_archive.archive_folder(environment)) as server:
        yield server


def _by_socket(server: Server, data_dir: Path) -> Source:
    return Source(
        connect=server.dsn(database=DATABASE),
        arguments=[f"--host={server.host}", f"--port={server.port}", "--username=postgres"],
        environment={},
        data_dir=data_dir,
    )


def _by_url(url: str) -> Source:
    parts = urlsplit(url)
    account, _, host = parts.netloc.rpartition("@")
    user, _, password = account.partition(":")
    options = parse_qsl(parts.query, keep_blank_values=True)
    secret = unquote(password) or next((value for name, value in options if name == "password"), "")
    query = urlencode([(name, value) for name, value in options if name != "password"])
    display_url = urlunsplit(parts._replace(netloc=f"{user}@{host}" if user else host, query=query))
    return Source(
        connect={"dsn": url},
        arguments=[f"--dbname={display_url}"],
        environment={"PGPASSWORD": secret} if secret else {},
        data_dir=None,
    )
