"""A gRPC server that accepts calls as soon as they arrive, so that admission control decides which ones wait.

grpc.aio requests one call at a time from its core, and needs five rounds of the event loop for each. Under load a round
takes milliseconds: calls then wait inside the core, in order of arrival for all tenants, until their deadline. This
server always keeps several requests for calls outstanding, and accepts all arrived calls in one round.

It uses private parts of grpc.aio. If they differ from the known ones, it returns grpc.aio's own server unchanged.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from grpc import aio
from grpc._cython import cygrpc
from grpc.aio import _server

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Sequence

# Outstanding requests for calls: the burst that is accepted in one round. They are few while calls are refused,
# because accepting calls would leave no time for running ones.
PREFETCH = 512
PREFETCH_WHILE_SHEDDING = 16
# Calls that wait inside the core. Above the first number the core itself refuses some, above the second all; the
# callers see CANCELLED, which clients repeat.
_OPTIONS = (("grpc.server.max_pending_requests", 64), ("grpc.server.max_pending_requests_hard_limit", 128))

_KNOWN = ("_make_request_call_future", "_request_call", "shutdown")


def server(options: Sequence[tuple[str, Any]], is_refusing: Callable[[], bool]) -> aio.Server:
    """Return a server that is not started; `is_refusing` returns whether admission control refuses calls now."""
    if not all(hasattr(cygrpc.AioServer, name) for name in _KNOWN):
        return aio.server(options=options)
    return cast("aio.Server", _Server((*options, *_OPTIONS), is_refusing))


class _Server(_server.Server):
    """grpc.aio's server around the prefetching one."""

    def __init__(self, options: Sequence[tuple[str, Any]], is_refusing: Callable[[], bool]) -> None:
        self._loop = asyncio.get_running_loop()
        self._server = _PrefetchServer(self._loop, None, (), (), options, None)
        self._server.is_refusing = is_refusing


class _Next:
    """The future of the next call for grpc.aio; for an arrived call it is done at once."""

    def __init__(self, arrived: deque[Coroutine[Any, Any, Any]]) -> None:
        self._arrived = arrived
        self._callbacks: list[Callable[[Any], object]] = []

    def done(self) -> bool:
        return bool(self._arrived)

    def result(self) -> Any:
        """Return the state of a call. Raises the error of the core."""
        request = self._arrived.popleft()
        try:
            request.send(None)
        except StopIteration as ended:
            return ended.value
        message = "a request for a call waits for more than its answer"
        raise RuntimeError(message)

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        if self.done():
            callback(self)
        else:
            self._callbacks.append(callback)

    def remove_done_callback(self, callback: Callable[[Any], object]) -> int:
        count = len(self._callbacks)
        self._callbacks = [other for other in self._callbacks if other != callback]
        return count - len(self._callbacks)

    def notify(self) -> None:
        """Call the waiting callbacks."""
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def cancel(self) -> bool:
        """Keep the requests outstanding: the core answers them when the server ends, into memory that they own."""
        return False

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


class _PrefetchServer(cygrpc.AioServer):  # type: ignore[misc]  # It is compiled, and has no types.
    """grpc.aio's server with several outstanding requests for calls."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *arguments: Any) -> None:
        super().__init__(loop, *arguments)
        self.is_refusing: Callable[[], bool] = bool
        # Answered requests: with a call, or by the end of the server.
        self._arrived: deque[Coroutine[Any, Any, Any]] = deque()
        self._next = _Next(self._arrived)
        self._outstanding = 0
        self._is_over = False

    def _make_request_call_future(self, method: bytes | None) -> Any:
        """Return the future of the next call, of any method."""
        if method is not None:
            return super()._make_request_call_future(method)
        at_once = PREFETCH_WHILE_SHEDDING if self.is_refusing() else PREFETCH
        while self._outstanding + len(self._arrived) < at_once:
            # A callback instead of a task, because there is only one thing to wait for.
            request = self._request_call()
            request.send(None).add_done_callback(functools.partial(self._on_request, request))
            self._outstanding += 1
        return self._next

    async def shutdown(self, grace: float | None) -> None:
        """Stop, and drop accepted calls that have not started: the core waits for the end of every accepted call."""
        self._is_over = True
        self._arrived.clear()
        letting_go = asyncio.create_task(self._drain_core())
        try:
            await super().shutdown(grace)
        finally:
            letting_go.cancel()

    async def _drain_core(self) -> None:
        """Drop calls that arrived during the shutdown, after the last running one."""
        while begun := [task for task in asyncio.all_tasks() if _is_of_a_call(task)]:
            await asyncio.wait(begun)
        await super().shutdown(None)

    def _on_request(self, request: Coroutine[Any, Any, Any], answered: asyncio.Future[Any]) -> None:
        self._outstanding -= 1
        # grpc.aio does not await the requests that fail when the server ends.
        answered.exception()
        if not self._is_over:
            self._arrived.append(request)
        self._next.notify()


def _is_of_a_call(task: asyncio.Task[Any]) -> bool:
    """Return whether a task is grpc.aio's task of a call, of any server."""
    return getattr(task.get_coro(), "__qualname__", "") == "_schedule_rpc_coro"
