"""A server that takes calls in as they come: a burst at once, and none of them keeps it from ending."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from grpc import aio

from skein_kit.rpc import prefetch_server

SECONDS = 20.0
PATH = "/test.Test/Do"

Answer = Callable[[bytes, Any], Awaitable[bytes]]


class Everything(grpc.GenericRpcHandler):
    """Answers every method alike."""

    def __init__(self, answer: Answer) -> None:
        self.handler: Any = grpc.unary_unary_rpc_method_handler(answer)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        return self.handler


@asynccontextmanager
async def serving(
    answer: Answer, *, is_refusing: Callable[[], bool] = bool
) -> AsyncIterator[tuple[aio.Server, Callable[[], asyncio.Task[bytes]]]]:
    """Run a server; yield it, and what makes a call."""
    server = prefetch_server.server((), is_refusing)
    server.add_generic_rpc_handlers((Everything(answer),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        method: Any = channel.unary_unary(PATH)

        async def call() -> bytes:
            found: bytes = await method(b"", timeout=SECONDS)
            return found

        try:
            yield server, lambda: asyncio.create_task(call())
        finally:
            await asyncio.wait_for(server.stop(None), SECONDS)


class Held:
    """An answer that is given when it is let go."""

    def __init__(self) -> None:
        self.begun = asyncio.Semaphore(0)
        self.released = asyncio.Event()

    async def answer(self, request: bytes, _context: Any) -> bytes:
        self.begun.release()
        await self.released.wait()
        return request

    async def count(self, calls: int) -> None:
        """Wait until so many more calls were begun."""
        async with asyncio.timeout(SECONDS):
            for _ in range(calls):
                await self.begun.acquire()


@pytest.mark.parametrize(("calls", "is_refusing"), [(400, False), (60, True)], ids=["with room", "while it refuses"])
async def test_calls_that_come_together_are_begun_together(calls: int, *, is_refusing: bool) -> None:
    held = Held()
    async with serving(held.answer, is_refusing=lambda: is_refusing) as (_, call):
        tasks = [call() for _ in range(calls)]

        await held.count(calls)
        held.released.set()

        assert await asyncio.gather(*tasks) == [b""] * calls


async def test_requests_for_calls_are_no_tasks() -> None:
    before = len(asyncio.all_tasks())

    async with serving(Held().answer):
        assert len(asyncio.all_tasks()) - before < prefetch_server.PREFETCH_WHILE_SHEDDING


async def test_calls_that_nobody_took_do_not_keep_it_from_ending() -> None:
    for _ in range(10):
        held = Held()
        held.released.set()
        async with serving(held.answer) as (server, call):
            tasks = [call() for _ in range(100)]
            # The others are on their way in.
            await held.count(1)

            await asyncio.wait_for(server.stop(10 * SECONDS), SECONDS)

            ended = await asyncio.gather(*tasks, return_exceptions=True)
        failures = [one for one in ended if isinstance(one, BaseException)]
        codes = {error.code() if isinstance(error, aio.AioRpcError) else error for error in failures}
        assert codes <= {grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE}
        # The one that was on its way when the server began to end.
        assert len(failures) < len(ended)


async def test_a_call_that_was_begun_is_finished_while_no_other_one_is_taken() -> None:
    held = Held()
    async with serving(held.answer) as (server, call):
        begun = call()
        await held.count(1)

        stopping = asyncio.create_task(server.stop(SECONDS))
        await asyncio.sleep(0)
        late = call()
        with pytest.raises(aio.AioRpcError) as refused:
            await late
        held.released.set()

        assert await begun == b""
        await asyncio.wait_for(stopping, SECONDS)
        assert refused.value.code() in {grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE}


async def test_where_grpc_is_not_what_is_known_its_own_server_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetch_server, "_KNOWN", ("_no_such_name",))
    held = Held()
    held.released.set()

    async with serving(held.answer) as (server, call):
        assert type(server).__module__ == "grpc.aio._server"
        assert await call() == b""
