"""What is sent to a database on Citus, which sends settings on to its workers and fails on plans that are reused."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fix_cluster import test_environment
from fix_command import skein
from fix_database import TestDatabase

from skein.memory.v1 import memory_pb2
from skein_cluster.cli.exit_codes import ExitCode
from skein_kit.database.named_queries import Query
from skein_kit.database.transactions import Database
from skein_kit.database.tx_options import READ_ONLY, TxOptions
from skein_kit.errors import DatabaseUnavailable, HistoryNotKept
from skein_kit.ids import now
from skein_kit.rpc.due_tenants import list_due_tenants

TENANT = Query.parse("tenant", "SELECT current_setting('skein.tenant_id')")
PLANS = Query.parse("plans", "SELECT current_setting('plan_cache_mode')")
MODIFY_MODE = Query.parse("mode", "SELECT current_setting('citus.multi_shard_modify_mode', true)")
AWAY = Query.parse("away", "SELECT public.away() AS tenant_id WHERE :after::uuid IS NOT NULL AND :size::integer > 0")
WRITABLE = Query.parse("writable", "SELECT current_setting('transaction_read_only')")


@asynccontextmanager
async def opened(
    database: TestDatabase, *, citus: bool, pooled: bool = False
) -> AsyncIterator[tuple[Database, list[str]]]:
    """Open a pool of one connection, and the messages that it sends, as they are sent."""
    messages: list[str] = []

    async def listen(connection: Any) -> None:
        connection.add_query_logger(lambda record: messages.append(record.query))

    url = database.server.url(user="skein_memory", database=database.name)
    async with Database.open(
        url, service="memory", size=1, timeout=30.0, citus=citus, pooled=pooled, statements=0, init=listen
    ) as pool:
        yield pool, messages


@pytest.mark.parametrize("options", [TxOptions(), TxOptions(durable=False), READ_ONLY])
@pytest.mark.parametrize("pooled", [False, True])
async def test_a_transaction_begins_in_a_message_of_its_own(
    database: TestDatabase, options: TxOptions, *, pooled: bool
) -> None:
    tenant_id = uuid.uuid4()

    async with (
        opened(database, citus=True, pooled=pooled) as (pool, messages),
        pool.transaction(tenant_id, options) as tx,
    ):
        seen, is_read_only = await tx.value(TENANT), await tx.value(WRITABLE)

    begin, settings, *_ = messages
    assert begin == ("BEGIN READ ONLY" if options.read_only else "BEGIN")
    assert {part.strip().partition(" = ")[0].split()[0] for part in settings.split(";")} == {"SET"}
    assert (seen, is_read_only) == (str(tenant_id), "on" if options.read_only else "off")


async def test_a_read_as_of_a_time_is_refused_because_no_former_rows_are_kept(database: TestDatabase) -> None:
    async with opened(database, citus=True) as (pool, messages):
        with pytest.raises(HistoryNotKept):
            pool.transaction(uuid.uuid4(), TxOptions(as_of_time=now(), read_only=True))

    assert messages == []


async def test_a_transaction_without_a_tenant_begins_so_too(database: TestDatabase) -> None:
    async with opened(database, citus=True) as (pool, messages), pool.global_transaction() as tx:
        await tx.value(PLANS)

    assert messages[0] == "BEGIN"
    assert "BEGIN" not in messages[1]


async def test_elsewhere_a_transaction_and_its_settings_take_one_message(database: TestDatabase) -> None:
    async with opened(database, citus=False) as (pool, messages), pool.transaction(uuid.uuid4()) as tx:
        await tx.value(PLANS)

    assert messages[0].startswith("BEGIN; SET LOCAL skein.tenant_id = ")


@pytest.mark.parametrize("citus", [False, True])
async def test_rows_of_several_tables_take_one_statement_but_on_citus_one_each_of_values(
    database: TestDatabase, *, citus: bool
) -> None:
    tenant_id = uuid.uuid4()
    inserts = [
        Query.parse(name, f"INSERT INTO public.{name} (tenant_id, word) VALUES (:tenant_id, :word::text)")  # noqa: S608
        for name in ("parts", "wholes")
    ]
    rows: list[Mapping[str, object]] = [{"word": "tea"}, {"word": None}, {"word": "milk"}]
    async with database.superuser() as connection:
        for query in inserts:
            await connection.execute(f"CREATE TABLE public.{query.name} (tenant_id uuid, word text)")
            await connection.execute(f"GRANT SELECT, INSERT ON public.{query.name} TO skein_memory")
    stored = Query.parse("stored", "SELECT word FROM public.parts WHERE tenant_id = :tenant_id AND word <> :word")

    async with opened(database, citus=citus) as (pool, messages), pool.transaction(tenant_id) as tx:
        await tx.insert_all(tenant_id, [(inserts[0], rows), (inserts[1], rows[:1]), (inserts[1], [])])
        found = await tx.insert_all(tenant_id, [], then=stored, word="tea")

    sent = [message for message in messages if "INSERT INTO" in message]
    assert [row["word"] for row in found] == ["milk"]
    assert len(sent) == (2 if citus else 1)
    assert any("unnest" in message for message in sent) is not citus
    async with database.superuser() as connection:
        assert await connection.fetchval("SELECT count(*) FROM public.parts") == 3
        assert await connection.fetchval("SELECT word FROM public.wholes") == "tea"


@pytest.mark.parametrize("options", [TxOptions(), TxOptions(plan_once=True), READ_ONLY])
@pytest.mark.parametrize("pooled", [False, True])
async def test_every_transaction_on_citus_plans_each_statement_for_its_values(
    database: TestDatabase, options: TxOptions, *, pooled: bool
) -> None:
    async with opened(database, citus=True, pooled=pooled) as (pool, _):
        async with pool.transaction(uuid.uuid4(), options) as tx:
            of_tenant = await tx.value(PLANS)
        async with pool.operator_transaction() as tx:
            of_operator = await tx.value(PLANS)

    assert {of_tenant, of_operator} == {"force_custom_plan"}


@pytest.mark.parametrize("citus", [True, False])
async def test_shards_are_reached_one_after_the_other_where_there_are_any(
    database: TestDatabase, *, citus: bool
) -> None:
    async with opened(database, citus=citus) as (pool, _), pool.operator_transaction() as tx:
        await tx.write_sequentially()
        mode = await tx.value(MODIFY_MODE)

    assert mode == ("sequential" if citus else None)


async def test_a_list_that_a_machine_keeps_from_an_answer_names_all_tenants(database: TestDatabase) -> None:
    tenant_ids = sorted(uuid.uuid4() for _ in range(3))
    async with database.superuser() as connection:
        await connection.execute(
            """
            CREATE FUNCTION public.away() RETURNS uuid LANGUAGE plpgsql AS $$ BEGIN
                RAISE SQLSTATE '08006' USING MESSAGE = 'connection to the remote node failed'; END $$
            """
        )
        organization_id = uuid.uuid4()
        await connection.execute(
            "INSERT INTO tenancy.organizations (organization_id, display_name, slug, create_time, update_time)"
            " VALUES ($1, 'a', 'a', now(), now())",
            organization_id,
        )
        await connection.executemany(
            "INSERT INTO tenancy.tenants (tenant_id, organization_id, display_name, slug, create_time, update_time)"
            " VALUES ($1, $2, 'a', ($1::uuid)::text, now(), now())",
            [(tenant_id, organization_id) for tenant_id in tenant_ids],
        )
    request = memory_pb2.ListDueTenantsRequest()

    async with opened(database, citus=True) as (pool, _):
        response = await list_due_tenants(pool, AWAY, request, memory_pb2.ListDueTenantsResponse)
    async with opened(database, citus=False) as (pool, _):
        with pytest.raises(DatabaseUnavailable):
            await list_due_tenants(pool, AWAY, request, memory_pb2.ListDueTenantsResponse)

    assert response.tenant_ids == [str(tenant_id) for tenant_id in tenant_ids]


async def test_a_backup_of_the_coordinator_alone_is_refused(database: TestDatabase, tmp_path: Path) -> None:
    async with database.superuser() as connection:
        await connection.execute(
            "SET allow_system_table_mods = on; CREATE TABLE pg_catalog.pg_dist_node (nodeid integer)"
        )

    result = await skein(
        "backup", "create", "--data-dir", str(tmp_path), environment=test_environment(), SKEIN_DATABASE_URL=database.url
    )

    assert result.code == ExitCode.REFUSED
    assert "citus_create_restore_point" in result.err


@pytest.mark.parametrize(("citus", "modes"), [(True, {"force_custom_plan"}), (False, {"force_generic_plan"})])
async def test_plans_are_reused_except_on_citus(database: TestDatabase, *, citus: bool, modes: set[str]) -> None:
    async with opened(database, citus=citus, pooled=True) as (pool, messages):
        async with pool.transaction(uuid.uuid4(), TxOptions(plan_once=True)) as tx:
            at_begin = await tx.value(PLANS)
        async with pool.transaction(uuid.uuid4()) as tx:
            await tx.set_plan_mode(replan=False)
            later = await tx.value(PLANS)
            await tx.set_plan_mode(replan=True)
            back = await tx.value(PLANS)

    assert {at_begin, later} == modes
    assert back == "force_custom_plan"
    assert any("force_generic_plan" in message for message in messages) is not citus
