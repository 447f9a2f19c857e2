"""Attack: bodies of megabytes, compressed or not, from callers without a credential, at every port that takes one.
May be seen: UNAUTHENTICATED before the body is read, UNIMPLEMENTED or 415 for what is compressed, OVERLOADED.
May be spent: 5 MiB for one call and 64 MiB for all of them, which come back.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from fix_attacks import ResourceUsage, attack_size
from fix_cluster import Cluster, Tenant
from grpc import aio

from skein.auth.v1 import accounts_pb2
from skein.memory.v1 import memory_pb2
from skein_kit.admission.body_memory import ANONYMOUS_BODIES, AUTHENTICATED_BODIES, BodyMemory
from skein_kit.errors import Overloaded

MEBIBYTE = 1024 * 1024
MAX_GROWTH_BYTES = 64 * MEBIBYTE
CALLS = attack_size(24, 400)
GET_ME = "/skein.auth.v1.AuthService/GetMe"
SIGN_IN = "/skein.auth.v1.AuthService/SignIn"
CREATE = "/skein.memory.v1.MemoryService/CreateMemory"
BODY = bytes(4 * MEBIBYTE)


# Makes calls with large messages over eight connections, from a process of its own; prints how many are refused.
ATTACKER = f"""
import sys, threading, grpc
address, path, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
own = (("grpc.use_local_subchannel_pool", 1),)
channels = [grpc.insecure_channel(address, options=own) for _ in range(8)]
body = bytes({len(BODY)})
refused = 0
for call in [channels[number % 8].unary_unary(path).future(body, timeout=60) for number in range(count)]:
    refused += call.exception() is not None
print(refused)
"""


def highest_memory() -> int:
    """Return the most memory that this process, which is the cluster's, had since the last reset."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


async def code_of(channel: aio.Channel, path: str, body: bytes, **more: Any) -> grpc.StatusCode:
    method: Any = channel.unary_unary(path)
    call = method(body, timeout=60, **more)
    try:
        await call
    except aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def halves(stack: AsyncExitStack, address: str, path: str, count: int) -> list[Any]:
    """Begin calls whose message never comes, each on a connection of its own."""
    calls: list[Any] = []
    for _ in range(count):
        options = (("grpc.use_local_subchannel_pool", 1),)
        channel = await stack.enter_async_context(aio.insecure_channel(address, options=options))
        calls.append(channel.stream_unary(path)(timeout=60))
    return calls


async def test_a_message_of_a_stranger_is_refused_before_it_is_read(cluster: Cluster) -> None:
    async with AsyncExitStack() as stack:
        calls = await halves(stack, cluster.endpoint, GET_ME, CALLS)
        # Nothing of the message was sent, and nothing has to be.
        codes = await asyncio.gather(*(call.code() for call in calls))

    assert set(codes) == {grpc.StatusCode.UNAUTHENTICATED}


@pytest.mark.system
@pytest.mark.parametrize("path", [GET_ME, SIGN_IN, CREATE])
async def test_large_messages_of_strangers_take_a_bounded_memory(cluster: Cluster, path: str) -> None:
    # The cluster's own work, such as embedding, takes memory in some rounds; the attack takes it in each.
    taken = [await memory_of_attack(cluster, path) for _ in range(3)]

    assert ANONYMOUS_BODIES.used_bytes == 0
    assert min(taken) < MAX_GROWTH_BYTES


async def memory_of_attack(cluster: Cluster, path: str) -> int:
    """Have all messages refused; return by how much the process grew at most, in bytes."""
    # The process's highest memory is measured from here on.
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = ResourceUsage.of(os.getpid()).resident_bytes
    arguments = (cluster.endpoint, path, str(CALLS))
    attacker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ATTACKER, *arguments, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await attacker.communicate()
    assert int(printed) == CALLS
    return highest_memory() - before


async def test_a_message_beyond_the_limit_is_refused_before_it_is_whole(tenant: Tenant) -> None:
    large = memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="x" * (8 * MEBIBYTE)))

    with pytest.raises(aio.AioRpcError) as refusal:
        await tenant.memory.CreateMemory(large)

    assert refusal.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert AUTHENTICATED_BODIES.used_bytes == 0


@pytest.mark.system
async def test_compressed_messages_are_refused_unread(cluster: Cluster, tenant: Tenant) -> None:
    bomb = bytes(64 * MEBIBYTE)
    gzipped: dict[str, Any] = {"compression": grpc.Compression.Gzip}
    before = ResourceUsage.of(os.getpid()).resident_bytes

    stranger = [await code_of(cluster.channel, GET_ME, bomb[: 4 * MEBIBYTE], **gzipped) for _ in range(4)]
    public = [await code_of(cluster.channel, SIGN_IN, bomb[: 4 * MEBIBYTE], **gzipped) for _ in range(4)]
    key = (("authorization", f"Bearer {tenant.api_key}"),)
    known = [await code_of(cluster.channel, CREATE, bomb[: 4 * MEBIBYTE], metadata=key, **gzipped) for _ in range(4)]

    assert set(stranger) <= {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNIMPLEMENTED}
    assert Counter(public + known) == {grpc.StatusCode.UNIMPLEMENTED: 8}
    assert ResourceUsage.of(os.getpid()).resident_bytes - before < MAX_GROWTH_BYTES


