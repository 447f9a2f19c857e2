from __future__ import annotations

import asyncio
import dataclasses
import re
import shutil
import subprocess
import sys
import tomllib
import uuid
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest
from fix_database import TestDatabase

from skein_cluster import embedded, registry
from skein_cluster.embedded.server import Server
from skein_kit import ids
from skein_kit.database.schema_migrations import (
    DatabaseForeign,
    Migration,
    MigrationError,
    SchemaTooNew,
    SchemaTooOld,
    TableEffect,
    migrate,
    rehearse,
    release_faults,
    version,
)
from skein_kit.telemetry.metrics import VERSION


async def test_migrating_again_changes_nothing(database: TestDatabase) -> None:
    assert await migrate(database.url, registry.migrations(), registry.WITH_DATABASE) == []


async def test_migrating_again_sends_no_statement_that_every_machine_of_citus_would_get(database: TestDatabase) -> None:
    async with database.superuser() as connection:
        await connection.execute(
            """
            CREATE FUNCTION public.refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
                RAISE 'a worker is away: %', tg_tag; END $$;
            CREATE EVENT TRIGGER refuse ON ddl_command_start EXECUTE FUNCTION public.refuse();
            """
        )

    assert await migrate(database.url, registry.migrations(), registry.WITH_DATABASE) == []


@pytest.mark.system
async def test_a_server_may_have_loaded_citus_for_other_databases(server: Server, template: str) -> None:
    assert template
    name = f"loaded_{uuid.uuid4().hex}"
    await embedded.create_database(server, name)
    url = server.url(user="postgres", database=name)
    connection = await asyncpg.connect(url)
    await connection.execute(f"ALTER DATABASE {name} SET citus.version = 'loaded'")
    await connection.close()

    await migrate(url, registry.migrations(), registry.WITH_DATABASE)

    connection = await asyncpg.connect(url)
    assert not await connection.fetchval("SELECT skein.is_distributed('recall.documents')")
    await connection.close()
    await embedded.drop_database(server, name)


async def test_two_migrations_at_once_apply_each_file_once(server: Server, template: str) -> None:
    assert template
    name = f"race_{uuid.uuid4().hex}"
    await embedded.create_database(server, name)
    url = server.url(user="postgres", database=name)

    one, other = await asyncio.gather(*(migrate(url, registry.migrations(), registry.WITH_DATABASE) for _ in range(2)))

    assert sorted(one + other) == registry.migrations()
    await embedded.drop_database(server, name)


async def test_data_from_before_a_release_is_refused_with_the_way_to_move_it(database: TestDatabase) -> None:
    first, *rest = registry.migrations()
    released = [dataclasses.replace(first, text=first.text + "\n-- more"), *rest]

    with pytest.raises(SchemaTooOld) as refused:
        await migrate(database.url, released, registry.WITH_DATABASE)

    message = str(refused.value)
    assert f"a build of Skein {VERSION} from before the release: its migration {first.file_name}" in message
    assert "`skein export -o FILE`" in message
    assert "`skein import jsonl FILE`" in message


@pytest.mark.parametrize("writer", ["9.0.0", None])
async def test_data_of_a_later_version_is_refused_with_the_version_to_use(
    database: TestDatabase, writer: str | None
) -> None:
    newest = registry.migrations()[-1]
    async with database.superuser() as connection:
        for number in (newest.number + 1, newest.number + 2):
            await connection.execute(
                "INSERT INTO skein.migrations VALUES ($1, 'later', 'x', now(), $2)", number, writer
            )

    with pytest.raises(
        SchemaTooNew, match=f"Use {'Skein 9.0.0' if writer else 'the version that wrote it'} or a later"
    ):
        await migrate(database.url, registry.migrations(), registry.WITH_DATABASE)


async def test_data_that_is_one_migration_ahead_is_left_as_it_is(database: TestDatabase) -> None:
    assert await migrate(database.url, registry.migrations()[:-1], registry.WITH_DATABASE) == []


async def test_migrations_say_which_version_applied_them_also_where_earlier_ones_do_not(database: TestDatabase) -> None:
    last = registry.migrations()[-1]
    later = dataclasses.replace(last, number=last.number + 1, name="later", text="SELECT 1")
    async with database.superuser() as connection:
        await connection.execute("ALTER TABLE skein.migrations DROP COLUMN skein_version")

    await migrate(database.url, [*registry.migrations(), later], registry.WITH_DATABASE)

    async with database.superuser() as connection:
        rows = await connection.fetch("SELECT skein_version FROM skein.migrations ORDER BY number DESC LIMIT 2")
    assert [row[0] for row in rows] == [VERSION, None]


