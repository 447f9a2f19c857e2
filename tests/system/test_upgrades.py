"""Data of this version under two later ones, each a copy of a package of ours with more migrations, as processes."""

from __future__ import annotations

import asyncio
import json
import shutil
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest
from fix_cluster import test_environment
from fix_command import skein, start, up
from fix_everything import lost
from fix_fleet_load import Load
from fix_later_versions import NEWEST, TEXTS, Later, later
from fix_own_postgres import open_folder, url_of

from skein_client.client import Client
from skein_cluster import embedded
from skein_cluster.cli.exit_codes import ExitCode
from skein_cluster.embedded.databases import DATABASE
from skein_cluster.embedded.recovery import find_server
from skein_cluster.embedded.server import Server
from skein_cluster.processes.single_process import LocalCluster, single_process_cluster

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Later:
    return later(tmp_path_factory.mktemp("first"), "7.0.0", *TEXTS[:1])


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Later:
    return later(tmp_path_factory.mktemp("second"), "8.0.0", *TEXTS)


@asynccontextmanager
async def today(home: Path, *, durable: bool = False) -> AsyncIterator[LocalCluster]:
    """Run this version on a data folder; only a durable server can be backed up."""
    async with single_process_cluster(home, environment=test_environment(), durable=durable) as cluster:
        yield cluster


def client_of(home: Path) -> Client:
    """Call the cluster that has written the folder's credentials."""
    values = json.loads((home / "credentials.json").read_text("utf-8"))
    return Client(endpoint=values["endpoint"], api_key=values["api_key"], timeout=60.0)


async def check_kept(home: Path, *loads: Load) -> None:
    """Fail unless everything that was acknowledged is there, and is answered as before when it is repeated."""
    async with client_of(home) as client:
        for load in loads:
            kept = replace(load, client=client)
            stored, expected = await kept.transcripts()
            assert (load.errors, await kept.missing(), await kept.differing()) == ([], [], [])
            assert stored == expected


async def check_filled(home: Path) -> None:
    """Fail unless the columns of both later versions have their values in rows from before them."""
    server = find_server(home / "postgres")
    assert server is not None
    connection = await asyncpg.connect(url_of(server))
    memories = await connection.fetchrow(
        "SELECT count(*) FILTER (WHERE later_length = length(content)), count(*) FILTER (WHERE later_length IS DISTINCT"
        " FROM length(content) AND later_length IS NOT NULL) FROM memory.memories"
    )
    messages = await connection.fetchval("SELECT count(*) FROM session.messages WHERE later_words > 0")
    await connection.close()
    assert memories is not None
    assert memories[0] > 0
    assert memories[1] == 0
    assert messages > 0


async def test_data_goes_through_later_versions_under_load_and_one_back_and_nothing_is_lost(
    first: Later, second: Later
) -> None:
    with open_folder() as home:
        async with today(home), client_of(home) as client:
            one = Load(client, "today")
            async with one.running():
                await one.further(3)
                to_first = await first.run("upgrade", "--data-dir", str(home), "--json")
                await one.further(4)
        async with up(home, **first.settings), client_of(home) as client:
            await check_kept(home, one)
            two = Load(client, "first")
            async with two.running():
                await two.further(3)
                to_second = await second.run("upgrade", "--data-dir", str(home), "--json")
                await two.further(4)
        async with up(home, **second.settings), client_of(home) as client:
            await check_filled(home)
            await check_kept(home, one, two)
            three = Load(client, "second")
            async with three.running():
                await three.further(4)
        async with up(home, **first.settings):
            await check_kept(home, one, two, three)
        too_far = await skein("up", "--data-dir", str(home))

    assert to_first.json == {"version": NEWEST + 1, "applied": [{"number": NEWEST + 1, "name": "later"}]}
    assert to_second.json == {"version": NEWEST + 2, "applied": [{"number": NEWEST + 2, "name": "later"}]}
    assert too_far.code == ExitCode.CANNOT_START
    assert f"its schema is at {NEWEST + 2}" in too_far.err
    assert f"Use Skein {second.version} or a later one" in too_far.err


async def test_data_starts_with_a_version_two_ahead_also_after_its_upgrade_was_killed(second: Later) -> None:
    with open_folder() as home:
        async with today(home), client_of(home) as client:
            one = Load(client, "today", reads=False)
            async with one.running():
                await one.further(3)
        checks = [await second.run("upgrade", "--check", "--data-dir", str(home), "--json") for _ in range(2)]
        await kill_while_it_migrates(home, second)
        halfway = await second.run("upgrade", "--check", "--data-dir", str(home))
        async with up(home, **second.settings), client_of(home) as client:
            await check_filled(home)
            two = Load(client, "second", reads=False)
            async with two.running():
                await two.further(3)
            await check_kept(home, one, two)
            done = await second.run("upgrade", "--check", "--data-dir", str(home))

    plan, again = (check.json for check in checks)
    assert [check.code for check in checks] == [ExitCode.REFUSED] * 2
    assert (plan["schema_version"], plan["newest_version"]) == (NEWEST, NEWEST + 2)
    assert [
        (each["number"], [(table["table"], table["waits"]) for table in each["tables"]]) for each in plan["migrations"]
    ] == [
        (NEWEST + 1, [("memory.memories", "reads and writes")]),
        (NEWEST + 2, [(f"session.{name}", "reads and writes") for name in ("messages", "messages_history")]),
    ]
    assert 0 < plan["disk_bytes"] < plan["free_bytes"]
    assert again["migrations"] == plan["migrations"]
    assert (halfway.code, f"from version {NEWEST + 1} to {NEWEST + 2}" in halfway.out) == (ExitCode.REFUSED, True)
    assert (done.code, "Nothing to do" in done.out) == (ExitCode.OK, True)


