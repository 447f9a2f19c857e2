"""A database without access to its superuser, as under a Kubernetes operator: the owner's role migrates."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
import yaml

from skein_cluster import embedded, registry
from skein_cluster.embedded.server import Server
from skein_kit.database.schema_migrations import OWNER, MigrationError, migrate, version

MANIFEST = Path(__file__).parents[2] / "deploy/kubernetes/base/postgres.yaml"
DATABASE = "skein"


@pytest.fixture
async def prepared() -> AsyncIterator[Server]:
    """A server with the roles and the database that the manifest asks the operator for."""
    spec = next(iter(yaml.safe_load_all(MANIFEST.read_text("utf-8"))))["spec"]
    folder = Path(tempfile.mkdtemp(prefix="skein-owner-"))
    folder.chmod(0o711)
    async with embedded.running_server(folder / "postgres", durable=False) as server:
        connection = await asyncpg.connect(**server.dsn(database="postgres"))
        owner = spec["bootstrap"]["initdb"]["owner"]
        await connection.execute(f"CREATE ROLE {owner} LOGIN")
        await connection.execute(f"CREATE DATABASE {DATABASE} OWNER {owner}")
        for role in spec["managed"]["roles"]:
            words = f"{'LOGIN' if role['login'] else 'NOLOGIN'} {'INHERIT' if role['inherit'] else 'NOINHERIT'}"
            await connection.execute(f"CREATE ROLE {role['name']} {words}")
        await connection.close()
        connection = await asyncpg.connect(**server.dsn(database=DATABASE))
        for statement in spec["bootstrap"]["initdb"]["postInitApplicationSQL"]:
            await connection.execute(statement)
        await connection.close()
        yield server
    shutil.rmtree(folder, ignore_errors=True)


async def test_the_owner_brings_a_prepared_database_to_the_newest_schema(prepared: Server) -> None:
    url = prepared.url(user=OWNER, database=DATABASE)
    migrations = registry.migrations()

    applied = await migrate(url, migrations, registry.WITH_DATABASE)
    again = await migrate(url, migrations, registry.WITH_DATABASE)

    connection = await asyncpg.connect(**prepared.dsn(user="skein_memory", database=DATABASE))
    result = await version(connection)
    rows = await connection.fetchval("SELECT count(*) FROM memory.memories")
    await connection.close()
    assert (applied, again) == (migrations, [])
    assert result == migrations[-1].number
    assert rows == 0


@pytest.mark.system
async def test_a_service_s_role_may_not_migrate(prepared: Server) -> None:
    with pytest.raises(MigrationError, match=OWNER):
        await migrate(prepared.url(user="skein_memory", database=DATABASE), registry.migrations(), ())
