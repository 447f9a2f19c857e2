"""Purges of former rows older than the retention, of blocks and ratings, which no purge of memories takes along."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from skein_kit.database.transactions import Database
from skein_memory.queries import QUERIES

_PURGES = ("purge_old_revisions", "purge_old_block_agents", "purge_old_source_trust")


class FormerRowStore:
    """Purges former rows by their age."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def purge_before(self, tenant_id: UUID, before: datetime, limit: int) -> int:
        """Purge up to `limit` former rows of a tenant that ended before a time; return how many."""
        purged_count = 0
        async with self._database.transaction(tenant_id) as tx:
            for name in _PURGES:
                purged_count += await tx.execute(
                    QUERIES[name], tenant_id=tenant_id, before=before, count=limit - purged_count
                )
        return purged_count
