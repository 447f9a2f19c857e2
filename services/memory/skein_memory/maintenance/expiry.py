"""The periodic removal of a tenant's expired rows, feature by feature."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from skein_memory.blocks.store import BlockStore
    from skein_memory.erasure.completion import ErasureCompleter
    from skein_memory.erasure.store import PurgeStore
    from skein_memory.memories.store import MemoryStore
    from skein_memory.vault.store import TenantKeyStore
    from skein_memory.webhooks.delivery_store import DeliveryStore
    from skein_memory.webhooks.store import WebhookStore


class Expiry:
    """Removes expired rows, enforces the capacities of levels, and re-encrypts keys."""

    def __init__(
        self,
        memories: MemoryStore,
        *,
        purges: PurgeStore,
        tenant_keys: TenantKeyStore,
        webhooks: WebhookStore,
        deliveries: DeliveryStore,
        blocks: BlockStore,
        erasure_completer: ErasureCompleter,
    ) -> None:
        self._memories = memories
        self._purges = purges
        self._tenant_keys = tenant_keys
        self._webhooks = webhooks
        self._deliveries = deliveries
        self._blocks = blocks
        self._erasure_completer = erasure_completer

    async def delete_expired(self, tenant_id: UUID, *, at: datetime, by: str) -> int:
        """Remove some of a tenant's expired rows; return how many. The next call removes more."""
        deleted_count = await self._memories.delete_expired(tenant_id, at)
        deleted_count += await self._purges.purge_expired(tenant_id, at=at, by=by)
        await self._memories.enforce_capacities(tenant_id, at=at, by=by)
        await self._tenant_keys.rewrap_keys(tenant_id)
        await self._webhooks.rewrap_keys(tenant_id)
        deleted_count += await self._deliveries.delete_old(tenant_id, at)
        deleted_count += await self._blocks.detach_deleted_agents(tenant_id, at=at, by=by)
        await self._erasure_completer.complete(tenant_id)
        return deleted_count
