"""Partitions of months are made by the first process that needs them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import asyncpg
import pytest
from fix_database import TestDatabase

from skein_kit.database.monthly_partitions import MonthlyPartitions
from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Database

MAY = datetime(2031, 5, 17, tzinfo=UTC)
JUNE = datetime(2031, 6, 1, tzinfo=UTC)


@pytest.mark.parametrize("service", ["memory", "session"])
async def test_a_month_is_made_once_however_many_ask_at_the_same_time(database: TestDatabase, service: str) -> None:
    query = Queries.load(f"skein_{service}")["ensure_month"]
    async with (
        Database.open(database.url, service=service, size=4, timeout=30.0) as here,
        Database.open(database.url, service=service, size=4, timeout=30.0) as there,
    ):
        months, others = MonthlyPartitions(here, query), MonthlyPartitions(there, query)

        made = await asyncio.gather(*(each.ensure([MAY, JUNE]) for each in (months, others) for _ in range(3)))

        assert sum(made) == 2
        assert await months.ensure([MAY]) == 0
        assert await months.ensure_ahead(MAY, 2) == (1, datetime(2031, 8, 1, tzinfo=UTC))


async def test_a_month_that_loses_against_a_deadlock_is_tried_again(database: TestDatabase) -> None:
    """Making a partition waits for writers; of two transactions that wait for each other, one is cancelled."""
    query = Queries.load("skein_memory")["ensure_month"]
    async with (
        database.superuser() as connection,
        Database.open(database.url, service="memory", size=1, timeout=30.0) as db,
    ):
        await connection.execute("CREATE SEQUENCE public.tries; GRANT USAGE ON public.tries TO PUBLIC")
        await connection.execute(
            "CREATE FUNCTION public.give_way(month timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN "
            "IF nextval('public.tries') < 3 THEN RAISE deadlock_detected; END IF; RETURN true; END $$"
        )
        stubborn = MonthlyPartitions(db, type(query).parse("ensure_month", "SELECT public.give_way(:month)"))

        assert await stubborn.ensure([MAY]) == 1


@pytest.mark.system
async def test_a_month_of_a_distributed_table_gives_way_to_a_writer(database: TestDatabase) -> None:
    """Citus would end the younger one of two that wait for each other, the writer."""
    async with database.superuser() as owner, database.superuser() as writer:
        await owner.execute(
            "SET allow_system_table_mods = on; CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass);"
            "GRANT SELECT ON pg_catalog.pg_dist_partition TO skein_owner;"
            "INSERT INTO pg_catalog.pg_dist_partition VALUES ('memory.memories')"
        )
        async with writer.transaction():
            await writer.execute("LOCK TABLE memory.memories IN ROW EXCLUSIVE MODE")
            with pytest.raises(asyncpg.LockNotAvailableError):
                await owner.execute("SELECT memory.ensure_month($1)", JUNE)

        assert await owner.fetchval("SELECT memory.ensure_month($1)", JUNE)
        assert await owner.fetchval("SELECT current_setting('citus.multi_shard_modify_mode', true)") != "sequential"