@pytest.mark.system
async def test_a_body_that_comes_slowly_yields_its_room_to_one_that_waits(cluster: Cluster) -> None:
    size = 5 * MEBIBYTE
    async with AsyncExitStack() as stack:
        # More than one source may have under way.
        slow = await halves(stack, cluster.endpoint, SIGN_IN, 20 * MEBIBYTE // size)
        answer = accounts_pb2.SignInRequest(email="nobody@x.invalid", password="wrong wrong wrong")
        code = await code_of(cluster.channel, SIGN_IN, answer.SerializeToString())
        codes = [asyncio.ensure_future(call.code()) for call in slow]
        # Whichever came first yields first.
        first, _ = await asyncio.wait(codes, return_when=asyncio.FIRST_COMPLETED)
        yielded = {one.result() for one in first}
        for call in slow:
            call.cancel()
        await asyncio.gather(*codes)

    assert code is grpc.StatusCode.UNAUTHENTICATED
    assert yielded == {grpc.StatusCode.RESOURCE_EXHAUSTED}


async def test_bodies_over_http_are_refused_before_they_come(cluster: Cluster) -> None:
    host, _, port = cluster.addresses["http"].partition(":")
    json = f"content-type: application/json\r\ncontent-length: {len(BODY)}\r\n"
    head = f"POST {GET_ME} HTTP/1.1\r\nhost: 127.0.0.1\r\n{json}"

    async def status(more: str, path: str = GET_ME) -> bytes:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"{head.replace(GET_ME, path)}{more}\r\n".encode())
        async with asyncio.timeout(30):
            line = await reader.readline()
        writer.close()
        return line.split(b" ")[1]

    answers = await asyncio.gather(*(status("") for _ in range(CALLS)))
    zipped = [await status("content-encoding: gzip\r\n"), await status("content-encoding: deflate\r\n", path=SIGN_IN)]
    tool = [await status("", path="/mcp")]

    assert set(answers) == {b"401"}
    assert zipped == [b"415", b"415"]
    assert tool == [b"401"]


async def test_one_source_has_half_of_the_room_and_who_waits_gets_what_is_given_back() -> None:
    budget = BodyMemory(4, preempt_after_seconds=0.0)
    order: list[str] = []

    async def body(source: str, name: str, end: asyncio.Event) -> None:
        try:
            async with budget.reserve(source, 1):
                order.append(name)
                await end.wait()
        except Overloaded:
            order.append(f"{name} yielded")

    ends = [asyncio.Event() for _ in range(5)]
    tasks = [asyncio.create_task(body("a", f"a{number}", ends[number])) for number in range(2)]
    await asyncio.sleep(0)
    tasks.append(asyncio.create_task(body("b", "b", ends[2])))
    await asyncio.sleep(0)
    assert (order, budget.used_bytes) == (["a0", "a1", "b"], 3)

    ends[3].set()
    await body("a", "a2", ends[3])
    ends[2].set()
    await asyncio.gather(*tasks)

    assert sorted(order[3:]) == ["a0 yielded", "a1 yielded", "a2"] or order[-1] == "a2"
    assert budget.used_bytes == 0


async def test_room_that_a_caller_stopped_waiting_for_is_not_taken() -> None:
    patient = BodyMemory(1, preempt_after_seconds=60.0)
    async with patient.reserve("a", 1):
        waiting = asyncio.create_task(patient.reserve("b", 1).__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert patient.used_bytes == 0


async def test_room_comes_back_when_who_holds_it_and_who_waits_end_at_once() -> None:
    budget = BodyMemory(4, preempt_after_seconds=60.0)

    async def body(source: str) -> None:
        async with budget.reserve(source, 2):
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(body(source)) for source in "abcdab"]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(end) for end in ends] == [asyncio.CancelledError] * len(tasks)
    assert budget.used_bytes == 0
    async with asyncio.timeout(5), budget.reserve("e", 4):
        assert budget.used_bytes == 4


async def test_room_that_comes_to_a_caller_as_it_stops_waiting_goes_to_the_next() -> None:
    budget = BodyMemory(1, preempt_after_seconds=60.0)
    async with AsyncExitStack() as stack:
        async with budget.reserve("a", 1):
            first = asyncio.create_task(budget.reserve("b", 1).__aenter__())
            await asyncio.sleep(0)
            second = asyncio.create_task(stack.enter_async_context(budget.reserve("c", 1)))
            await asyncio.sleep(0)
        first.cancel()
        async with asyncio.timeout(5):
            await second
        assert first.cancelled()
        assert budget.used_bytes == 1
    assert budget.used_bytes == 0
