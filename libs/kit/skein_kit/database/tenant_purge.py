"""Removing what a service keeps of a deleted tenant: a bounded number of rows at a time, children before parents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.database.named_queries import Queries

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from skein_kit.database.named_queries import Query
    from skein_kit.database.transactions import Database, Transaction

_LOCK = Queries.load("skein_kit")["lock_purge"]
# Rows that one call removes where its caller names no number.
DEFAULT_LIMIT = 1000


async def purge_tenant_rows(
    database: Database, tenant_id: UUID, tables: Mapping[str, Query], limit: int
) -> tuple[dict[str, int], bool]:
    """Remove up to `limit` rows of a tenant, table by table in the order given, in one transaction.

    Each query removes up to `count` rows of its table. Return how many went from each table that had some, and whether
    there may be more.
    """
    counts: dict[str, int] = {}
    left = limit or DEFAULT_LIMIT
    async with database.transaction(tenant_id) as tx:
        await lock(tx, tenant_id)
        for table, query in tables.items():
            removed = await tx.execute(query, tenant_id=tenant_id, count=left)
            if removed:
                counts[table] = removed
            left -= removed
            if left <= 0:
                return counts, True
    return counts, False


async def lock(tx: Transaction, tenant_id: UUID) -> None:
    """Wait until no other transaction purges the tenant.

    Two workers may purge one tenant. A batch that waits for the rows of another batch removes fewer rows than its
    limit, which would look like the end.
    """
    await tx.value(_LOCK, tenant_id=tenant_id)
