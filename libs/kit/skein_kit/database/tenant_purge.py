"""Purges a service's rows of a deleted tenant: a bounded number per call, children before parents."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from skein_kit.database.named_queries import Queries

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from uuid import UUID

    import asyncpg

    from skein_kit.database.named_queries import Query
    from skein_kit.database.transactions import Database, Transaction

    OnDeleted = Callable[[Transaction, Sequence[asyncpg.Record]], Awaitable[None]]

_NOTHING: Mapping[str, OnDeleted] = MappingProxyType({})
_LOCK = Queries.load("skein_kit")["lock_purge"]
# Rows of one call without a limit.
DEFAULT_LIMIT = 1000


async def purge_tenant_rows(
    database: Database,
    tenant_id: UUID,
    tables: Mapping[str, Query],
    limit: int,
    *,
    on_deleted: Mapping[str, OnDeleted] = _NOTHING,
) -> tuple[dict[str, int], bool]:
    """Purge up to `limit` rows of a tenant in one transaction, table by table in the order of `tables`.

    Each query deletes up to :count rows of its table. Those of the tables in `on_deleted` return columns of the rows,
    with which it is called in the transaction. Return the number of deleted rows by table, without tables that had
    none, and whether more rows may exist.
    """
    counts: dict[str, int] = {}
    remaining = limit or DEFAULT_LIMIT
    async with database.for_all_spaces().transaction(tenant_id) as tx:
        await lock(tx, tenant_id)
        await tx.stop_history()
        for table, query in tables.items():
            if table in on_deleted:
                rows = await tx.rows(query, tenant_id=tenant_id, count=remaining)
                await on_deleted[table](tx, rows)
                deleted_count = len(rows)
            else:
                deleted_count = await tx.execute(query, tenant_id=tenant_id, count=remaining)
            if deleted_count:
                counts[table] = deleted_count
            remaining -= deleted_count
            if remaining <= 0:
                return counts, True
    return counts, False


async def lock(tx: Transaction, tenant_id: UUID) -> None:
    """Wait until no other transaction purges the tenant.

    Two workers may purge one tenant. A batch that waits for the rows of another batch deletes fewer rows than its
    limit, which would look like the end.
    """
    await tx.value(_LOCK, tenant_id=tenant_id)
