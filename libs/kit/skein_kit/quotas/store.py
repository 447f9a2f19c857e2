"""Quotas: counts the rows of tenants as transactions add and remove them, and refuses rows beyond the quota.

Usage is the sum over a few slots, so that writers do not wait for each other. A kind without a limit is counted with
the commit, which costs no round trip. A kind with a limit is counted in one slot, one writer after another, so that
concurrent writers cannot pass the limit together. Limits are cached for a few seconds.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from uuid import UUID

from skein_kit.database.named_queries import Queries, with_schema
from skein_kit.database.transactions import Transaction
from skein_kit.errors import QuotaExceeded

SLOTS = 8
# The slot of kinds with a limit.
STRICT_SLOT = 0
# Seconds after which a new limit takes effect at the latest.
CACHE_SECONDS = 5.0
_MAX_CACHED = 10_000
# Limits of kinds for which the operator set none; other kinds have no limit.
DEFAULT_LIMITS: Mapping[str, int] = MappingProxyType({"webhooks": 50})


class QuotaCounter:
    """The usage of tenants in one service, in its table `<schema>.usage`."""

    def __init__(self, schema: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`schema` is that of the service; `clock` returns seconds and never goes back."""
        queries = Queries.load("skein_kit")
        self._limits = queries["list_limits"]
        self._add, self._charge = (with_schema(schema, queries[name]) for name in ("add_usage", "charge_usage"))
        self._clock = clock
        self._limited_kinds_cache: OrderedDict[UUID, tuple[frozenset[str], float]] = OrderedDict()

    async def charge(self, tx: Transaction, tenant_id: UUID, amounts: Mapping[str, int]) -> None:
        """Count the rows that this transaction adds (or removes, negative), by kind; call it last.

        Raises QuotaExceeded, with kind and limit, when the tenant would exceed a limit: roll back then.
        """
        # All transactions lock the rows in the same order, so that they do not deadlock.
        changes = sorted((kind, amount) for kind, amount in amounts.items() if amount)
        is_growing = any(amount > 0 for _, amount in changes)
        limited = await self._limited_kinds(tx, tenant_id) if is_growing else frozenset()
        for kind, amount in changes:
            if amount < 0 or kind not in limited:
                tx.execute_with_commit(
                    self._add, tenant_id=tenant_id, kind=kind, slot=secrets.randbelow(SLOTS), amount=amount
                )
                continue
            row = await tx.row(self._charge, tenant_id=tenant_id, kind=kind, slot=STRICT_SLOT, amount=amount)
            max_amount = DEFAULT_LIMITS.get(kind) if row is None or row["max_amount"] is None else row["max_amount"]
            if row is not None and max_amount is not None and row["used"] > max_amount:
                raise QuotaExceeded(kind=kind, limit=max_amount)

    async def _limited_kinds(self, tx: Transaction, tenant_id: UUID) -> frozenset[str]:
        at = self._clock()
        kinds, until = self._limited_kinds_cache.get(tenant_id, (frozenset[str](), at))
        if at < until:
            return kinds
        rows = await tx.rows(self._limits, tenant_id=tenant_id)
        kinds = frozenset({*DEFAULT_LIMITS, *(row["kind"] for row in rows)})
        self._limited_kinds_cache[tenant_id] = (kinds, at + CACHE_SECONDS)
        self._limited_kinds_cache.move_to_end(tenant_id)
        if len(self._limited_kinds_cache) > _MAX_CACHED:
            self._limited_kinds_cache.popitem(last=False)
        return kinds
