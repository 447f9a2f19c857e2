"""Removing what a service keeps of a deleted tenant: a bounded number of rows at a time, children before parents."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from skein_kit.database import Database
    from skein_kit.sql import Query

# Rows that one call removes where its caller names no number.
DEFAULT_LIMIT = 1000


async def purge(
    database: Database, tenant_id: UUID, tables: Mapping[str, Query], limit: int
) -> tuple[dict[str, int], bool]:
    """Remove up to `limit` rows of a tenant, table by table in the order given, in one transaction.

    Each query removes up to `count` rows of its table. Return how many went from each table that had some, and whether
    there may be more.
    """
    counts: dict[str, int] = {}
    left = limit or DEFAULT_LIMIT
    async with database.tenant(tenant_id) as tx:
        for table, query in tables.items():
            removed = await tx.execute(query, tenant_id=tenant_id, count=left)
            if removed:
                counts[table] = removed
            left -= removed
            if left <= 0:
                return counts, True
    return counts, False
