"""How many deliveries wait for their receivers at the same time: shares of tenants and of destinations. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from uuid import UUID

from skein_kit.fair_slots import FairSlots

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skein_memory.watches import Watch

# Of one process: all attempts, those of one tenant, and those of one tenant at destinations that failed last time.
TOTAL = 256
PER_TENANT = 8
SUSPECTS_PER_TENANT = 4
# At one destination: of one tenant, and of all. Beyond that a tenant that has none there may have one.
PER_DESTINATION_OF_TENANT = 4
PER_DESTINATION = 16


class WebhookSlots:
    """The attempts of one process."""

    def __init__(self) -> None:
        """Begin with none."""
        self._tenants = FairSlots(TOTAL, per_owner=PER_TENANT)
        self._at_destination = Counter[str]()
        self._own = Counter[tuple[UUID, str]]()
        self._suspects = Counter[UUID]()

    def reserve(self, tenant_id: UUID, most: int) -> int:
        """Take up to `most` slots for attempts of a tenant; return how many."""
        count = max(0, min(most, self._tenants.room(str(tenant_id))))
        for _ in range(count):
            self._tenants.take(str(tenant_id))
        return count

    def release(self, tenant_id: UUID, count: int) -> None:
        """Give back slots for which there was no attempt."""
        for _ in range(count):
            self._tenants.release(str(tenant_id))

    def begin(self, tenant_id: UUID, watch: Watch) -> None:
        """Count an attempt, for which a slot is reserved, at the watch's destination."""
        self._at_destination[watch.destination] += 1
        self._own[tenant_id, watch.destination] += 1
        self._suspects[tenant_id] += watch.is_suspect

    def end(self, tenant_id: UUID, watch: Watch) -> None:
        """Give back what an attempt has taken, its slot too."""
        self.release(tenant_id, 1)
        self._at_destination[watch.destination] -= 1
        self._own[tenant_id, watch.destination] -= 1
        self._suspects[tenant_id] -= watch.is_suspect
        # Names of the past are not kept.
        self._at_destination, self._own, self._suspects = +self._at_destination, +self._own, +self._suspects

    def suspects(self, tenant_id: UUID) -> int:
        """Return how many attempts a tenant may begin at destinations that failed last time."""
        return max(0, SUSPECTS_PER_TENANT - self._suspects[tenant_id])

    def rooms(self, tenant_id: UUID) -> Mapping[str, int]:
        """Return how many attempts a tenant may begin at each destination where others, or its own, wait already."""
        rooms = {}
        for destination, count in self._at_destination.items():
            own = self._own[tenant_id, destination]
            room = max(0, min(PER_DESTINATION_OF_TENANT - own, PER_DESTINATION - count))
            rooms[destination] = room if own else max(room, 1)
        return rooms
