"""The purge of a deleted tenant, table by table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from uuid import UUID

import asyncpg

from skein_kit.database.named_queries import Query
from skein_kit.database.tenant_purge import purge_tenant_rows
from skein_kit.database.transactions import Database, Transaction
from skein_memory.queries import QUERIES

# Every table with rows of tenants, children before parents.
TENANT_TABLES: Mapping[str, Query] = {
    "memory.pending_rows": QUERIES["purge_tenant_pending_rows"],
    "memory.archived_memories": QUERIES["purge_tenant_archived"],
    "memory.archives": QUERIES["purge_tenant_archives"],
    "memory.deliveries": QUERIES["purge_tenant_deliveries"],
    "memory.pages": QUERIES["purge_tenant_pages"],
    "memory.webhooks": QUERIES["purge_tenant_webhooks"],
    "memory.changes": QUERIES["purge_tenant_changes"],
    "memory.versions": QUERIES["purge_tenant_versions"],
    "memory.revisions": QUERIES["purge_tenant_revisions"],
    "memory.access_log": QUERIES["purge_tenant_access_log"],
    "memory.access_keys": QUERIES["purge_tenant_access_keys"],
    "memory.erasures": QUERIES["purge_tenant_erasures"],
    "memory.access_counts": QUERIES["purge_tenant_access_counts"],
    "memory.block_agents": QUERIES["purge_tenant_block_agents"],
    "memory.block_agents_history": QUERIES["purge_tenant_block_agents_history"],
    "memory.blocks": QUERIES["purge_tenant_blocks"],
    "memory.conflict_resolutions": QUERIES["purge_tenant_conflict_resolutions"],
    "memory.aliases": QUERIES["purge_tenant_aliases"],
    "memory.source_trust": QUERIES["purge_tenant_source_trust"],
    "memory.source_trust_history": QUERIES["purge_tenant_source_trust_history"],
    "memory.secrets": QUERIES["purge_secrets"],
    "memory.tenant_keys": QUERIES["purge_tenant_keys"],
    "memory.tasks": QUERIES["purge_tasks"],
    "memory.snapshot_items": QUERIES["purge_tenant_snapshot_items"],
    "memory.snapshots": QUERIES["purge_tenant_snapshots"],
    "memory.pending_memories": QUERIES["purge_tenant_pending_memories"],
    "memory.links": QUERIES["purge_tenant_links"],
    "memory.sources": QUERIES["purge_tenant_sources"],
    "memory.sources_history": QUERIES["purge_tenant_sources_history"],
    "memory.trust": QUERIES["purge_tenant_trust"],
    "memory.trust_work": QUERIES["purge_tenant_trust_work"],
    "memory.archived_sources": QUERIES["purge_tenant_archived_sources"],
    "memory.lineage_purges": QUERIES["purge_tenant_lineage_purges"],
    "memory.tags": QUERIES["purge_tenant_tags"],
    "memory.properties": QUERIES["purge_tenant_properties"],
    "memory.tombstones": QUERIES["purge_tenant_tombstones"],
    "memory.tombstone_salts": QUERIES["purge_tenant_tombstone_salts"],
    "memory.external_ids": QUERIES["purge_tenant_external_ids"],
    "memory.fact_keys": QUERIES["purge_tenant_fact_keys"],
    "memory.memories": QUERIES["purge_tenant_memories"],
    # After the tables whose former rows they keep.
    "memory.trust_history": QUERIES["purge_tenant_trust_history"],
    "memory.aliases_history": QUERIES["purge_tenant_aliases_history"],
    "memory.conflict_resolutions_history": QUERIES["purge_tenant_conflict_resolutions_history"],
    "memory.oldest_memories": QUERIES["purge_tenant_oldest_memory"],
    "memory.usage": QUERIES["purge_tenant_usage"],
    "memory.requests": QUERIES["purge_tenant_requests"],
}


# Tables whose rows have a key each.
_TABLES_WITH_KEYS = ("memory.webhooks", "memory.tenant_keys")


class TenantPurgeStore:
    """Removes all rows of deleted tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def purge_tenant(self, tenant_id: UUID, limit: int) -> tuple[dict[str, int], bool]:
        """Remove up to `limit` rows of a deleted tenant; return rows by table, and whether more may be left."""
        return await purge_tenant_rows(
            self._database, tenant_id, TENANT_TABLES, limit, on_deleted=dict.fromkeys(_TABLES_WITH_KEYS, _uncount_keys)
        )


async def _uncount_keys(tx: Transaction, rows: Sequence[asyncpg.Record]) -> None:
    """Count the keys of deleted rows no longer. A statement of its own, as Citus needs: no tenant has the counts."""
    key_counts = Counter(row["master_key"] for row in rows if row["master_key"] is not None)
    for fingerprint, key_count in sorted(key_counts.items()):
        await tx.execute(QUERIES["count_master_key"], fingerprint=fingerprint, amount=-key_count)
