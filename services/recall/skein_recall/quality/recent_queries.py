"""What was asked of this process lately, some of each tenant: in memory only, never written down, never logged."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID

MOST_TENANTS = 500
MOST_QUERIES = 64
# Longer ones are pasted texts, and would take much of the memory.
MOST_CHARACTERS = 500


class RecentQueries:
    """The last queries of the tenants that asked last."""

    def __init__(self, *, tenants: int = MOST_TENANTS, queries: int = MOST_QUERIES) -> None:
        """Keep so many queries of so many tenants."""
        self._tenants = tenants
        self._queries = queries
        self._asked: OrderedDict[UUID, deque[str]] = OrderedDict()

    def note(self, tenant_id: UUID, text: str) -> None:
        """Remember a query, once, unless it is very long."""
        if not 0 < len(text) <= MOST_CHARACTERS:
            return
        asked = self._asked.setdefault(tenant_id, deque(maxlen=self._queries))
        if text not in asked:
            asked.append(text)
        self._asked.move_to_end(tenant_id)
        if len(self._asked) > self._tenants:
            self._asked.popitem(last=False)

    def drop(self, tenant_id: UUID | None) -> None:
        """Forget the queries of a tenant; None: of every tenant."""
        if tenant_id is None:
            self._asked.clear()
        else:
            self._asked.pop(tenant_id, None)

    def tenants(self) -> list[UUID]:
        """Return the tenants, the one that asked last first."""
        return list(reversed(self._asked))

    def of(self, tenant_id: UUID, most: int) -> list[str]:
        """Return up to so many queries of a tenant, the last ones."""
        return list(self._asked.get(tenant_id, ()))[-most:]