async def test_a_database_with_schemas_of_another_program_is_refused(server: Server, template: str) -> None:
    assert template
    name = f"foreign_{uuid.uuid4().hex}"
    await embedded.create_database(server, name)
    url = server.url(user="postgres", database=name)
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE SCHEMA session")
    await connection.close()

    with pytest.raises(DatabaseForeign, match="did not make: session"):
        await migrate(url, registry.migrations(), registry.WITH_DATABASE)

    await embedded.drop_database(server, name)


async def test_a_rehearsal_names_the_tables_that_calls_wait_for_and_those_that_are_written(
    database: TestDatabase,
) -> None:
    texts = (
        "ALTER TABLE memory.memories ADD COLUMN later int",
        "CREATE INDEX later ON session.messages (role)",
        "UPDATE tenancy.tenants SET slug = slug; CREATE TABLE memory.later (x int); CREATE INDEX ON memory.later (x)",
        "ALTER TABLE tenancy.tenants ALTER COLUMN slug TYPE varchar(999)",
    )
    last = registry.migrations()[-1]
    migrations = [
        dataclasses.replace(last, number=last.number + number, name="later", text=text)
        for number, text in enumerate(texts, 1)
    ]

    effects = await rehearse(database.url, migrations)

    assert effects[:3] == [
        [TableEffect("memory.memories", "reads and writes", is_written=False)],
        [TableEffect("session.messages", "writes", is_written=True)],
        [TableEffect("tenancy.tenants", "", is_written=True)],
    ]
    assert TableEffect("tenancy.tenants", "reads and writes", is_written=True) in effects[3]


RELEASED = Path(__file__).parents[2] / "deploy/released"


def released(folder: Path = RELEASED) -> dict[str, dict[str, str]]:
    """Return the list that `make freeze` writes; empty before the first release."""
    file = folder / "migrations.toml"
    return tomllib.loads(file.read_text("utf-8")) if file.exists() else {}


def test_released_migrations_are_as_they_were_released() -> None:
    assert release_faults(released(), registry.migrations()) == []


def test_every_version_of_the_changelog_is_frozen() -> None:
    changelog = (RELEASED.parents[1] / "CHANGELOG.md").read_text("utf-8")

    assert set(re.findall(r"^## \[(\d[^]]*)\] - \d", changelog, re.MULTILINE)) <= released().keys(), "run make freeze"


def test_a_change_of_a_released_migration_is_noticed() -> None:
    one, two, three = (Migration(number, name, f"SELECT {number}") for number, name in enumerate("abc", 1))
    listed = {"1.0": {one.file_name: one.checksum}, "1.1": {two.file_name: two.checksum}}

    assert release_faults(listed, [one, two, three]) == []
    assert release_faults(listed, [one, dataclasses.replace(two, text="")]) == ["0002_b of 1.1 was changed"]
    assert release_faults(listed, [one]) == ["0002_b of 1.1 is missing: it was renamed or removed"]
    assert release_faults(listed, [dataclasses.replace(one, name="z"), two]) == [
        "0001_a of 1.0 is missing: it was renamed or removed",
        "0001_z comes before 0002_b, which is released",
    ]


@pytest.mark.system
def test_a_release_lists_its_migrations_and_no_later_one_may_change_them(tmp_path: Path) -> None:
    command = [sys.executable, str(RELEASED.parent / "release.py"), "freeze", str(tmp_path)]
    subprocess.run(command, check=True)
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    one, *others = registry.migrations()
    subprocess.run(command, check=True)

    assert first.keys() == {"contract.binpb.gz", "migrations.toml"}
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first
    assert released(tmp_path) == {VERSION: {each.file_name: each.checksum for each in (one, *others)}}
    assert release_faults(released(tmp_path), [dataclasses.replace(one, text=""), *others]) == [
        f"{one.file_name} of {VERSION} was changed"
    ]
    (tmp_path / "migrations.toml").write_text(f'["0.0.9"]\n{one.file_name} = "x"\n', "utf-8")
    refused = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (refused.returncode, refused.stderr) == (1, f"{one.file_name} of 0.0.9 was changed\n")


