"""Takes one layer of isolation away, so that a test sees whether the other holds by itself.

SKEIN_TEST_LAYER=keys leaves what the statements and the keys of the tables say: row-level security is switched off.
SKEIN_TEST_LAYER=rows leaves row-level security: no statement compares a tenant any more.
"""

from __future__ import annotations

import os
import re

import asyncpg

from skein_cluster.embedded.server import Server
from skein_kit.database.named_queries import Query

LAYER = os.environ.get("SKEIN_TEST_LAYER", "")
_PREDICATE = re.compile(r"(\b\w+\.)?\btenant_id = :tenant_id\b")
_ALWAYS = ":tenant_id::uuid IS NOT NULL"


def remove_predicates() -> None:
    """Let every statement read from now on hold for any tenant. To be called before a service is imported."""
    whole = Query.parse.__func__  # type: ignore[attr-defined]  # A classmethod.

    def of(cls: type[Query], name: str, body: str) -> Query:
        query: Query = whole(cls, name, _PREDICATE.sub(_ALWAYS, body))
        return query

    Query.parse = classmethod(of)  # type: ignore[assignment,method-assign]  # On purpose.


async def switch_off_row_level_security(server: Server) -> None:
    """Let every role see every row that it is granted."""
    connection = await asyncpg.connect(dsn=server.url(user="postgres", database="skein"))
    try:
        tables = await connection.fetch("SELECT oid::regclass::text AS name FROM pg_class WHERE relrowsecurity")
        assert tables
        for table in tables:
            await connection.execute(f"ALTER TABLE {table['name']} DISABLE ROW LEVEL SECURITY")
    finally:
        await connection.close()


if LAYER == "rows":
    remove_predicates()
