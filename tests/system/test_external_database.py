"""A cluster on a Postgres that others run: SKEIN_DATABASE_URL instead of the embedded one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fix_cluster import test_environment
from fix_command import skein, start
from fix_own_postgres import PasswordServer, password_server

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein_client.client import Client
from skein_cluster import registry
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.processes.multi_process import multi_process_cluster
from skein_cluster.processes.single_process import LocalCluster, single_process_cluster
from skein_kit.database.connection_settings import database_role
from skein_kit.database.schema_migrations import MigrationError, migrate

# Each of these starts whole clusters, on a machine that may be busy.
pytestmark = pytest.mark.timeout(240)

PASSWORDS = {f"SKEIN_{name.upper()}_DATABASE_PASSWORD": f"of {name}: @/?" for name in registry.WITH_DATABASE}
FORMS = {"one": single_process_cluster, "many": multi_process_cluster}


@pytest.fixture(scope="module")
async def elsewhere() -> AsyncIterator[PasswordServer]:
    async with password_server() as running:
        yield running


@pytest.fixture(scope="module")
async def managed() -> AsyncIterator[PasswordServer]:
    """A server whose administrator makes roles and databases, and is no superuser."""
    async with password_server() as running:
        async with running.superuser() as connection:
            await connection.execute("CREATE ROLE admin LOGIN CREATEROLE CREATEDB PASSWORD 'x'")
        yield running


async def created(elsewhere: PasswordServer, name: str, *, owner: str = "postgres", vector: bool = False) -> str:
    async with elsewhere.superuser() as connection:
        await connection.execute(f"CREATE DATABASE {name} OWNER {owner}")
    if vector:
        async with elsewhere.superuser(name) as connection:
            await connection.execute("CREATE EXTENSION vector")
    return name


def environment(url: str, **settings: str) -> dict[str, str]:
    return {**test_environment(), "SKEIN_DATABASE_URL": url, "SKEIN_POOL_SIZE": "3", **settings}


async def remembers(cluster: LocalCluster, content: str) -> None:
    """Store a memory and find it."""
    async with Client(endpoint=cluster.addresses["gateway"], api_key=cluster.credentials.api_key) as client:
        request = gateway_pb2.RememberRequest(memories=[memory_pb2.Memory(content=content)])
        await client.gateway.Remember(request)
        answer = await client.gateway.Recall(gateway_pb2.RecallRequest(query=content))
    assert content in {hit.memory.content for hit in answer.hits}


@pytest.mark.parametrize("form", FORMS)
async def test_a_cluster_runs_on_a_database_elsewhere_and_each_service_logs_in_as_its_role(
    elsewhere: PasswordServer, tmp_path: Path, form: str
) -> None:
    database = await created(elsewhere, f"whole_{form}")
    values = environment(elsewhere.url("postgres", database), **PASSWORDS)

    async with FORMS[form](tmp_path, environment=values) as cluster:
        await remembers(cluster, "the parcel waits on shelf nine")
        first = cluster.credentials
        async with elsewhere.superuser() as connection:
            rows = await connection.fetch("SELECT DISTINCT usename FROM pg_stat_activity WHERE datname = $1", database)
    async with single_process_cluster(tmp_path, environment=values) as again:
        second = again.credentials

    assert {row["usename"] for row in rows} == {database_role(name) for name in registry.WITH_DATABASE}
    assert not (tmp_path / "postgres").exists()
    assert (second.tenant_id, second.api_key) == (first.tenant_id, first.api_key)


async def test_an_administrator_who_is_no_superuser_is_enough_where_the_extension_is(
    managed: PasswordServer, tmp_path: Path
) -> None:
    url = managed.url("admin", await created(managed, "managed", owner="admin", vector=True), "x")

    async with single_process_cluster(tmp_path, environment=environment(url)) as cluster:
        await remembers(cluster, "the boat is called Bosun")
    again = await skein("migrate", environment=environment(url))

    assert again.code == ExitCode.OK


async def test_a_database_without_the_extension_says_what_to_install(managed: PasswordServer) -> None:
    url = managed.url("admin", await created(managed, "without_vector", owner="admin"), "x")

    ended = await skein("migrate", environment=environment(url))

    assert ended.code == ExitCode.CANNOT_START
    assert "The database has no pgvector: install version 0.8.4 or newer" in ended.err


async def test_an_administrator_without_rights_in_the_database_is_told_so(managed: PasswordServer) -> None:
    url = managed.url("admin", await created(managed, "of_others", vector=True), "x")

    ended = await skein("migrate", environment=environment(url))

    assert ended.code == ExitCode.CANNOT_START
    assert "The user of the URL may not prepare the database" in ended.err


@pytest.mark.essential
async def test_a_user_who_may_not_migrate_is_told_what_is_missing(elsewhere: PasswordServer, tmp_path: Path) -> None:
    database = await created(elsewhere, "bare")
    async with elsewhere.superuser() as connection:
        await connection.execute("CREATE ROLE visitor LOGIN PASSWORD 'x'")
    url = elsewhere.url("visitor", database, "x")

    with pytest.raises(CommandError) as early:
        async with single_process_cluster(tmp_path, environment=environment(url)):
            pass
    await migrate(elsewhere.url("postgres", database), registry.migrations(), registry.WITH_DATABASE)
    with pytest.raises(CommandError) as late:
        async with single_process_cluster(tmp_path, environment=environment(url)):
            pass

    assert "run skein migrate" in early.value.message
    assert late.value.message.startswith("The user of SKEIN_DATABASE_URL may not act as skein_auth, ")
    assert "version" not in late.value.message


async def test_a_migrated_database_serves_a_cluster_whose_user_may_only_act_as_the_services(
    elsewhere: PasswordServer, tmp_path: Path
) -> None:
    database = await created(elsewhere, "migrated")
    await migrate(elsewhere.url("postgres", database), registry.migrations(), registry.WITH_DATABASE)
    async with elsewhere.superuser() as connection:
        await connection.execute("CREATE ROLE services LOGIN PASSWORD 'x'")
        for name in registry.WITH_DATABASE:
            await connection.execute(f"GRANT {database_role(name)} TO services WITH INHERIT FALSE, SET TRUE")

    async with single_process_cluster(
        tmp_path, environment=environment(elsewhere.url("services", database, "x"))
    ) as cluster:
        await remembers(cluster, "the key hangs by the door")


async def test_a_database_with_too_few_connections_is_refused(elsewhere: PasswordServer, tmp_path: Path) -> None:
    database = await created(elsewhere, "small")
    values = environment(elsewhere.url("postgres", database), SKEIN_POOL_SIZE="40")

    with pytest.raises(CommandError, match="and this cluster may use 247: lower SKEIN_POOL_SIZE"):
        async with single_process_cluster(tmp_path, environment=values):
            pass


async def test_a_database_that_cannot_be_reached_is_said(elsewhere: PasswordServer, tmp_path: Path) -> None:
    nowhere = await skein(
        "up", "--data-dir", str(tmp_path), environment=environment(elsewhere.url("postgres", "nowhere"))
    )
    closed = await skein(
        "cluster", "--data-dir", str(tmp_path), environment=environment("postgresql://postgres@127.0.0.1:9/skein")
    )
    wrong = await skein("up", environment=environment(elsewhere.url("postgres", "postgres", "wrong")))

    assert [ended.code for ended in (nowhere, closed, wrong)] == [ExitCode.UNREACHABLE] * 3
    assert 'database "nowhere" does not exist' in nowhere.err
    assert "does not answer" in closed.err
    assert "password authentication failed" in wrong.err


async def test_a_changed_migration_stops_a_cluster_before_it_serves(elsewhere: PasswordServer, tmp_path: Path) -> None:
    database = await created(elsewhere, "changed")
    url = elsewhere.url("postgres", database)
    await migrate(url, registry.migrations(), registry.WITH_DATABASE)
    async with elsewhere.superuser(database) as connection:
        await connection.execute("UPDATE skein.migrations SET checksum = 'other' WHERE number = 1")

    with pytest.raises(MigrationError, match="is another one than that of Skein"):
        async with single_process_cluster(tmp_path, environment=environment(url)):
            pass

    assert not (tmp_path / "credentials.json").exists()


async def test_services_alone_say_why_they_do_not_serve_a_database(elsewhere: PasswordServer) -> None:
    database = await created(elsewhere, "unready")
    await migrate(elsewhere.url("postgres", database), registry.migrations(), registry.WITH_DATABASE)
    async with elsewhere.superuser() as connection:
        await connection.execute("CREATE ROLE stranger LOGIN PASSWORD 'x'")
    expected = {
        elsewhere.url("stranger", database, "x"): "may not act as skein_memory",
        elsewhere.url("postgres", "absent"): "has no such database",
        elsewhere.url("postgres", database, "wrong"): "does not let skein_memory in",
    }

    for url, reason in expected.items():
        assert reason in await reason_of(url), reason


async def reason_of(url: str) -> str:
    """Return what a memory service says that cannot serve this database."""
    process = await start("serve", "memory", environment=environment(url, SKEIN_LOG_LEVEL="info"))
    try:
        assert process.stderr is not None
        while line := await process.stderr.readline():
            event = json.loads(line)
            if event["event"] == "not_ready" and "took more than" not in event["reason"]:
                return str(event["reason"])
    finally:
        process.terminate()
        await process.wait()
    return ""