@pytest.mark.system
def test_a_version_with_a_tag_is_not_frozen_again(tmp_path: Path) -> None:
    clone, out = tmp_path / "clone", tmp_path / "released"
    git = (shutil.which("git") or "git", "-C", str(clone))
    subprocess.run([git[0], "clone", "--quiet", "--shared", str(RELEASED.parents[1]), str(clone)], check=True)
    # Of the last commit: the tree may have the next one already.
    version = tomllib.loads((clone / "libs/protos/pyproject.toml").read_text("utf-8"))["project"]["version"]
    subprocess.run([*git, "tag", "--force", f"v{version}"], check=True)
    command = [sys.executable, str(clone / "deploy/release.py"), "freeze", str(out)]

    refused = subprocess.run(command, check=False, capture_output=True, text=True)

    assert refused.returncode == 1
    assert f"v{version} is tagged" in refused.stderr
    assert not out.exists()


async def test_a_failing_migration_leaves_nothing_behind(database: TestDatabase) -> None:
    last = registry.migrations()[-1]
    broken = dataclasses.replace(
        last, number=last.number + 1, name="broken", text="CREATE TABLE skein.half (x int); SELECT 1 / 0;"
    )

    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrate(database.url, [*registry.migrations(), broken], registry.WITH_DATABASE)

    async with database.superuser() as connection:
        assert await version(connection) == last.number
        assert await connection.fetchval("SELECT to_regclass('skein.half')") is None


async def test_a_blocked_migration_gives_up_in_time_says_so_and_leaves_nothing(database: TestDatabase) -> None:
    last = registry.migrations()[-1]
    first, second = (
        dataclasses.replace(last, number=last.number + number, name=name, text=text)
        for number, name, text in (
            (1, "free", "CREATE TABLE skein.whole (x int)"),
            (2, "blocked", "CREATE TABLE skein.half (x int); ALTER TABLE memory.memories ADD COLUMN half int"),
        )
    )

    async with database.superuser() as reader, reader.transaction():
        await reader.fetch("SELECT FROM memory.memories")
        with pytest.raises(MigrationError, match=r"_blocked waited too long for a lock .* run `skein migrate` again"):
            await migrate(
                database.url, [*registry.migrations(), first, second], registry.WITH_DATABASE, lock_seconds=0.05
            )
        read = await reader.fetchval("SELECT count(*) FROM memory.memories")

    async with database.superuser() as connection:
        assert read == 0
        assert await version(connection) == first.number
        assert await connection.fetchval("SELECT to_regclass('skein.half')") is None
    applied = await migrate(database.url, [*registry.migrations(), first, second], registry.WITH_DATABASE)
    assert applied == [second]


async def test_months_are_made_once_also_by_several_at_a_time(database: TestDatabase) -> None:
    month = datetime(2031, 5, 17, tzinfo=UTC)

    async def make() -> bool:
        async with database.role("memory") as connection:
            return bool(await connection.fetchval("SELECT memory.ensure_month($1)", month))

    assert sorted(await asyncio.gather(*(make() for _ in range(4)))) == [False, False, False, True]


@pytest.mark.system
async def test_different_months_that_are_made_at_once_wait_for_each_other(database: TestDatabase) -> None:
    async def make(service: str, month: int) -> bool:
        async with database.role(service) as connection:
            at = datetime(2031, month, 1, tzinfo=UTC)
            return bool(await connection.fetchval(f"SELECT {service}.ensure_month($1)", at))

    made = await asyncio.gather(*(make(service, month) for month in range(1, 7) for service in ("memory", "session")))

    assert all(made)


# Of a partition, all but its name and those of its indexes and constraints, which Postgres chooses.
PARTITION = r"""
    SELECT c.relrowsecurity, c.relforcerowsecurity, c.relacl::text, pg_get_userbyid(c.relowner) AS owner,
        (SELECT array_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull || ' '
            || coalesce(pg_get_expr(d.adbin, d.adrelid), '') ORDER BY a.attnum)
         FROM pg_attribute AS a LEFT JOIN pg_attrdef AS d ON (d.adrelid, d.adnum) = (a.attrelid, a.attnum)
         WHERE a.attrelid = c.oid AND a.attnum > 0) AS columns,
        (SELECT array_agg(regexp_replace(pg_get_indexdef(i.indexrelid), '^.* ON \S+ ', '')
            ORDER BY regexp_replace(pg_get_indexdef(i.indexrelid), '^.* ON \S+ ', ''))
         FROM pg_index AS i WHERE i.indrelid = c.oid) AS indexes,
        (SELECT array_agg(pg_get_constraintdef(f.oid) ORDER BY pg_get_constraintdef(f.oid))
         FROM pg_constraint AS f WHERE f.conrelid = c.oid AND f.contype <> 'n') AS constraints
    FROM pg_class AS c WHERE c.oid = $1::text::regclass
"""


