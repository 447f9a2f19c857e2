"""Recorded erasures, and the terms that only erased items had."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from skein_recall.queries import QUERIES

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from skein_kit.database.transactions import Database


class ErasureStore:
    """Reads recorded erasures, and deletes terms that no item has any more."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_erasures(self) -> dict[UUID, Counter[datetime]]:
        """Count the recorded erasures by tenant and start time.

        A record appears when its erasure commits, and stays for at least half a minute.
        """
        async with self._database.operator_transaction() as tx:
            rows = await tx.rows(QUERIES["list_erasures"])
        erasures: dict[UUID, Counter[datetime]] = {}
        for row in rows:
            erasures.setdefault(row["tenant_id"], Counter())[row["erase_time"]] = row["count"]
        return erasures

    async def delete_unused_terms(self, tenant_id: UUID) -> None:
        """Delete a tenant's terms that no item has any more."""
        async with self._database.transaction(tenant_id) as tx:
            await tx.execute(QUERIES["delete_unused_frequencies"], tenant_id=tenant_id)
            await tx.execute(QUERIES["restart_recount"], tenant_id=tenant_id)
