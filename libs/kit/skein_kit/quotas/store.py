"""Quotas: counting what a tenant has as rows come and go, and refusing more than it may have.

Usage is the sum over a few slots, so that writers do not wait for one another. What is not limited is counted together
with the commit, which costs no round trip; what is limited is counted in one slot by everybody, one after another, so
that no crowd gets past the limit. Which is which is remembered for a few seconds.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from types import MappingProxyType
from typing import TYPE_CHECKING

from skein_kit.database.named_queries import Queries, with_schema
from skein_kit.errors import QuotaExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from skein_kit.database.transactions import Transaction

SLOTS = 8
# What is limited is counted here.
STRICT_SLOT = 0
# A new limit holds after so many seconds at the latest.
REMEMBER_SECONDS = 5.0
_MAX_REMEMBERED = 10_000
# What a tenant may have at most of a kind for which no limit was set; of other kinds as many as it likes.
DEFAULT_LIMITS: Mapping[str, int] = MappingProxyType({"watches": 50})


class QuotaCounter:
    """What tenants have in one service, in its table `<schema>.usage`."""

    def __init__(self, schema: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Use the schema's table."""
        queries = Queries.of("skein_kit")
        self._limits = queries["list_limits"]
        self._add, self._charge = (with_schema(schema, queries[name]) for name in ("add_usage", "charge_usage"))
        self._clock = clock
        self._limited: OrderedDict[UUID, tuple[frozenset[str], float]] = OrderedDict()

    async def charge(self, tx: Transaction, tenant_id: UUID, amounts: Mapping[str, int]) -> None:
        """Count what comes and goes with this transaction, by kind. Best done last.

        Raises QuotaExceeded, with kind and limit, when more comes than the tenant may have; nothing may be committed
        then.
        """
        # Everybody takes the rows in the same order, so nobody waits for one who waits for them.
        changes = sorted((kind, amount) for kind, amount in amounts.items() if amount)
        grows = any(amount > 0 for _, amount in changes)
        limited = await self._limited_kinds(tx, tenant_id) if grows else frozenset()
        for kind, amount in changes:
            if amount < 0 or kind not in limited:
                tx.with_commit(self._add, tenant_id=tenant_id, kind=kind, slot=secrets.randbelow(SLOTS), amount=amount)
                continue
            row = await tx.row(self._charge, tenant_id=tenant_id, kind=kind, slot=STRICT_SLOT, amount=amount)
            most = DEFAULT_LIMITS.get(kind) if row is None or row["most"] is None else row["most"]
            if row is not None and most is not None and row["used"] > most:
                raise QuotaExceeded(kind=kind, limit=most)

    async def _limited_kinds(self, tx: Transaction, tenant_id: UUID) -> frozenset[str]:
        at = self._clock()
        kinds, until = self._limited.get(tenant_id, (frozenset[str](), at))
        if at < until:
            return kinds
        rows = await tx.rows(self._limits, tenant_id=tenant_id)
        kinds = frozenset({*DEFAULT_LIMITS, *(row["kind"] for row in rows)})
        self._limited[tenant_id] = (kinds, at + REMEMBER_SECONDS)
        self._limited.move_to_end(tenant_id)
        if len(self._limited) > _MAX_REMEMBERED:
            self._limited.popitem(last=False)
        return kinds
