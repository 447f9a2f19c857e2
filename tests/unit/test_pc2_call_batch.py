"""Batches of calls: items that arrive during a call share the next one, and no item waits for others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from skein_pc2.envelope.memories import CallBatcher
from skein_pc2.protocol.concurrency import RequestContext
from skein_pc2.protocol.errors import RequestError
from skein_pc2.protocol.sender import Sender


@dataclass
class Service:
    """Doubles numbers when it is let; refuses those below 0, and batches that have one."""

    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    calls: list[list[int]] = field(default_factory=list)

    async def call_one(self, number: int, _context: RequestContext) -> int:
        self.calls.append([number])
        await self.may_answer.wait()
        if number < 0:
            raise RequestError("validation_error", str(number))
        return 2 * number

    async def call_many(self, numbers: Sequence[int], _context: RequestContext) -> list[int | None]:
        self.calls.append(list(numbers))
        await self.may_answer.wait()
        if min(numbers) < 0:
            raise RequestError("validation_error", "one of them")
        return [None if number == 0 else 2 * number for number in numbers]


@pytest.fixture
def service() -> Service:
    return Service()


async def submit_all(service: Service, numbers: Sequence[int], **options: int) -> list[int | BaseException]:
    """Ask for all of them at once."""
    batcher = CallBatcher(service.call_one, service.call_many, **options)
    context = RequestContext(request_id="r", deadline=asyncio.get_running_loop().time() + 5)
    tasks = [asyncio.create_task(batcher.submit(number, context)) for number in numbers]
    await asyncio.sleep(0)
    service.may_answer.set()
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_items_that_arrive_during_calls_share_one_call(service: Service) -> None:
    assert await submit_all(service, range(1, 8)) == [2, 4, 6, 8, 10, 12, 14]
    assert service.calls == [[1], [2], [3, 4, 5, 6, 7]]


async def test_a_batch_has_at_most_max_items(service: Service) -> None:
    assert await submit_all(service, range(1, 9), max_calls=1, max_items=3) == [2, 4, 6, 8, 10, 12, 14, 16]
    assert service.calls == [[1], [2, 3, 4], [5, 6, 7], [8]]


async def test_a_batch_has_the_items_of_one_agent_and_the_others_keep_their_order(service: Service) -> None:
    batcher = CallBatcher(service.call_one, service.call_many, max_calls=1)
    deadline = asyncio.get_running_loop().time() + 5
    contexts = [
        RequestContext(request_id="r", deadline=deadline, sender=Sender(agent_id=agent_id))
        for agent_id in ("", "hall", "kitchen")
    ]
    tasks = [asyncio.create_task(batcher.submit(number, contexts[number % 3])) for number in range(9)]
    await asyncio.sleep(0)
    service.may_answer.set()

    assert await asyncio.gather(*tasks) == [2 * number for number in range(9)]
    assert service.calls == [[0], [1, 4, 7], [2, 5, 8], [3, 6]]


async def test_an_invalid_item_fails_alone_and_the_others_succeed(service: Service) -> None:
    results = await submit_all(service, [1, 2, 3, -4, 5])

    assert [result for result in results if isinstance(result, int)] == [2, 4, 6, 10]
    assert str(results[3]) == "-4"
    assert service.calls[2:] == [[3, -4, 5], [3], [-4], [5]]


async def test_an_item_without_a_batch_result_gets_its_own_call(service: Service) -> None:
    assert await submit_all(service, [1, 2, 0, 4]) == [2, 4, 0, 8]
    assert service.calls[2:] == [[0, 4], [0]]


async def test_a_failed_call_frees_its_slot(service: Service) -> None:
    results = await submit_all(service, [-1, -2, -3], max_calls=1, max_items=1)

    assert [str(result) for result in results] == ["-1", "-2", "-3"]
    assert service.calls == [[-1], [-2], [-3]]


async def test_a_cancelled_item_is_not_called(service: Service) -> None:
    batcher = CallBatcher(service.call_one, service.call_many, max_calls=1)
    context = RequestContext(request_id="r", deadline=asyncio.get_running_loop().time() + 5)
    tasks = [asyncio.create_task(batcher.submit(number, context)) for number in (1, 2, 3)]
    await asyncio.sleep(0)

    tasks[0].cancel()
    tasks[1].cancel()
    service.may_answer.set()

    assert await tasks[2] == 6
    assert service.calls == [[1], [3]]
    assert await batcher.submit(4, context) == 8
