"""What a tenant is charged for the statements of its conditions: those that end, and those that are cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any
from uuid import UUID

import pytest

from skein_kit.admission.scan_budget import MAX_SHARE_OF_CALL, ROW_BYTES, ScanBuckets, ScanBudget
from skein_kit.errors import ReadTooCostly

TENANT = UUID(int=1)
# Of a rate of this the burst is the budget of two calls.
RATE = MAX_SHARE_OF_CALL / 8


async def answer(*costs: float) -> Any:
    rows = [{"cost": cost, "passes": False} for cost in costs]
    return [*rows, {"cost": 1_000_000.0, "passes": None}]


async def failed() -> Any:
    raise ConnectionResetError


async def cut_off(budget: ScanBudget, statement: Awaitable[Any], error: type[BaseException]) -> None:
    with pytest.raises(error):
        await budget.run_and_charge(statement)


async def test_a_statement_counts_what_it_scanned() -> None:
    budget = ScanBuckets(RATE, lambda: 0.0).begin(TENANT)

    rows = await budget.run_and_charge(answer(3.0, 4.5))

    assert len(rows) == 3
    assert budget.remaining == MAX_SHARE_OF_CALL - 8


async def test_statements_that_are_cut_off_use_up_what_the_tenant_may_scan() -> None:
    scans = ScanBuckets(RATE, lambda: 0.0)

    first = scans.begin(TENANT)
    await first.run_and_charge(answer(100.0))
    await cut_off(first, failed(), ConnectionResetError)
    assert first.is_exhausted

    second = asyncio.create_task(scans.begin(TENANT).run_and_charge(asyncio.Event().wait()))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait([second])

    with pytest.raises(ReadTooCostly):
        scans.begin(TENANT)


async def test_rows_of_all_times_are_counted_once_a_minute_and_charged_each_time() -> None:
    clock, counts = [0.0], iter([100, 500])
    rate = ROW_BYTES * 100.0
    scans = ScanBuckets(rate, lambda: clock[0])

    async def count() -> int:
        return next(counts)

    for _ in range(16):
        await scans.charge_history(TENANT, count)
    with pytest.raises(ReadTooCostly):
        await scans.charge_history(TENANT, count)
    clock[0] = 61.0
    for _ in range(4):
        await scans.charge_history(TENANT, count)

    with pytest.raises(ReadTooCostly):
        scans.begin(TENANT)
    assert next(counts, None) is None


async def test_without_a_limit_no_rows_are_counted() -> None:
    async def count() -> int:
        raise AssertionError

    await ScanBuckets(0.0).charge_history(TENANT, count)
