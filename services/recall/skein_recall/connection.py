"""Preparation of the service's database connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.search_text import vector_columns

if TYPE_CHECKING:
    import asyncpg


async def prepare_connection(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Send vectors in binary, and have the planner use indexes.

    Every statement has an index of its own. Other plans are cheap only for a tenant whose rows lie side by side, as
    after an import. For a tenant with scattered rows they cost ten times as much.
    """
    await vector_columns.prepare_connection(connection)
    await connection.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")