@pytest.mark.parametrize("table", ["memory.memories", "memory.access_log", "session.messages"])
async def test_a_month_is_made_alike_in_the_way_that_citus_needs(database: TestDatabase, table: str) -> None:
    schema = table.partition(".")[0]
    async with database.role(schema) as connection:
        await connection.fetchval(f"SELECT {schema}.ensure_month($1)", datetime(2031, 5, 1, tzinfo=UTC))
        async with database.superuser() as owner:
            # What tells that Citus distributes the table.
            await owner.execute(
                "SET allow_system_table_mods = on; CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass);"
                "GRANT SELECT ON pg_catalog.pg_dist_partition TO skein_owner"
            )
            await owner.execute("INSERT INTO pg_catalog.pg_dist_partition VALUES ($1::text::regclass)", table)
        async with connection.transaction():
            made = await connection.fetchval(f"SELECT {schema}.ensure_month($1)", datetime(2031, 6, 1, tzinfo=UTC))
            mode = await connection.fetchval("SELECT current_setting('citus.multi_shard_modify_mode')")
        after = await connection.fetchval("SELECT current_setting('citus.multi_shard_modify_mode')")
        again = await connection.fetchval(f"SELECT {schema}.ensure_month($1)", datetime(2031, 6, 1, tzinfo=UTC))

    async with database.superuser() as connection:
        usual, other = [await connection.fetchrow(PARTITION, f"{table}_y2031m{month}") for month in ("05", "06")]
        is_attached = await connection.fetchval(
            "SELECT inhparent = $1::text::regclass FROM pg_inherits WHERE inhrelid = $2::text::regclass",
            table,
            f"{table}_y2031m06",
        )
    assert (made, again, is_attached) == (True, False, True)
    assert (mode, after) == ("sequential", "")
    assert usual == other


async def test_the_database_and_the_code_agree_on_the_first_id_of_a_time(database: TestDatabase) -> None:
    times = [datetime(2015, 1, 1, tzinfo=UTC), datetime(2026, 11, 21, 3, 4, 5, 678000, tzinfo=UTC)]

    async with database.superuser() as connection:
        for time in times:
            assert await connection.fetchval("SELECT skein.first_id($1)", time) == ids.min_id_at(time)


async def test_a_partition_cannot_be_read_past_the_parent(database: TestDatabase) -> None:
    async with database.role("memory") as connection:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetch("SELECT * FROM memory.memories_before_2015")


@pytest.mark.parametrize("service", ["auth", "tenancy", "session", "memory", "recall"])
async def test_without_a_tenant_a_service_sees_no_row_of_anybody(database: TestDatabase, service: str) -> None:
    tenant_id, organization_id, now = ids.new_id(ids.now()), ids.new_id(ids.now()), ids.now()
    async with database.superuser() as connection:
        await connection.execute(
            "INSERT INTO tenancy.organizations VALUES ($1, 'o', 'o', NULL, true, 1, $2, $2)", organization_id, now
        )
        await connection.execute(
            "INSERT INTO tenancy.tenants VALUES ($1, $2, 't', 't', NULL, true, 1, $3, $3)",
            tenant_id,
            organization_id,
            now,
        )
        await connection.execute(
            "INSERT INTO session.sessions"
            " (tenant_id, session_id, state, session_type, create_time, update_time, created_by)"
            " VALUES ($1, 's', 'active', 'conversation', $2, $2, 'x')",
            tenant_id,
            now,
        )
        await connection.execute(
            "INSERT INTO tenancy.agents"
            " (tenant_id, agent_id, display_name, create_time, update_time, created_by, updated_by)"
            " VALUES ($1, 'a', 'a', $2, $2, 'x', 'x')",
            tenant_id,
            now,
        )
        tables = await connection.fetch(
            "SELECT table_schema || '.' || table_name AS name FROM information_schema.role_table_grants g "
            "WHERE grantee = $1 AND privilege_type = 'SELECT' AND EXISTS (SELECT FROM information_schema.columns c "
            "WHERE (c.table_schema, c.table_name, c.column_name) = (g.table_schema, g.table_name, 'tenant_id'))",
            f"skein_{service}",
        )
    assert tables

    async with database.role(service) as connection:
        for table in tables:
            assert await connection.fetchval(f"SELECT count(*) FROM {table['name']}") == 0  # noqa: S608 - the catalog's.