async def kill_while_it_migrates(home: Path, version: Later) -> None:
    """Kill an upgrade between its second migration's first statement and its end."""
    async with embedded.running_server(home / "postgres") as server:
        connection = await asyncpg.connect(url_of(server))
        async with connection.transaction():
            await connection.execute("SELECT FROM session.messages")
            environment = {**test_environment(), **version.settings}
            process = await start("upgrade", "--data-dir", str(home), environment=environment)
            async with asyncio.timeout(120):
                while not await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
                    assert process.returncode is None
                    await asyncio.sleep(0.01)
            process.kill()
            await process.wait()
        await connection.close()


async def test_a_backup_and_an_export_of_this_version_are_read_by_a_later_one(second: Later, tmp_path: Path) -> None:
    former, export = tmp_path / "former.jsonl", tmp_path / "export.jsonl"
    with open_folder() as home, open_folder() as other, open_folder() as empty, open_folder() as backups:
        async with today(home, durable=True), client_of(home) as client:
            load = Load(client, "today", reads=False)
            async with load.running():
                await load.further(3)
            exported = await skein("export", "-o", str(former), SKEIN_DATA_DIR=str(home))
            place = ("--backup-dir", str(backups))
            backed_up = await skein("backup", "create", *place, "--data-dir", str(home), "--json")
        assert backed_up.code == 0, backed_up.err
        key = ("--key", backed_up.json["key"])
        into = await second.run("backup", "restore", "--latest", *place, *key, "--data-dir", str(other))
        # A backup has no keys.
        shutil.copy(home / "credentials.json", other)
        async with up(other, **second.settings):
            await check_filled(other)
            await check_kept(other, load)
        async with up(empty, **second.settings):
            imported = await skein("import", "jsonl", str(former), SKEIN_DATA_DIR=str(empty))
            again = await skein("export", "-o", str(export), SKEIN_DATA_DIR=str(empty))

    codes = [ended.code for ended in (exported, into, imported, again)]
    assert codes == [0] * 4, into.err + imported.err
    assert lost(export, former) == []


@contextmanager
def foreign_folders() -> Iterator[dict[str, Path]]:
    """Make data folders that no version can start."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(open_folder()) for name in ("itself", "database", "superuser")}


async def test_a_folder_of_another_program_is_refused_and_an_empty_one_is_not() -> None:
    with foreign_folders() as folders, open_folder() as empty:
        async with embedded.running_server(folders["itself"] / "pg", durable=False):
            pass
        async with embedded.running_server(folders["database"] / "postgres", durable=False) as server:
            await embedded.create_database(server, "shop")
        async with embedded.running_server(folders["superuser"] / "postgres", durable=False) as server:
            await embedded.create_database(server, DATABASE)
            connection = await asyncpg.connect(url_of(server))
            await connection.execute("CREATE ROLE root SUPERUSER LOGIN")
            await connection.close()
            connection = await asyncpg.connect(server.url(user="root", database=DATABASE))
            await connection.execute("ALTER ROLE postgres RENAME TO other")
            await connection.close()
        places = [folders["itself"] / "pg", folders["database"], folders["superuser"]]

        refusals = [
            await skein(*arguments, "--data-dir", str(place))
            for place in places
            for arguments in (("up",), ("upgrade", "--check"), ("upgrade",))
        ]
        nothing = await skein("upgrade", "--check", "--data-dir", str(empty))
        left = list(empty.iterdir())

    assert [ended.code for ended in refusals] == [ExitCode.CANNOT_START] * 9, [ended.err for ended in refusals]
    assert all("name another data folder, or set SKEIN_DATABASE_URL" in ended.err for ended in refusals)
    assert (nothing.code, "There is no database yet" in nothing.out, left) == (ExitCode.OK, True, [])


async def test_data_of_a_build_from_before_the_release_is_refused_with_the_way_to_move_it() -> None:
    with open_folder() as home:
        async with today(home) as cluster:
            connection = await asyncpg.connect(url_of(cluster.postgres))
            await connection.execute("UPDATE skein.migrations SET checksum = 'former' WHERE number = 7")
            await connection.close()
            check = await skein("upgrade", "--check", "--data-dir", str(home))
        refused = await skein("up", "--data-dir", str(home))

    assert (check.code, refused.code) == (ExitCode.CANNOT_START, ExitCode.CANNOT_START)
    assert check.err == refused.err
    assert (
        "`skein export -o FILE` for each tenant, and `skein import jsonl FILE` into an empty data folder" in check.err
    )


async def test_a_database_by_its_url_is_checked_and_upgraded(server: Server) -> None:
    name = f"upgraded_{uuid.uuid4().hex}"
    await embedded.create_database(server, name)
    url = server.url(user="postgres", database=name)

    before = await skein("upgrade", "--check", "--json", SKEIN_DATABASE_URL=url)
    upgraded = await skein("upgrade", "--json", SKEIN_DATABASE_URL=url)
    after = await skein("upgrade", "--check", "--json", SKEIN_DATABASE_URL=url)
    nowhere = await skein("upgrade", "--check", SKEIN_DATABASE_URL="postgresql://postgres@127.0.0.1:9/skein")
    await embedded.drop_database(server, name)

    assert [each.code for each in (before, upgraded, after, nowhere)] == [1, 0, 0, ExitCode.UNREACHABLE]
    assert [each["number"] for each in before.json["migrations"]] == list(range(1, NEWEST + 1))
    assert len(upgraded.json["applied"]) == NEWEST
    assert (after.json["schema_version"], after.json["migrations"], after.json["free_bytes"]) == (NEWEST, [], None)
