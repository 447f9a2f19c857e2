"""Numbers of transactions that go on when a dump is restored into another server.

Events, documents and vectors have the number of the transaction that wrote them, and readers keep such numbers as
positions. Another server counts its transactions anew. So each server has a range of its own: its numbers begin at a
base, above all that a former server can have given. docs/decisions/event-positions.md says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncpg

    Connection = asyncpg.Connection[asyncpg.Record]

# Transactions of one server: 55 years with ten thousand a second. A bigint has room for half a million servers.
TRANSACTIONS_PER_SERVER = 1 << 44

_CREATE = """
CREATE TABLE IF NOT EXISTS skein.servers (
    transaction_base bigint PRIMARY KEY,
    system_identifier bigint NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now()
)
"""
# A function without a look-up, so that defaults of columns can add it at no cost.
_SET_BASE = """
CREATE OR REPLACE FUNCTION skein.transaction_base() RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN {}::bigint
"""
_LAST = "SELECT transaction_base, system_identifier FROM skein.servers ORDER BY transaction_base DESC LIMIT 1"


async def follow_server(connection: Connection) -> None:
    """Give the server's transactions a range of numbers, if it did not write the newest ones.

    Call it before anything writes to a database that was restored from a dump. A physical copy of a server, as a
    replica or a restored backup, counts on and keeps the range.
    """
    async with connection.transaction():
        if await connection.fetchval("SELECT to_regclass('skein.servers')") is None:
            await connection.execute(_CREATE)
        identifier = await connection.fetchval("SELECT system_identifier FROM pg_control_system()")
        last = await connection.fetchrow(_LAST)
        if last is not None and last["system_identifier"] == identifier:
            return
        base = 0 if last is None else last["transaction_base"] + TRANSACTIONS_PER_SERVER
        await connection.execute(_SET_BASE.format(base))
        await connection.execute(
            "INSERT INTO skein.servers (transaction_base, system_identifier) VALUES ($1, $2)", base, identifier
        )
