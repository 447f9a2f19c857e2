"""How messages of port 5596 wait for each other, and what is not begun when time is short."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from grpc import aio

from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.protocol.concurrency import KeyedLock
from skein_pc2.reasoning.records.agent_request import AgentRequest
from skein_pc2.reasoning.records.memory_store import MemoryStore


async def test_one_name_is_served_in_order_and_others_meanwhile() -> None:
    lines, order = KeyedLock(), list[str]()
    gate = asyncio.Event()

    async def one(name: str, text: str, *, waits: bool) -> None:
        async with lines.hold(name):
            if waits:
                await gate.wait()
            order.append(text)

    tasks = [asyncio.create_task(one("a", "first", waits=True)), asyncio.create_task(one("a", "second", waits=False))]
    await one("b", "other", waits=False)
    gate.set()
    await asyncio.gather(*tasks)

    assert order == ["other", "first", "second"]
    assert not lines._locks


async def test_a_cancelled_waiter_does_not_delay_others() -> None:
    lines, order = KeyedLock(), list[int]()

    async def one(number: int) -> None:
        async with lines.hold("a"):
            await asyncio.sleep(0)
            order.append(number)

    tasks = [asyncio.create_task(one(number)) for number in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert order == [0, 2]
    assert not lines._locks


async def test_a_call_without_time_left_is_not_begun() -> None:
    begun = list[int]()

    async def call() -> bool:
        begun.append(1)
        return True

    async with aio.insecure_channel("127.0.0.1:1") as channel:
        keeper = MemoryStore(GatewayApi(channel, lambda: ""))
        time = asyncio.get_running_loop().time()
        answers = [
            await keeper.call_all(
                AgentRequest(request_id="r", deadline=time + seconds, message={}, at=datetime.now(UTC)), [call, call]
            )
            for seconds in (0.1, 60)
        ]

    assert answers == [[None, None], [True, True]]
    assert len(begun) == 2
