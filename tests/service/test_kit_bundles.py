"""Rows that are written together: in one statement where they are few, and all of them in any case."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from itertools import product
from operator import itemgetter
from uuid import UUID

import asyncpg
import pytest
from fix_database import TestDatabase
from fix_metrics import sample

from skein_kit.database.batch_insert import InsertRows, insert_batch, insert_batch_and_fetch
from skein_kit.database.named_queries import Query
from skein_kit.database.transactions import Database
from skein_kit.ids import new_id

AT = datetime(2026, 1, 2, tzinfo=UTC)
TENANT = UUID(int=7)
DOCUMENTS = Query.parse(
    "add_documents",
    "INSERT INTO recall.documents (tenant_id, item_id, kind, length, revision) "
    "VALUES (:tenant_id, :item_id, 'memory', 1, 1)",
)
POSTINGS = Query.parse(
    "add_postings",
    "INSERT INTO recall.postings (tenant_id, term, frequency, item_id, kind, length) "
    "VALUES (:tenant_id, :term, :frequency, :item_id, :kind, :length)",
)
SAME = {"kind": "memory", "length": 4}
READ = Query.parse(
    "read_all", "SELECT item_id, term, frequency, kind, length FROM recall.postings WHERE tenant_id = :tenant_id"
)
COUNT = Query.parse("count_all", "SELECT count(*) FROM recall.postings WHERE tenant_id = :tenant_id")
DOUBLED = Query.parse("doubled", "SELECT 2 * number FROM unnest(:numbers::int[]) AS number")


@pytest.fixture
async def pool(database: TestDatabase) -> AsyncIterator[Database]:
    """A pool on a database with one tenant."""
    async with database.superuser() as connection:
        await connection.execute(
            "INSERT INTO tenancy.organizations (organization_id, display_name, slug, create_time, update_time) "
            "VALUES ($1, 'House', 'house', $2, $2)",
            TENANT,
            AT,
        )
        await connection.execute(
            "INSERT INTO tenancy.tenants (tenant_id, organization_id, display_name, slug, create_time, update_time) "
            "VALUES ($1, $1, 'Mira', 'mira', $2, $2)",
            TENANT,
            AT,
        )
    async with Database.open(database.url, service="memory", size=1, timeout=30.0) as opened:
        yield opened


def bundle(documents: int, words: int) -> list[InsertRows]:
    """So many documents, each with so many words."""
    ids = [new_id(AT) for _ in range(documents)]
    listed: list[dict[str, object]] = [
        {"item_id": id_, "term": f"word{number}", "frequency": number + 1, **SAME}
        for id_, number in product(ids, range(words))
    ]
    # The words of one document differ in nothing else.
    shared = ("item_id", "kind", "length") if documents == 1 else ()
    return [
        InsertRows(DOCUMENTS, [{"item_id": id_} for id_ in ids]),
        InsertRows(POSTINGS, listed, single_statement_rows=3, shared_parameters=shared),
    ]


def runs(query: str) -> float:
    """How often a query of the service was carried out."""
    labels = {"service": "memory", "query": query}
    return sample("skein_database_query_duration_seconds_count", **labels) or 0.0


@pytest.mark.parametrize(("documents", "words"), [(0, 0), (1, 0), (1, 1), (1, 3), (1, 40), (3, 1), (5, 1), (5, 8)])
async def test_every_row_is_there_whatever_their_number(pool: Database, documents: int, words: int) -> None:
    made = bundle(documents, words)
    async with pool.transaction(TENANT) as tx:
        await insert_batch(tx, TENANT, made)

        found = [dict(row) for row in await tx.rows(READ, tenant_id=TENANT)]
    by_name = itemgetter("item_id", "term")
    assert sorted(found, key=by_name) == sorted(made[1].rows, key=by_name)


def test_what_rows_share_must_be_what_the_query_takes_last() -> None:
    with pytest.raises(ValueError, match="last parameters of add_postings"):
        _ = InsertRows(POSTINGS, [{}], shared_parameters=("kind", "item_id", "length")).part


async def test_few_rows_of_several_tables_are_one_statement(pool: Database) -> None:
    before = runs("add_documents+add_postings")

    async with pool.transaction(TENANT) as tx:
        await insert_batch(tx, TENANT, bundle(1, 3))

    assert runs("add_documents+add_postings") == before + 1


@pytest.mark.parametrize(("documents", "words"), [(0, 0), (1, 2), (1, 40), (5, 8)])
async def test_what_is_read_comes_back_and_the_rows_are_there(pool: Database, documents: int, words: int) -> None:
    async with pool.transaction(TENANT) as tx:
        found = await insert_batch_and_fetch(tx, TENANT, bundle(documents, words), DOUBLED, numbers=[1, 2])

        assert [row[0] for row in found] == [2, 4]
        assert await tx.value(COUNT, tenant_id=TENANT) == documents * words


async def test_a_row_that_refers_to_nothing_refuses_all(pool: Database) -> None:
    documents, listed = bundle(1, 1)
    strayed = InsertRows(POSTINGS, [{"item_id": new_id(AT), "term": "stray", "frequency": 1, **SAME}])

    with pytest.raises(asyncpg.ForeignKeyViolationError):
        async with pool.transaction(TENANT) as tx:
            await insert_batch(tx, TENANT, [documents, listed, strayed])

    async with pool.transaction(TENANT) as tx:
        assert await tx.value(COUNT, tenant_id=TENANT) == 0
