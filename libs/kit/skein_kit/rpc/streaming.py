"""Calls that answer with many messages: how long they last, how many there are at once, and what ends them.

A stream passes the same interceptors as every other call, because it is one: its messages are written while it lasts.
It may last for long, so three things happen to it that no other call sees. After an hour it ends well, and whoever
wants more resumes it where it ended. When the service leaves off it ends at once. And while it lasts its caller is
looked at again, so that a revoked credential or a closed tenant ends it too.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import grpc

from skein_kit import errors
from skein_kit.calls.call import Call, CallAborted
from skein_kit.errors import RpcError
from skein_kit.telemetry.metrics import STREAM_MESSAGES

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from uuid import UUID

    from skein_kit.identity.identity_token import Caller
    from skein_kit.identity.permissions import AccessRule

    Handler = Callable[[Any, Call], Awaitable[Any]]
    Messages = Callable[[Any, Call], AsyncGenerator[Any, None]]
    Identify = Callable[[Call], Awaitable[Caller]]

# A stream lasts no longer.
MOST_SECONDS = 3600.0
# Of one tenant, in one service of one process.
MOST_OF_A_TENANT = 100
# Who may not call any more is noticed so soon, after the gateway forgot the credential (in less than four).
RECHECK_SECONDS = 5.0
# While nobody says whether a caller is still welcome, its streams go on for so long.
UNHEARD_SECONDS = 60.0
# Messages that wait in process between whoever makes and whoever reads them.
_PIPE_MESSAGES = 4
# Answers about a caller that are final; others say that there was none.
_FINAL = frozenset(
    {
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.INVALID_ARGUMENT,
    }
)


class StreamLifetime:
    """The time of one stream, which others may end."""

    def __init__(self) -> None:
        """Begin without a limit."""
        self.limit: asyncio.Timeout | None = None
        self.why: RpcError | None = None

    def end(self, why: RpcError) -> None:
        """Cancel the work, and let the call end with this refusal; the first reason counts."""
        if self.limit is None or self.limit.expired() or self.why is not None:
            return
        self.why = why
        self.limit.reschedule(asyncio.get_running_loop().time())


class StreamLimiter:
    """The streams of one service."""

    def __init__(
        self,
        *,
        most_seconds: float = MOST_SECONDS,
        most_of_a_tenant: int = MOST_OF_A_TENANT,
        recheck_seconds: float = RECHECK_SECONDS,
        step_seconds: float = 30.0,
    ) -> None:
        """Give each thing that is done within a stream `step_seconds`, as a call without a deadline has them."""
        self._most_seconds = most_seconds
        self._most_of_a_tenant = most_of_a_tenant
        self._recheck_seconds = recheck_seconds
        self._step_seconds = step_seconds
        self._lives: dict[Call, StreamLifetime] = {}
        self._counts: Counter[UUID] = Counter()
        self._is_draining = False

    def drain(self) -> None:
        """End all streams now, and begin no more."""
        self._is_draining = True
        for life in self._lives.values():
            life.end(errors.StreamEnded())

    def lasting(self, handler: Handler) -> Handler:
        """Let a stream last until its caller's deadline, or until it is old, or until something ends it."""

        async def answer(request: Any, call: Call) -> None:
            if self._is_draining:
                raise errors.StreamEnded
            latest = asyncio.get_running_loop().time() + self._most_seconds
            life, own = StreamLifetime(), call.deadline
            call.step_seconds = self._step_seconds
            try:
                async with asyncio.timeout_at(latest if own is None else min(own, latest)) as life.limit:
                    self._lives[call] = life
                    await handler(request, call)
            except TimeoutError:
                if life.limit is None or not life.limit.expired():
                    raise
                if life.why is not None:
                    raise life.why from None
                if own is not None and own <= latest:
                    raise errors.DeadlineExceeded from None
                # It is old: it ends well, and the caller resumes it.
            finally:
                self._lives.pop(call, None)

        return answer

    def standing(self, rule: AccessRule, identify: Identify, handler: Handler) -> Handler:
        """Count a tenant's streams, and look at their callers again while they last."""

        async def answer(request: Any, call: Call) -> None:
            tenant_id = None if call.caller is None else call.caller.tenant_id
            if tenant_id is not None and self._counts[tenant_id] >= self._most_of_a_tenant:
                raise errors.TooManyStreams(limit=self._most_of_a_tenant)
            looking = None if rule.public else asyncio.create_task(self._look(rule, identify, call))
            if tenant_id is not None:
                self._counts[tenant_id] += 1
            try:
                await handler(request, call)
            finally:
                if looking is not None:
                    looking.cancel()
                if tenant_id is not None:
                    self._counts[tenant_id] -= 1
                    if not self._counts[tenant_id]:
                        del self._counts[tenant_id]

        return answer

    async def _look(self, rule: AccessRule, identify: Identify, call: Call) -> None:
        loop = asyncio.get_running_loop()
        heard = loop.time()
        while True:
            await asyncio.sleep(self._recheck_seconds)
            try:
                rule.check(await identify(call))
            except RpcError as refusal:
                why, code = refusal, errors.status_code(refusal.status())
            except Exception:  # noqa: BLE001 - whatever it is: nobody has said that the caller may not go on.
                why = errors.ServiceUnavailable()
                code = why.code
            else:
                heard = loop.time()
                continue
            if code in _FINAL or loop.time() - heard > UNHEARD_SECONDS:
                life = self._lives.get(call)
                if life is not None:
                    life.end(why)
                return


def stream_handler(path: str, messages: Messages) -> Handler:
    """Return a handler that writes what a method yields; it is closed when the stream ends, however it ends."""
    _, service, method = path.split("/")
    counter = STREAM_MESSAGES.labels(service, method)

    async def answer(request: Any, call: Call) -> None:
        async with aclosing(messages(request, call)) as made:
            async for message in made:
                await call.write(message)
                counter.inc()

    return answer


class Pipe:
    """Messages on their way from the task that makes them to the one that reads them, in one process."""

    def __init__(self) -> None:
        """Begin empty."""
        self._messages: deque[Any] = deque()
        self._is_closed = False
        self._has_more = asyncio.Event()
        self._has_room = asyncio.Event()

    async def put(self, message: Any) -> None:
        """Put a message in, once there is room for it."""
        while len(self._messages) >= _PIPE_MESSAGES:
            self._has_room.clear()
            await self._has_room.wait()
        self._messages.append(message)
        self._has_more.set()

    def close(self) -> None:
        """Say that there is no more to come."""
        self._is_closed = True
        self._has_more.set()

    async def read(self) -> AsyncGenerator[Any, None]:
        """Yield the messages until there are no more."""
        while True:
            while self._messages:
                message = self._messages.popleft()
                self._has_room.set()
                yield message
            if self._is_closed:
                return
            self._has_more.clear()
            await self._has_more.wait()


async def run_piped(handler: Handler, request: Any, call: Call) -> AsyncGenerator[Any, None]:
    """Answer a stream in a task of its own and yield its messages; closing this cancels the work. Raises Ended."""
    pipe = Pipe()
    call.writer = pipe.put
    work = asyncio.ensure_future(handler(request, call))
    work.add_done_callback(lambda _: pipe.close())
    try:
        async with aclosing(pipe.read()) as messages:
            async for message in messages:
                yield message
        if work.cancelled():
            raise CallAborted(errors.StreamEnded().status())
        work.result()
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
