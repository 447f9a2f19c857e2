"""A migrated database without services: for tests of the schema itself, and of statements as a service's own role."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest
from fix_external_postgres import IS_SHARED, URL, external_server, role_passwords

from skein_cluster import embedded, registry
from skein_cluster.embedded.server import Server
from skein_kit.database.connection_settings import connect_arguments, database_role
from skein_kit.database.schema_migrations import migrate


@pytest.fixture(scope="session")
def postgres_folder() -> Iterator[Path]:
    """A folder that an unprivileged server can enter: pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="skein-test-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
async def server(postgres_folder: Path) -> AsyncIterator[Server]:
    """An embedded Postgres that forgets everything, or the one of SKEIN_TEST_DATABASE_URL."""
    if IS_SHARED:
        pytest.skip("It needs a database of its own, and SKEIN_TEST_DATABASE_SHARED has one for all.")
    if URL:
        yield external_server()
        return
    async with embedded.running_server(postgres_folder / "pg", durable=False) as running:
        yield running


@pytest.fixture(scope="session")
async def template(server: Server) -> AsyncIterator[str]:
    """A migrated database to copy from."""
    async with _created(server, "template") as name:
        await migrate(
            server.url(user="postgres", database=name),
            registry.migrations(),
            registry.WITH_DATABASE,
            passwords=role_passwords(),
        )
        yield name


@dataclass(frozen=True)
class TestDatabase:
    """A migrated database of a test's own."""

    __test__ = False
    server: Server
    name: str

    @property
    def url(self) -> str:
        """Connect as superuser; only for looking into the catalog and for arranging."""
        return self.server.url(user="postgres", database=self.name)

    @asynccontextmanager
    async def superuser(self) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        connection = await asyncpg.connect(self.url)
        try:
            yield connection
        finally:
            await connection.close()

    @asynccontextmanager
    async def role(self, service: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        """Act as a service does."""
        connection = await asyncpg.connect(**connect_arguments(self.url, database_role(service)))
        try:
            yield connection
        finally:
            await connection.close()


async def vacuum(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Let the planner know every table as it is, with all pages visible to all.

    While the server itself looks at a table nothing that was written since is known to be visible, and what could be
    read from an index alone is planned otherwise.
    """
    async with asyncio.timeout(60):
        while True:
            await connection.execute("VACUUM ANALYZE")
            unseen = await connection.fetchval(
                "SELECT count(*) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace "
                "WHERE c.relkind = 'r' AND c.relallvisible < c.relpages AND n.nspname = ANY ($1)",
                [*registry.WITH_DATABASE],
            )
            if not unseen:
                return


async def all_told(server: Server) -> None:
    """Wait until the event logs tell all that is written by now.

    They tell nothing that is younger than the oldest open transaction, in any database of the server.
    """
    connection = await asyncpg.connect(server.url(user="postgres", database="postgres"))
    try:
        written = await connection.fetchval("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
        async with asyncio.timeout(60):
            while await connection.fetchval("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint") < written:
                await asyncio.sleep(0.01)
    finally:
        await connection.close()


@pytest.fixture
async def database(server: Server, template: str) -> AsyncIterator[TestDatabase]:
    """A fresh, migrated database."""
    async with fresh_database(server, template) as made:
        yield made


@asynccontextmanager
async def fresh_database(server: Server, template: str) -> AsyncIterator[TestDatabase]:
    """Make a migrated database for as long as the block takes."""
    async with _created(server, "test", template) as name:
        yield TestDatabase(server, name)


@asynccontextmanager
async def _created(server: Server, prefix: str, template: str | None = None) -> AsyncIterator[str]:
    name = f"{prefix}_{uuid.uuid4().hex}"
    await embedded.create_database(server, name, template)
    try:
        yield name
    finally:
        await embedded.drop_database(server, name)


@pytest.fixture(scope="session")
async def untouched(server: Server, template: str) -> AsyncIterator[TestDatabase]:
    """A migrated database that no test changes, for tests that only read: making one takes longer than reading."""
    async with _created(server, "untouched", template) as name:
        yield TestDatabase(server, name)


@pytest.fixture(scope="session")
async def catalog(untouched: TestDatabase) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A superuser's connection to a migrated database that no test changes."""
    connection = await asyncpg.connect(untouched.url)
    yield connection
    await connection.close()
