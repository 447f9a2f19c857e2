"""How much text the conditions of a tenant's reads may scan: in one statement, in one call, and in a second.

A condition on a memory's text or properties scans them, so its cost is rows x conditions x bytes. The statement itself
adds up this cost and stops at the first row beyond its budget (skein_kit.filters.scan_cost). What it did scan is
charged to the tenant, whose budget refills at a constant rate. A cancelled statement does not report what it
scanned and is charged with all that it might have scanned. The cost is counted in bytes, not in seconds: the same
call costs the same on a busy machine.

An answer as of a time may read all rows of the tenant, and their former versions. It is charged with so many bytes for
each of them.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from uuid import UUID

import asyncpg

from skein_kit.errors import ReadTooCostly

MEBIBYTE = 1024 * 1024
# Bytes that the conditions of one call may scan: Postgres scans some 60 MB a second.
MAX_SHARE_OF_CALL = 64 * MEBIBYTE
# What a row that is read as of a time counts: 100,000 take about as long as 6 MB of text in conditions.
ROW_BYTES = 64
# The capacity of a budget, in seconds of its rate.
_BURST_SECONDS = 16
# A tenant's rows are counted again after this.
_COUNT_SECONDS = 60.0
# Tenants in memory; one that is dropped has a full budget again.
_MAX_TENANTS = 10_000


class ScanBuckets:
    """The budgets of all tenants in one service of one process: token buckets of bytes."""

    def __init__(self, bytes_per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Refill each budget at this rate; 0: no limit. `clock` returns seconds and never goes back."""
        self._rate = bytes_per_second
        self._clock = clock
        # Bytes missing from the full budget, and the time; the tenant used last comes last.
        self._used: OrderedDict[UUID, tuple[float, float]] = OrderedDict()
        # Rows of all times, and when they were counted; the tenant counted last comes last.
        self._row_counts: OrderedDict[UUID, tuple[int, float]] = OrderedDict()

    def begin(self, tenant_id: UUID) -> ScanBudget:
        """Return the budget of one call. Raises ReadTooCostly while the tenant has none left."""
        used = self._used_by(tenant_id)
        if self._rate and used >= self._capacity:
            raise ReadTooCostly(retry_after=(used - self._capacity) / self._rate + 1.0)
        return ScanBudget(self, tenant_id)

    def charge(self, tenant_id: UUID, scanned: int) -> None:
        """Count bytes that a statement scanned for a tenant."""
        if not self._rate or not scanned:
            return
        self._used[tenant_id] = (self._used_by(tenant_id) + scanned, self._clock())
        self._used.move_to_end(tenant_id)
        if len(self._used) > _MAX_TENANTS:
            self._used.popitem(last=False)

    async def charge_history(self, tenant_id: UUID, count_rows: Callable[[], Awaitable[int]]) -> None:
        """Charge a tenant for an answer as of a time by its rows of all times, which are counted once a minute.

        Raises ReadTooCostly while the tenant has no budget left.
        """
        if not self._rate:
            return
        self.begin(tenant_id)
        row_count, since = self._row_counts.get(tenant_id, (0, -math.inf))
        if self._clock() - since > _COUNT_SECONDS:
            row_count = await count_rows()
            self._row_counts[tenant_id] = (row_count, self._clock())
            self._row_counts.move_to_end(tenant_id)
            if len(self._row_counts) > _MAX_TENANTS:
                self._row_counts.popitem(last=False)
        self.charge(tenant_id, row_count * ROW_BYTES)

    @property
    def _capacity(self) -> float:
        return self._rate * _BURST_SECONDS

    def _used_by(self, tenant_id: UUID) -> float:
        used, since = self._used.get(tenant_id, (0.0, 0.0))
        return max(0.0, used - (self._clock() - since) * self._rate) if used else 0.0


class ScanBudget:
    """The bytes that one call may still scan."""

    def __init__(self, tenants: ScanBuckets, tenant_id: UUID, max_bytes: int = MAX_SHARE_OF_CALL) -> None:
        self._buckets = tenants
        self._tenant_id = tenant_id
        self.remaining = max_bytes

    @property
    def is_exhausted(self) -> bool:
        """Whether no bytes are left."""
        return self.remaining <= 0

    def charge(self, scanned: float) -> None:
        """Count bytes that a statement of the call scanned."""
        byte_count = math.ceil(scanned)
        self.remaining -= byte_count
        self._buckets.charge(self._tenant_id, byte_count)

    async def run_and_charge(self, statement: Awaitable[list[asyncpg.Record]]) -> list[asyncpg.Record]:
        """Run a statement and charge what it scanned; a cancelled one costs all that the call had left."""
        try:
            rows = await statement
        except BaseException:
            self.charge(max(1, self.remaining))
            raise
        self.charge(sum(row["cost"] for row in rows if row["passes"] is not None))
        return rows
