"""Preparation of the service's database connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.search_text import vector_columns

if TYPE_CHECKING:
    import asyncpg


async def prepare_connection(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Send vectors in binary, and have the planner use indexes.

    Every statement has an index made for it. A plan that the planner takes for cheaper is cheap for a tenant whose rows
    lie side by side, as after an import, and ten times as expensive for one whose rows are scattered.
    """
    await vector_columns.prepare_connection(connection)
    await connection.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")
