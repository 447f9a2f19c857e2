"""What the worker calls periodically: the handlers, expiry, partitions, former rows, and purges of deleted tenants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

import asyncpg

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.database.monthly_partitions import MonthlyPartitions
from skein_kit.database.named_queries import Query
from skein_kit.database.tenant_purge import purge_tenant_rows
from skein_kit.database.transactions import Database, Transaction
from skein_kit.ids import add_months, month_start, now
from skein_kit.jobs.model import JobKind, Progress, retry_delay
from skein_kit.jobs.store import JobStore
from skein_kit.rpc.well_known_types import to_timestamp
from skein_memory.access_log.store import AccessLogStore
from skein_memory.approvals.store import ApprovalStore
from skein_memory.blocks.store import BlockStore
from skein_memory.cold_storage.store import MEMORIES_PER_ARCHIVE, ArchiveStore
from skein_memory.curation.store import CurationStore
from skein_memory.erasure.completion import ErasureCompleter
from skein_memory.erasure.store import EXPIRED_BATCH_SIZE, RETENTION_BATCH, PurgeStore
from skein_memory.memories.store import MemoryStore
from skein_memory.queries import QUERIES
from skein_memory.snapshots.store import SnapshotStore
from skein_memory.vault.store import TenantKeyStore
from skein_memory.webhooks.delivery_store import DeliveryStore
from skein_memory.webhooks.store import WebhookStore

DEFAULT_MONTHS_AHEAD = 3
# Memories that a call scans for decay, and memories of one transaction.
DEFAULT_DECAY_LIMIT = 500
DECAY_BATCH_SIZE = 100
# Memories that a call reindexes.
DEFAULT_REINDEX_LIMIT = 500
_PURGES = ("purge_old_revisions", "purge_old_block_agents", "purge_old_source_trust")
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
# Transactions of one call that erase expired memories.
_MAX_BATCHES = 20


class MaintenanceHandlers:
    """Partitions, expiry, retention, decay, reindexing, and purges of tenants."""

    def __init__(  # noqa: PLR0913 - an argument for each feature.
        self,
        expiry: Expiry,
        *,
        partitions: Partitions,
        memories: MemoryStore,
        curation: CurationStore,
        snapshots: SnapshotStore,
        archives: ArchiveStore,
        purges: PurgeStore,
        former_rows: FormerRowStore,
        tenants: TenantPurgeStore,
        jobs: JobStore,
    ) -> None:
        self._expiry = expiry
        self._partitions = partitions
        self._memories = memories
        self._curation = curation
        self._snapshots = snapshots
        self._archives = archives
        self._purges = purges
        self._former_rows = former_rows
        self._tenants = tenants
        self._jobs = jobs

    async def EnsurePartitions(
        self, request: pb.EnsurePartitionsRequest, context: Context
    ) -> pb.EnsurePartitionsResponse:
        months_ahead = request.months_ahead or DEFAULT_MONTHS_AHEAD
        created_count, horizon = await self._partitions.ensure_ahead(now(), months_ahead)
        return pb.EnsurePartitionsResponse(created_count=created_count, horizon_time=to_timestamp(horizon))

    async def DeleteExpired(self, request: pb.DeleteExpiredRequest, context: Context) -> pb.DeleteExpiredResponse:
        caller = caller_of(context)
        deleted_count, seconds = await self._expiry.delete_expired(
            caller.require_tenant(), at=now(), by=caller.principal
        )
        return pb.DeleteExpiredResponse(deleted_count=deleted_count, retry_delay=retry_delay(seconds))

    async def DecayMemories(self, request: pb.DecayMemoriesRequest, context: Context) -> pb.DecayMemoriesResponse:
        caller, remaining, decayed_count, has_more = caller_of(context), request.limit or DEFAULT_DECAY_LIMIT, 0, True
        tenant_id = caller.require_tenant()
        while remaining > 0 and has_more:
            async with self._jobs.batch(tenant_id, JobKind.DECAY, min(remaining, DECAY_BATCH_SIZE)) as batch:
                grant, at = batch.grant, now()
                if not grant.count:
                    return pb.DecayMemoriesResponse(
                        decayed_count=decayed_count, retry_delay=retry_delay(grant.retry_seconds)
                    )
                count, has_more = await self._curation.decay_batch(
                    tenant_id, limit=grant.count, at=at, by=caller.principal
                )
                batch.progress = Progress(done_count=count, has_more=has_more)
                if has_more and grant.begins_run:
                    left = await self._curation.count_idle(tenant_id, at)
                    batch.progress = replace(batch.progress, remaining_count=left)
            decayed_count, remaining = decayed_count + count, remaining - grant.count
        return pb.DecayMemoriesResponse(decayed_count=decayed_count, more=has_more)

    async def ArchiveIdleMemories(
        self, _request: pb.ArchiveIdleMemoriesRequest, context: Context
    ) -> pb.ArchiveIdleMemoriesResponse:
        caller, at = caller_of(context), now()
        tenant_id = caller.require_tenant()
        policy = await self._memories.policy(tenant_id)
        if not policy.archive_days:
            await self._archives.delete_orphan_files(tenant_id, at)
            return pb.ArchiveIdleMemoriesResponse()
        # A low rate makes few full archives, not many small ones.
        async with self._jobs.batch(tenant_id, JobKind.ARCHIVE, MEMORIES_PER_ARCHIVE, ignores_burst=True) as batch:
            grant = batch.grant
            if not grant.count:
                return pb.ArchiveIdleMemoriesResponse(retry_delay=retry_delay(grant.retry_seconds))
            await self._archives.delete_orphan_files(tenant_id, at)
            idle_since = at - timedelta(days=policy.archive_days)
            count, more = await self._archives.archive_idle(
                tenant_id,
                idle_since,
                label=f"idle since {idle_since:%Y-%m-%d}",
                at=at,
                by=caller.principal,
                limit=grant.count,
            )
            batch.progress = Progress(done_count=count, has_more=more)
        seconds = grant.rest(has_more=more)
        return pb.ArchiveIdleMemoriesResponse(
            archived_count=count, more=more and not seconds, retry_delay=retry_delay(seconds)
        )

    async def ApplyRetention(self, _request: pb.ApplyRetentionRequest, context: Context) -> pb.ApplyRetentionResponse:
        caller, at = caller_of(context), now()
        tenant_id = caller.require_tenant()
        policy = await self._memories.policy(tenant_id)
        before = at - timedelta(days=policy.retention_days)
        async with self._jobs.batch(tenant_id, JobKind.RETENTION, RETENTION_BATCH) as batch:
            grant = batch.grant
            if not grant.count:
                return pb.ApplyRetentionResponse(retry_delay=retry_delay(grant.retry_seconds))
            count, more = await self._purges.purge_older_than(
                tenant_id, before, at=at, by=caller.principal, limit=grant.count
            )
            batch.progress = Progress(done_count=count, has_more=more)
            archived_count = 0
            if count < grant.count:
                # An archive goes as a whole, so it may exceed the grant: later batches wait for that.
                archived_count = await self._archives.purge_oldest_archive(
                    tenant_id, before, at=at, by=caller.principal
                )
            former_count, limit = 0, grant.count - count
            if limit:
                former_count = await self._former_rows.purge_before(tenant_id, before, limit)
            more = more or archived_count > 0 or former_count == limit > 0
            batch.progress = Progress(done_count=count + archived_count + former_count, has_more=more)
        seconds = grant.rest(has_more=more)
        return pb.ApplyRetentionResponse(
            purged_count=count + archived_count, more=more and not seconds, retry_delay=retry_delay(seconds)
        )

    async def ReindexMemories(self, request: pb.ReindexMemoriesRequest, context: Context) -> pb.ReindexMemoriesResponse:
        count = request.limit or DEFAULT_REINDEX_LIMIT
        reindexed_count, more = await self._memories.reindex_outdated(
            caller_of(context).require_tenant(), at=now(), count=count
        )
        return pb.ReindexMemoriesResponse(reindexed_count=reindexed_count, more=more)

    async def ContinueSnapshots(
        self, request: pb.ContinueSnapshotsRequest, context: Context
    ) -> pb.ContinueSnapshotsResponse:
        has_snapshots, more = await self._snapshots.continue_snapshots(caller_of(context).require_tenant())
        return pb.ContinueSnapshotsResponse(more=more, active=has_snapshots)

    async def PurgeTenant(self, request: pb.PurgeTenantRequest, context: Context) -> pb.PurgeTenantResponse:
        await self._archives.delete_files(caller_of(context).require_tenant())
        counts, more = await self._tenants.purge_tenant(caller_of(context).require_tenant(), request.limit)
        return pb.PurgeTenantResponse(deleted_counts=counts, more=more)


class FormerRowStore:
    """Purges former rows of blocks and ratings by their age: no purge of memories takes these along."""

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


class Partitions:
    """The partitions of all tables by month."""

    def __init__(self, months: MonthlyPartitions, *, access_log: AccessLogStore, access_log_months: int) -> None:
        """Keep `access_log_months` months of the access log; 0 keeps all."""
        self._months = months
        self._access_log = access_log
        self._access_log_months = access_log_months

    async def ensure_ahead(self, at: datetime, months: int) -> tuple[int, datetime]:
        """Create the partitions of the next months, and drop old ones of the access log.

        Return how many were created, and the time up to which partitions exist.
        """
        created_count, horizon = await self._months.ensure_ahead(at, months)
        if self._access_log_months:
            await self._access_log.drop_before(add_months(month_start(at), -self._access_log_months))
        return created_count, horizon


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


class Expiry:
    """Removes expired rows, enforces the capacities of levels, and re-encrypts keys."""

    def __init__(
        self,
        memories: MemoryStore,
        *,
        purges: PurgeStore,
        key_stores: Sequence[TenantKeyStore | WebhookStore],
        deliveries: DeliveryStore,
        blocks: BlockStore,
        approvals: ApprovalStore,
        erasure_completer: ErasureCompleter,
        jobs: JobStore,
    ) -> None:
        self._memories = memories
        self._purges = purges
        self._key_stores = key_stores
        self._deliveries = deliveries
        self._blocks = blocks
        self._approvals = approvals
        self._erasure_completer = erasure_completer
        self._jobs = jobs

    async def delete_expired(self, tenant_id: UUID, *, at: datetime, by: str) -> tuple[int, float]:
        """Remove some of a tenant's expired rows. The next call removes more.

        Return how many, and the seconds until more expired memories may be purged: 0 unless the tenant paused or
        limited that. All else is removed in any case.
        """
        deleted_count = await self._memories.delete_expired(tenant_id, at)
        purged_count, retry_seconds = await self._purge_memories(tenant_id, at=at, by=by)
        deleted_count += purged_count
        await self._memories.enforce_capacities(tenant_id, at=at, by=by)
        for store in self._key_stores:
            await store.rewrap_keys(tenant_id)
        deleted_count += await self._deliveries.delete_old(tenant_id, at)
        deleted_count += await self._blocks.detach_deleted_agents(tenant_id, at=at, by=by)
        deleted_count += await self._approvals.delete_expired(tenant_id, at=at, by=by)
        await self._erasure_completer.complete(tenant_id)
        return deleted_count, retry_seconds

    async def _purge_memories(self, tenant_id: UUID, *, at: datetime, by: str) -> tuple[int, float]:
        purged_count, has_more = 0, True
        for _ in range(_MAX_BATCHES):
            async with self._jobs.batch(tenant_id, JobKind.EXPIRY, EXPIRED_BATCH_SIZE) as batch:
                grant = batch.grant
                if not grant.count:
                    return purged_count, grant.retry_seconds
                count, has_more = await self._purges.purge_expired(tenant_id, at=at, by=by, limit=grant.count)
                batch.progress = Progress(done_count=count, has_more=has_more)
                if has_more and grant.begins_run:
                    remaining = await self._purges.count_expired(tenant_id, at)
                    batch.progress = replace(batch.progress, remaining_count=remaining)
            purged_count += count
            if not has_more or grant.rest(has_more=True):
                return purged_count, grant.rest(has_more=has_more)
        return purged_count, 0.0
