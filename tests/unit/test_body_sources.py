"""Which source the memory of a body and the place of a call are counted under, and how much of them one source gets."""

from __future__ import annotations

import asyncio

import pytest

from skein_kit.admission.body_memory import BodyMemory
from skein_kit.admission.call_slots import CallSlots, SlotsFull
from skein_kit.calls.call import Call
from skein_kit.errors import Overloaded
from skein_kit.rpc import request_body
from skein_kit.rpc.request_body import MAX_ANONYMOUS_BYTES, MAX_MESSAGE_BYTES, RequestBody, read_body


def call_from(address: str) -> Call:
    call = Call(path="/p.S/M", metadata={}, deadline=None, peer=f"ipv6:[{address}]:50")
    call.client_address = address
    return call


async def test_one_source_has_a_quarter_of_the_places_to_wait() -> None:
    budget = BodyMemory(2, preempt_after_seconds=60.0, max_waiting=8)
    async with budget.reserve("a", 1), budget.reserve("b", 1):
        waiting = [asyncio.create_task(budget.reserve("a", 1).__aenter__()) for _ in range(3)]
        await asyncio.sleep(0)
        other = asyncio.create_task(budget.reserve("c", 1).__aenter__())
        await asyncio.sleep(0)

        assert [task.done() for task in [*waiting, other]] == [False, False, True, False]
        assert isinstance(waiting[2].exception(), Overloaded)
        for task in [*waiting, other]:
            task.cancel()
        await asyncio.gather(*waiting, other, return_exceptions=True)


async def test_a_body_that_waits_for_the_share_of_its_source_preempts_no_other_source() -> None:
    budget = BodyMemory(8, preempt_after_seconds=0.0)
    ended: list[str] = []

    async def body(source: str, size: int) -> None:
        try:
            async with budget.reserve(source, size):
                await asyncio.Event().wait()
        except Overloaded:
            ended.append(source)

    tasks = [asyncio.create_task(body(source, size)) for source, size in [("a", 4), ("b", 2), ("a", 1)]]
    async with asyncio.timeout(5):
        while not ended:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    assert ended == ["a"]

    # There is no room for this one, from any source.
    tasks.append(asyncio.create_task(body("c", 6)))
    async with asyncio.timeout(5):
        while len(ended) < 3:
            await asyncio.sleep(0.01)
    assert sorted(ended) == ["a", "a", "b"]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_addresses_of_one_ipv6_network_share_their_room(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = BodyMemory(4, preempt_after_seconds=60.0)
    monkeypatch.setattr(request_body, "ANONYMOUS_BODIES", budget)
    end = asyncio.Event()

    async def read(_most: int) -> bytes:
        await end.wait()
        return b""

    addresses = [f"2001:db8::{number}" for number in range(1, 4)]
    tasks = [
        asyncio.create_task(read_body(RequestBody(read=read, size=1), call_from(address))) for address in addresses
    ]
    await asyncio.sleep(0)

    assert budget.used_bytes == 2
    end.set()
    await asyncio.gather(*tasks)
    assert budget.used_bytes == 0


@pytest.mark.parametrize(("stops", "taken"), [(True, MAX_ANONYMOUS_BYTES), (False, MAX_MESSAGE_BYTES)])
async def test_a_body_takes_no_more_room_than_is_read_of_it(
    monkeypatch: pytest.MonkeyPatch, *, stops: bool, taken: int
) -> None:
    budget = BodyMemory(2 * MAX_MESSAGE_BYTES, preempt_after_seconds=60.0)
    monkeypatch.setattr(request_body, "ANONYMOUS_BODIES", budget)
    used: list[int] = []

    async def read(_most: int) -> bytes:
        used.append(budget.used_bytes)
        return b""

    await read_body(RequestBody(read=read, size=MAX_MESSAGE_BYTES, is_refused_at_limit=stops), call_from("192.0.2.1"))

    assert used == [taken]


def test_the_addresses_of_one_ipv6_network_share_their_places() -> None:
    slots = CallSlots(per_connection=1, total=2)

    with slots.occupy("ipv6:[2001:db8::1]:50"):
        with pytest.raises(SlotsFull), slots.occupy("ipv6:[2001:db8::2]:50"):
            pass
        with slots.occupy("ipv6:[2001:db8:0:1::2]:50"):
            pass
