"""The periodic removal of a tenant's expired rows, feature by feature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from skein_kit.jobs.model import JobKind, Progress
from skein_kit.jobs.store import JobStore
from skein_memory.approvals.store import ApprovalStore
from skein_memory.blocks.store import BlockStore
from skein_memory.erasure.completion import ErasureCompleter
from skein_memory.erasure.store import EXPIRED_BATCH_SIZE, PurgeStore
from skein_memory.memories.store import MemoryStore
from skein_memory.vault.store import TenantKeyStore
from skein_memory.webhooks.delivery_store import DeliveryStore
from skein_memory.webhooks.store import WebhookStore

# Transactions of one call that erase expired memories.
_MAX_BATCHES = 20


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
