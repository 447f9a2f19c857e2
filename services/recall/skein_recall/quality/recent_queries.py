"""The latest queries of the tenants that searched last, kept in memory to compare models by."""

from __future__ import annotations

from collections import OrderedDict, deque
from uuid import UUID

MAX_TENANTS = 500
MAX_QUERIES = 64
# Longer texts are pasted documents, and would take much memory.
MAX_CHARACTERS = 500


class RecentQueries:
    """Queries by tenant. Never written down, never logged."""

    def __init__(self, *, max_tenants: int = MAX_TENANTS, max_queries: int = MAX_QUERIES) -> None:
        """Keep up to `max_queries` of each of up to `max_tenants`."""
        self._max_tenants = max_tenants
        self._max_queries = max_queries
        self._queries: OrderedDict[UUID, deque[str]] = OrderedDict()

    def add(self, tenant_id: UUID, text: str) -> None:
        """Add a query, unless it is kept already or longer than MAX_CHARACTERS."""
        if not 0 < len(text) <= MAX_CHARACTERS:
            return
        queries = self._queries.setdefault(tenant_id, deque(maxlen=self._max_queries))
        if text not in queries:
            queries.append(text)
        self._queries.move_to_end(tenant_id)
        if len(self._queries) > self._max_tenants:
            self._queries.popitem(last=False)

    def drop(self, tenant_id: UUID | None) -> None:
        """Remove the queries of a tenant; None: of every tenant."""
        if tenant_id is None:
            self._queries.clear()
        else:
            self._queries.pop(tenant_id, None)

    def tenants(self) -> list[UUID]:
        """Return the tenants, the one that searched last first."""
        return list(reversed(self._queries))

    def queries(self, tenant_id: UUID, count: int) -> list[str]:
        """Return up to `count` latest queries of a tenant."""
        return list(self._queries.get(tenant_id, ()))[-count:]
