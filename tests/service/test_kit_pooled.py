"""What a service leaves behind in a connection that it shares with others through a PgBouncer in transaction mode."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest
from fix_database import TestDatabase

from skein_kit.database.connection_settings import connect_arguments
from skein_kit.database.named_queries import Query
from skein_kit.database.transactions import Database
from skein_kit.database.tx_options import READ_ONLY, TxOptions
from skein_kit.settings import SettingInvalid

PLANS = Query.parse("plans", "SELECT current_setting('plan_cache_mode')")
PATH = Query.parse("path", "SELECT current_setting('search_path')")
TENANT = Query.parse("tenant", "SELECT coalesce(current_setting('skein.tenant_id', true), '')")
BACKEND = Query.parse("backend", "SELECT pg_backend_pid()")
PREPARED = Query.parse("prepared", "SELECT count(*) FROM pg_prepared_statements")


@pytest.fixture
async def pool(database: TestDatabase) -> AsyncIterator[Database]:
    url = database.server.url(user="skein_memory", database=database.name)
    async with Database.open(url, service="memory", size=1, timeout=30.0, pooled=True, statements=0) as opened:
        yield opened


async def test_a_transaction_has_the_settings_that_a_connection_of_ours_would_have(pool: Database) -> None:
    tenant_id = uuid.uuid4()

    async with pool.transaction(tenant_id) as tx:
        results = [await tx.value(query) for query in (PLANS, PATH, TENANT)]
    async with pool.transaction(tenant_id, TxOptions(plan_once=True)) as tx:
        once = await tx.value(PLANS)

    assert results == ["force_custom_plan", '""', str(tenant_id)]
    assert once == "force_generic_plan"


async def test_a_transaction_leaves_nothing_on_its_connection(pool: Database) -> None:
    async with pool.transaction(uuid.uuid4()) as tx:
        await tx.value(PLANS)

    connection = await pool.connections.acquire()
    remaining = [await connection.fetchval(query.text) for query in (PATH, TENANT, PREPARED)]
    await pool.connections.release(connection)

    assert remaining == ['"$user", public', "", 0]


async def test_a_read_that_ended_keeps_none_of_the_pooler_s_servers_from_others(
    pool: Database, database: TestDatabase
) -> None:
    async with pool.transaction(uuid.uuid4(), READ_ONLY) as tx:
        reading = await tx.value(BACKEND)

    async with database.superuser() as connection:
        state = await connection.fetchval("SELECT state FROM pg_stat_activity WHERE pid = $1", reading)
    assert state == "idle"


def test_a_pooler_is_sent_no_parameter_that_it_does_not_know() -> None:
    keywords = connect_arguments("postgresql://skein_memory@pooler/skein", "skein_memory", pooled=True)

    assert set(keywords["server_settings"]) == {"application_name", "timezone"}


def test_a_service_cannot_act_as_another_role_through_a_pooler() -> None:
    with pytest.raises(SettingInvalid, match="should name the user skein_memory"):
        connect_arguments("postgresql://postgres@pooler/skein", "skein_memory", pooled=True)
