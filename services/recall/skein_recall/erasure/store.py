"""Where something was erased, and what the index itself keeps of erased items."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from skein_recall.queries import QUERIES

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from skein_kit.database.transactions import Database


class ErasureStore:
    """Reads the notes of erasures, and removes terms that no item has any more."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_erasures(self) -> dict[UUID, Counter[datetime]]:
        """Return the erasures that are noted, by tenant: how many began at each time.

        A note appears when its erasure commits, and stays for half a minute from then on at least.
        """
        async with self._database.operator() as tx:
            rows = await tx.rows(QUERIES["list_erasures"])
        erasures: dict[UUID, Counter[datetime]] = {}
        for row in rows:
            erasures.setdefault(row["tenant_id"], Counter())[row["erase_time"]] = row["count"]
        return erasures

    async def drop_unused_terms(self, tenant_id: UUID) -> None:
        """Remove a tenant's terms that occur in no item any more."""
        async with self._database.transaction(tenant_id) as tx:
            await tx.execute(QUERIES["drop_unused_frequencies"], tenant_id=tenant_id)
            await tx.execute(QUERIES["restart_recount"], tenant_id=tenant_id)
