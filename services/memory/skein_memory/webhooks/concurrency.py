"""Limits on concurrent deliveries: shares of tenants and of destinations. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from uuid import UUID

from skein_kit.admission.fair_slots import FairSlots
from skein_memory.webhooks.model import Webhook

# Of one process: all attempts, those of one tenant, and those of one tenant at destinations that failed last time.
TOTAL = 256
PER_TENANT = 8
FAILING_PER_TENANT = 4
# At one destination: of one tenant, and of all. Beyond that a tenant that has none there may have one.
PER_DESTINATION_OF_TENANT = 4
PER_DESTINATION = 16


class WebhookConcurrency:
    """The attempts of one process."""

    def __init__(self) -> None:
        self._tenants = FairSlots(TOTAL, per_owner=PER_TENANT)
        self._at_destination = Counter[str]()
        self._of_tenant_at_destination = Counter[tuple[UUID, str]]()
        self._failing = Counter[UUID]()

    def reserve(self, tenant_id: UUID, limit: int) -> int:
        """Reserve up to `limit` slots for attempts of a tenant; return how many."""
        count = max(0, min(limit, self._tenants.free_for(str(tenant_id))))
        for _ in range(count):
            self._tenants.take(str(tenant_id))
        return count

    def release(self, tenant_id: UUID, count: int) -> None:
        """Release slots for which there was no attempt."""
        for _ in range(count):
            self._tenants.release(str(tenant_id))

    def begin(self, tenant_id: UUID, webhook: Webhook) -> None:
        """Count an attempt, for which a slot is reserved, at the webhook's destination."""
        self._at_destination[webhook.destination] += 1
        self._of_tenant_at_destination[tenant_id, webhook.destination] += 1
        self._failing[tenant_id] += webhook.is_failing

    def end(self, tenant_id: UUID, webhook: Webhook) -> None:
        """Release the slot and the share of an ended attempt."""
        self.release(tenant_id, 1)
        self._at_destination[webhook.destination] -= 1
        self._of_tenant_at_destination[tenant_id, webhook.destination] -= 1
        self._failing[tenant_id] -= webhook.is_failing
        # Counters drop the keys that are zero.
        self._at_destination, self._of_tenant_at_destination, self._failing = (
            +self._at_destination,
            +self._of_tenant_at_destination,
            +self._failing,
        )

    def free_for_failing(self, tenant_id: UUID) -> int:
        """Return how many attempts a tenant may begin at destinations whose last attempt failed."""
        return max(0, FAILING_PER_TENANT - self._failing[tenant_id])

    def free_by_destination(self, tenant_id: UUID) -> Mapping[str, int]:
        """Return how many attempts a tenant may begin at each destination where others, or its own, wait already."""
        free_slots = {}
        for destination, count in self._at_destination.items():
            tenant_count = self._of_tenant_at_destination[tenant_id, destination]
            free = max(0, min(PER_DESTINATION_OF_TENANT - tenant_count, PER_DESTINATION - count))
            free_slots[destination] = free if tenant_count else max(free, 1)
        return free_slots
