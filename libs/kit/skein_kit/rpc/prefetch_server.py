"""A gRPC server that takes calls in as they come, so that it is us who say which ones wait.

grpc.aio asks its core for one call at a time, and needs five rounds of the event loop for each. Under load a round
takes milliseconds: calls then wait inside the core, unseen, in the order in which they came, whoever made them, until
their time is over. This server always has several requests for calls out, and takes all that came in one round.

What it changes is no part of grpc.aio's interface. Where it does not find what it knows, it leaves everything as it is.
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

# Requests for calls that are out: so large a burst comes in at once. While calls are refused anyway they are few, or
# taking calls in would leave no time for those that are being worked on.
PREFETCH = 512
PREFETCH_WHILE_SHEDDING = 16
# Calls that wait inside the core. From the first number on it refuses some by itself, from the second on all, without
# Python; their callers see CANCELLED, which clients repeat.
_OPTIONS = (("grpc.server.max_pending_requests", 64), ("grpc.server.max_pending_requests_hard_limit", 128))

_KNOWN = ("_make_request_call_future", "_request_call", "shutdown")


def server(options: Sequence[tuple[str, Any]], is_refusing: Callable[[], bool]) -> aio.Server:
    """Return a server that is not started; `is_refusing` says whether calls are refused for lack of room."""
    if not all(hasattr(cygrpc.AioServer, name) for name in _KNOWN):
        return aio.server(options=options)
    return cast("aio.Server", _Server((*options, *_OPTIONS), is_refusing))


class _Server(_server.Server):
    """grpc.aio's server around another inner one."""

    def __init__(self, options: Sequence[tuple[str, Any]], is_refusing: Callable[[], bool]) -> None:
        self._loop = asyncio.get_running_loop()
        self._server = _PrefetchServer(self._loop, None, (), (), options, None)
        self._server.is_refusing = is_refusing


class _Next:
    """The next call, as what grpc.aio waits for: one that is there already is taken without another round."""

    def __init__(self, arrived: deque[Coroutine[Any, Any, Any]]) -> None:
        self._arrived = arrived
        self._callbacks: list[Callable[[Any], object]] = []

    def done(self) -> bool:
        return bool(self._arrived)

    def result(self) -> Any:
        """Return the state of a call; raise what the core answered instead of one."""
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

    def came(self) -> None:
        """Tell whoever waits."""
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def cancel(self) -> bool:
        """Leave the requests out: the core answers them all when the server ends, into memory that they hold."""
        return False

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


class _PrefetchServer(cygrpc.AioServer):  # type: ignore[misc]  # It is compiled, and has no types.
    """grpc.aio's server with several requests for calls out."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *arguments: Any) -> None:
        super().__init__(loop, *arguments)
        self.is_refusing: Callable[[], bool] = bool
        # Requests that were answered: by a call, or by the end of the server.
        self._arrived: deque[Coroutine[Any, Any, Any]] = deque()
        self._next = _Next(self._arrived)
        self._out = 0
        self._is_over = False

    def _make_request_call_future(self, method: bytes | None) -> Any:
        """Return the next call of a method that is registered, or of any other one."""
        if method is not None:
            return super()._make_request_call_future(method)
        at_once = PREFETCH_WHILE_SHEDDING if self.is_refusing() else PREFETCH
        while self._out + len(self._arrived) < at_once:
            # It waits for one thing only, and so needs no task of its own.
            request = self._request_call()
            request.send(None).add_done_callback(functools.partial(self._came, request))
            self._out += 1
        return self._next

    async def shutdown(self, grace: float | None) -> None:
        """Stop. Calls that came and were not begun are let go: the core waits for the end of all that we hold."""
        self._is_over = True
        self._arrived.clear()
        letting_go = asyncio.create_task(self._let_go())
        try:
            await super().shutdown(grace)
        finally:
            letting_go.cancel()

    async def _let_go(self) -> None:
        """When nothing is worked on any more, let go of what the core still has: a call may have come in just then."""
        while begun := [task for task in asyncio.all_tasks() if _is_of_a_call(task)]:
            await asyncio.wait(begun)
        await super().shutdown(None)

    def _came(self, request: Coroutine[Any, Any, Any], answered: asyncio.Future[Any]) -> None:
        self._out -= 1
        # Of the many that fail when the server ends, grpc.aio looks at none.
        answered.exception()
        if not self._is_over:
            self._arrived.append(request)
        self._next.came()


def _is_of_a_call(task: asyncio.Task[Any]) -> bool:
    """Say whether a task is grpc.aio's for a call, whichever server's."""
    return getattr(task.get_coro(), "__qualname__", "") == "_schedule_rpc_coro"
