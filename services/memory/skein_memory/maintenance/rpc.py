"""Handlers of the RPCs that the worker service calls periodically."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.ids import now
from skein_kit.jobs.model import JobKind, Progress
from skein_kit.jobs.retry_delay import retry_delay
from skein_kit.jobs.store import JobStore
from skein_kit.rpc.well_known_types import to_timestamp
from skein_memory.cold_storage.store import MEMORIES_PER_ARCHIVE, ArchiveStore
from skein_memory.curation.store import CurationStore
from skein_memory.erasure.store import RETENTION_BATCH, PurgeStore
from skein_memory.maintenance.expiry import Expiry
from skein_memory.maintenance.former_rows import FormerRowStore
from skein_memory.maintenance.partitions import Partitions
from skein_memory.maintenance.tenant_purge import TenantPurgeStore
from skein_memory.memories.store import MemoryStore
from skein_memory.snapshots.store import SnapshotStore

DEFAULT_MONTHS_AHEAD = 3
# Memories that a call scans for decay, and memories of one transaction.
DEFAULT_DECAY_LIMIT = 500
DECAY_BATCH_SIZE = 100
# Memories that a call reindexes.
DEFAULT_REINDEX_LIMIT = 500


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
