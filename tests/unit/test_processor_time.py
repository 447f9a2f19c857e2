"""Processor time of a call: everything passes through, steps are counted once, and threads count."""

from __future__ import annotations

import asyncio
import threading

import pytest

from skein_kit.admission.processor_time import (
    LARGE_BYTES,
    ProcessorTime,
    measure_part,
    run_by_size,
    run_in_thread,
    with_pauses,
)


def meter() -> ProcessorTime:
    return ProcessorTime(0.0, max_cheap=1.0, on_growth=lambda _: None)


def work() -> int:
    return sum(number * number for number in range(20_000))


async def test_a_result_and_an_error_pass_through() -> None:
    async def answer() -> str:
        await asyncio.sleep(0)
        return "tea"

    async def fail() -> None:
        await asyncio.sleep(0)
        raise LookupError

    assert await meter().measure(answer()) == "tea"
    with pytest.raises(LookupError):
        await meter().measure(fail())


async def test_a_cancellation_reaches_the_work_which_may_clean_up() -> None:
    steps: list[str] = []

    async def wait() -> None:
        try:
            steps.append("began")
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append("cleaned up")

    task = asyncio.ensure_future(meter().measure(wait()))
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == ["began", "cleaned up"]


def test_a_step_in_which_the_thread_only_waits_costs_nothing() -> None:
    used = meter()

    async def wait() -> None:
        threading.Event().wait(0.1)

    # A thread of its own has done nothing before.
    thread = threading.Thread(target=lambda: asyncio.run(used.measure(wait())))
    thread.start()
    thread.join()

    assert used.seconds < 0.1


async def test_a_part_of_the_same_task_is_counted_once() -> None:
    counted: list[float] = []
    used = ProcessorTime(0.0, max_cheap=1.0, on_growth=counted.append)

    async def part() -> int:
        return work()

    async def whole() -> int:
        return await measure_part(part())

    await used.measure(whole())

    assert len(counted) == 1


async def test_a_part_in_a_task_of_its_own_and_a_thread_are_counted_too() -> None:
    counted: list[float] = []
    used = ProcessorTime(0.0, max_cheap=1.0, on_growth=counted.append)

    async def part() -> int:
        return await run_in_thread(work)

    async def whole() -> int:
        return await asyncio.ensure_future(measure_part(part()))

    await used.measure(whole())

    # The steps of both tasks before and after what they wait for, and the thread.
    assert len(counted) == 5
    assert used.seconds > 0


async def test_little_work_stays_on_the_event_loop() -> None:
    async def thread_of(size: int) -> object:
        return await run_by_size(size, threading.current_thread)

    assert await thread_of(LARGE_BYTES - 1) is threading.current_thread()
    assert await thread_of(LARGE_BYTES) is not threading.current_thread()


async def test_a_thread_of_a_costly_call_pauses_while_a_cheap_call_runs_and_not_without_end() -> None:
    costly = ProcessorTime(10.0, max_cheap=1.0, on_growth=lambda _: None)
    cheap = meter()
    steps: list[str] = []

    def convert() -> int:
        for number in with_pauses(range(3)):
            # Longer than a thread works without a pause.
            threading.Event().wait(0.003)
            steps.append(f"{number}")
        return len(steps)

    async def whole() -> int:
        return await run_in_thread(convert)

    # The cheap call goes on all the time.
    assert await costly.measure(whole()) == 3
    cheap.close()
    costly.close()
    assert await costly.measure(whole()) == 6


async def test_a_call_that_turned_out_costly_is_waited_for_no_longer() -> None:
    cheap = ProcessorTime(0.0, max_cheap=1.0, on_growth=lambda _: None)

    cheap.add(2.0)

    assert not cheap.is_cheap
