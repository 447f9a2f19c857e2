"""What `skein config check` learns from a database."""

from __future__ import annotations

from fix_catalogue import over
from fix_database import TestDatabase

from skein_cluster import registry
from skein_cluster.config.database_check import check_database, max_connections


def configuration(url: str, **settings: str) -> dict[str, str]:
    return {"SKEIN_DATABASE_URL": url, **settings}


async def test_a_migrated_database_with_room_has_nothing_against_it(database: TestDatabase) -> None:
    answer = await check_database(["memory"], configuration(database.url), replicas=1)

    assert answer.problems == []
    (note,) = answer.notes
    assert note.startswith("11 of the database's ")


async def test_more_connections_than_there_are_is_a_problem(database: TestDatabase) -> None:
    answer = await check_database(registry.NAMES, configuration(database.url), replicas=50)

    (problem,) = answer.problems
    assert f"and 50 processes with up to {max_connections(registry.NAMES, 10)} connections each may use " in problem
    assert "lower SKEIN_POOL_SIZE or raise max_connections" in problem


async def test_a_pool_that_is_too_large_for_the_database_is_a_problem(database: TestDatabase) -> None:
    answer = await check_database(["memory"], configuration(database.url, SKEIN_POOL_SIZE="1000"), replicas=1)

    (problem,) = answer.problems
    assert " connections, and this process may use 1001: lower SKEIN_POOL_SIZE" in problem


async def test_a_schema_of_another_version_is_a_problem(database: TestDatabase) -> None:
    newest = registry.migrations()[-1].number
    async with database.superuser() as connection:
        await connection.execute("DELETE FROM skein.migrations WHERE number = $1", newest)
        old = await check_database(["memory"], configuration(database.url), replicas=1)
        await connection.execute("UPDATE skein.migrations SET number = $1 WHERE number = $2", newest + 2, newest - 1)

    new = await check_database(["memory"], configuration(database.url), replicas=1)

    assert [problem.partition(":")[2] for problem in old.problems] == [" run skein migrate."]
    assert "too new for this program" in new.problems[0]


async def test_a_database_without_a_schema_is_a_problem(database: TestDatabase) -> None:
    empty = database.server.url(user="postgres", database="template1")

    answer = await check_database(["memory"], configuration(empty), replicas=1)

    assert answer.problems[0] == "The database has no readable schema: run skein migrate."


async def test_a_user_who_may_not_act_as_the_service_is_a_problem(database: TestDatabase) -> None:
    url = database.server.url(user="skein_session", database=database.name)

    answer = await check_database(["memory"], configuration(url), replicas=1)

    assert answer.problems[0] == "The user of SKEIN_DATABASE_URL may not act as skein_memory."


async def test_a_database_that_is_full_is_no_fault_of_the_settings(database: TestDatabase) -> None:
    url = database.server.url(user="skein_memory", database=database.name)
    async with database.superuser() as connection:
        await connection.execute(f'ALTER DATABASE "{database.name}" CONNECTION LIMIT 0')

    answer = await check_database(["memory"], configuration(url), replicas=1)

    assert answer.problems == []
    assert "too many connections for database" in answer.notes[0]


async def test_a_replica_is_asked_too_for_the_services_that_read_there(database: TestDatabase) -> None:
    nowhere = database.server.url(user="postgres", database="nowhere")

    wrong = await check_database(["memory"], configuration(database.url, SKEIN_REPLICA_URL=nowhere), replicas=1)
    itself = await check_database(["memory"], configuration(database.url, SKEIN_REPLICA_URL=database.url), replicas=1)
    unread = await check_database(["tenancy"], configuration(database.url, SKEIN_REPLICA_URL=nowhere), replicas=1)

    assert wrong.problems == ['The database of SKEIN_REPLICA_URL refuses: database "nowhere" does not exist.']
    assert (itself.problems, itself.notes[1].partition(":")[0]) == (
        [],
        "The database of SKEIN_REPLICA_URL is not a replica",
    )
    assert unread.problems == []


@over("url", ["nonsense", "postgresql://127.0.0.1:1:1/skein", "mysql://here/skein"])
async def test_an_address_that_is_none_is_a_problem_and_is_not_repeated(url: str) -> None:
    answer = await check_database(["memory"], configuration(url), replicas=1)

    assert answer.problems == ["SKEIN_DATABASE_URL should be an address such as postgresql://user@host:5432/skein."]
