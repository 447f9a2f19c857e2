"""A bound of each tenant's memory ids: no memory is or was older, so that lists leave out the months before it."""

from __future__ import annotations

from collections import OrderedDict
from uuid import UUID
from weakref import WeakKeyDictionary

from skein_kit.database.transactions import Database, Transaction
from skein_kit.ids import id_time, min_id_at
from skein_memory.queries import QUERIES

# Tenants whose bound a process remembers.
_MAX_CACHED = 10_000
# Committed bounds. A bound only falls, so a remembered one stays true, and a write above it changes nothing.
_caches: WeakKeyDictionary[Database, OrderedDict[UUID, UUID]] = WeakKeyDictionary()


async def include(tx: Transaction, tenant_id: UUID, memory_id: UUID) -> None:
    """Lower the bound to a memory's id, with the commit, if the memory is older than all before."""
    cache = _caches.setdefault(tx.database, OrderedDict())
    bound = cache.get(tenant_id)
    if bound is None or memory_id < bound:
        # What this transaction lowers is written with its commit, so the statement shows what others committed.
        bound = await _read(tx, tenant_id)
        if bound is None or memory_id < bound:
            tx.execute_with_commit(QUERIES["lower_oldest_memory"], tenant_id=tenant_id, memory_id=memory_id)
            return
        cache[tenant_id] = bound
    cache.move_to_end(tenant_id)
    if len(cache) > _MAX_CACHED:
        cache.popitem(last=False)


async def first_month(tx: Transaction, tenant_id: UUID) -> UUID | None:
    """Return the lowest id of the month of the tenant's oldest memory; None without memories.

    A condition with it leaves out partitions, and changes no estimate of the rows of the others.
    """
    bound = await _read(tx, tenant_id)
    if bound is None:
        return None
    return min_id_at(id_time(bound).replace(day=1, hour=0, minute=0, second=0, microsecond=0))


async def skip_empty_months(tx: Transaction, tenant_id: UUID, after_id: UUID) -> UUID:
    """Return the cursor from which a walk in the order of ids goes on: not before the month of the oldest memory."""
    first_id = await first_month(tx, tenant_id)
    return after_id if first_id is None else max(after_id, UUID(int=max(first_id.int - 1, 0)))


async def _read(tx: Transaction, tenant_id: UUID) -> UUID | None:
    bound: UUID | None = await tx.value(QUERIES["read_oldest_memory"], tenant_id=tenant_id)
    return bound
