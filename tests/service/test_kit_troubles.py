"""What every trouble of the database is called for the caller, raised by a real server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fix_database import TestDatabase
from fix_external_postgres import URL
from fix_proxy import Proxy

from skein_kit.database.named_queries import Query
from skein_kit.database.transactions import Database
from skein_kit.errors import (
    DatabaseFull,
    DatabaseUnavailable,
    DeadlineExceeded,
    RpcError,
    TextNotStorable,
    TransactionConflict,
)

TROUBLES: dict[str, type[RpcError]] = {
    "40001": TransactionConflict,
    "40P01": TransactionConflict,
    "55P03": TransactionConflict,
    "57014": DeadlineExceeded,
    "25P03": DeadlineExceeded,
    "25P04": DeadlineExceeded,
    "53100": DatabaseFull,
    "53200": DatabaseUnavailable,
    "53300": DatabaseUnavailable,
    "53400": DatabaseUnavailable,
    "08006": DatabaseUnavailable,
    "08P01": DatabaseUnavailable,
    "57P01": DatabaseUnavailable,
    "57P02": DatabaseUnavailable,
    "57P03": DatabaseUnavailable,
    "57P05": DatabaseUnavailable,
    "58030": DatabaseUnavailable,
    "25006": DatabaseUnavailable,
    "22021": TextNotStorable,
}
_RAISE = "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{}', MESSAGE = 'as if'; END $$"
SERIALIZABLE = Query.parse("serializable", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
COUNT = Query.parse("count", "SELECT count(*) FROM public.shifts")
TAKE = Query.parse("take", "INSERT INTO public.shifts DEFAULT VALUES")


@pytest.fixture
async def pool(database: TestDatabase) -> AsyncIterator[Database]:
    async with Database.open(database.url, service="memory", size=2, timeout=30.0) as opened:
        yield opened


async def test_every_trouble_has_a_refusal_that_tells_the_caller_what_to_do(pool: Database) -> None:
    results = {}
    for state in TROUBLES:
        try:
            async with pool.global_transaction() as tx:
                await tx.execute(Query.parse("trouble", _RAISE.format(state)))
        except RpcError as refusal:
            results[state] = type(refusal)

    assert results == TROUBLES
    assert all(kind.retry_after for kind in {TransactionConflict, DatabaseFull, DatabaseUnavailable})


async def test_one_of_two_unserializable_transactions_is_refused_and_leaves_nothing(
    database: TestDatabase, pool: Database
) -> None:
    async with database.superuser() as connection:
        await connection.execute(
            "CREATE TABLE public.shifts (id int GENERATED ALWAYS AS IDENTITY);"
            "GRANT SELECT, INSERT ON public.shifts TO PUBLIC"
        )
    both_have_looked = asyncio.Barrier(2)

    async def take_the_only_one() -> None:
        async with pool.global_transaction() as tx:
            await tx.execute(SERIALIZABLE)
            assert await tx.value(COUNT) == 0
            await both_have_looked.wait()
            await tx.execute(TAKE)

    ends = await asyncio.gather(take_the_only_one(), take_the_only_one(), return_exceptions=True)

    assert sorted(type(end).__name__ for end in ends) == ["NoneType", "TransactionConflict"]
    async with pool.global_transaction() as tx:
        assert await tx.value(COUNT) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's list of connections")
@pytest.mark.skipif(bool(URL), reason="reaches the server by its socket")
async def test_the_kernel_is_asked_to_notice_a_server_that_is_gone(database: TestDatabase) -> None:
    """Its timer for silence runs on the connection: see the column `tr` of /proc/net/tcp."""
    socket = Path(database.server.host) / f".s.PGSQL.{database.server.port}"
    async with Proxy.to(socket) as proxy:
        port = int(proxy.address.rpartition(":")[2])
        url = f"postgresql://postgres@{proxy.address}/{database.name}?sslmode=disable"
        async with Database.open(url, service="memory", size=1, timeout=30.0) as pool:
            async with pool.global_transaction():
                pass
            rows = [line.split() for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]]
            timers = {row[5].partition(":")[0] for row in rows if row[2] == f"0100007F:{port:04X}" and row[3] == "01"}

    assert timers == {"02"}
