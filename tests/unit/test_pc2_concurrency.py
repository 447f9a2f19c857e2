"""Locks by name, and calls that do not start without enough time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from grpc import aio

from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.protocol.concurrency import ConcurrencyLimit, KeyedLock, RequestContext
from skein_pc2.protocol.errors import RATE_LIMIT_EXCEEDED, STORAGE_ERROR, RequestError
from skein_pc2.reasoning.records.agent_request import AgentRequest
from skein_pc2.reasoning.records.memory_store import MemoryStore


async def test_a_lock_is_acquired_in_order_and_other_names_do_not_wait() -> None:
    locks, order = KeyedLock(), list[str]()
    gate = asyncio.Event()

    async def append_locked(name: str, text: str, *, waits: bool) -> None:
        async with locks.hold(name):
            if waits:
                await gate.wait()
            order.append(text)

    tasks = [
        asyncio.create_task(append_locked("a", "first", waits=True)),
        asyncio.create_task(append_locked("a", "second", waits=False)),
    ]
    await append_locked("b", "other", waits=False)
    gate.set()
    await asyncio.gather(*tasks)

    assert order == ["other", "first", "second"]
    assert not locks._locks


async def test_a_cancelled_waiter_does_not_block_the_next() -> None:
    locks, order = KeyedLock(), list[int]()

    async def append_locked(number: int) -> None:
        async with locks.hold("a"):
            await asyncio.sleep(0)
            order.append(number)

    tasks = [asyncio.create_task(append_locked(number)) for number in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert order == [0, 2]
    assert not locks._locks


async def test_an_action_that_is_late_is_told_apart_from_one_that_never_ran() -> None:
    limit, never = ConcurrencyLimit(1), asyncio.Event()
    now = asyncio.get_running_loop().time()

    answers = await asyncio.gather(
        *(
            limit.run(RequestContext(request_id="r", deadline=now + seconds), never.wait, name="x")
            for seconds in (0.2, 0.1)
        ),
        return_exceptions=True,
    )

    assert [isinstance(answer, RequestError) and answer.code for answer in answers] == [
        STORAGE_ERROR,
        RATE_LIMIT_EXCEEDED,
    ]


async def test_calls_without_enough_time_do_not_start() -> None:
    started = list[int]()

    async def call() -> bool:
        started.append(1)
        return True

    async with aio.insecure_channel("127.0.0.1:1") as channel:
        store = MemoryStore(GatewayApi(channel, lambda: ""))
        time = asyncio.get_running_loop().time()
        results = [
            await store.call_all(
                AgentRequest(request_id="r", deadline=time + seconds, message={}, at=datetime.now(UTC)), [call, call]
            )
            for seconds in (0.1, 60)
        ]

    assert results == [[None, None], [True, True]]
    assert len(started) == 2
