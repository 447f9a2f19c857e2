"""Streaming calls: their duration, their number per tenant, and the recheck of their callers.

A stream passes the same interceptors as every other call, but may last long. Therefore it ends without an error after
an hour, and its caller resumes it. It ends at once when the service drains. Its caller is rechecked while it lasts, so
that a revoked credential or a deleted tenant ends it too.
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

# The longest duration of a stream.
MAX_SECONDS = 3600.0
# Streams of one tenant at a time, per service and process.
MAX_PER_TENANT = 100
# A revoked caller is detected within this time, after the gateway's credential cache expired (within 4 seconds).
RECHECK_SECONDS = 5.0
# While the recheck itself fails, streams continue for this long.
STALE_IDENTITY_SECONDS = 60.0
# Messages that a stream within the process buffers.
_PIPE_MESSAGES = 4
# Errors of a recheck that are about the caller; others mean that the recheck failed.
_FINAL = frozenset(
    {
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.INVALID_ARGUMENT,
    }
)


class StreamLifetime:
    """The duration of one stream, which other tasks may end."""

    def __init__(self) -> None:
        """Start without a limit."""
        self.timeout: asyncio.Timeout | None = None
        self.reason: RpcError | None = None

    def end(self, reason: RpcError) -> None:
        """Cancel the work and end the call with this error; the first error counts."""
        if self.timeout is None or self.timeout.expired() or self.reason is not None:
            return
        self.reason = reason
        self.timeout.reschedule(asyncio.get_running_loop().time())


class StreamLimiter:
    """Limits of the streams of one service."""

    def __init__(
        self,
        *,
        reidentify: Identify,
        max_seconds: float = MAX_SECONDS,
        max_per_tenant: int = MAX_PER_TENANT,
        recheck_seconds: float = RECHECK_SECONDS,
        operation_seconds: float = 30.0,
    ) -> None:
        """Recheck callers by `reidentify`; `operation_seconds` is the time limit of each operation within a stream."""
        self._reidentify = reidentify
        self._max_seconds = max_seconds
        self._max_per_tenant = max_per_tenant
        self._recheck_seconds = recheck_seconds
        self._operation_seconds = operation_seconds
        self._lifetimes: dict[Call, StreamLifetime] = {}
        self._counts: Counter[UUID] = Counter()
        self._is_draining = False

    def drain(self) -> None:
        """End all streams now, and refuse new ones."""
        self._is_draining = True
        for lifetime in self._lifetimes.values():
            lifetime.end(errors.StreamEnded())

    def limit_duration(self, handler: Handler) -> Handler:
        """Run a stream until its caller's deadline, its longest duration, or its end by another task."""

        async def answer(request: Any, call: Call) -> None:
            if self._is_draining:
                raise errors.StreamEnded
            max_deadline = asyncio.get_running_loop().time() + self._max_seconds
            lifetime, caller_deadline = StreamLifetime(), call.deadline
            call.operation_seconds = self._operation_seconds
            try:
                async with asyncio.timeout_at(
                    max_deadline if caller_deadline is None else min(caller_deadline, max_deadline)
                ) as lifetime.timeout:
                    self._lifetimes[call] = lifetime
                    await handler(request, call)
            except TimeoutError:
                if lifetime.timeout is None or not lifetime.timeout.expired():
                    raise
                if lifetime.reason is not None:
                    raise lifetime.reason from None
                if caller_deadline is not None and caller_deadline <= max_deadline:
                    raise errors.DeadlineExceeded from None
                # The longest duration is over: no error, and the caller resumes the stream.
            finally:
                self._lifetimes.pop(call, None)

        return answer

    def limit_and_recheck(self, rule: AccessRule, handler: Handler) -> Handler:
        """Limit the streams of a tenant, and recheck their callers while they last."""

        async def answer(request: Any, call: Call) -> None:
            tenant_id = None if call.caller is None else call.caller.tenant_id
            if tenant_id is not None and self._counts[tenant_id] >= self._max_per_tenant:
                raise errors.TooManyStreams(limit=self._max_per_tenant)
            recheck = None if rule.is_public else asyncio.create_task(self._recheck_caller(rule, call))
            if tenant_id is not None:
                self._counts[tenant_id] += 1
            try:
                await handler(request, call)
            finally:
                if recheck is not None:
                    recheck.cancel()
                if tenant_id is not None:
                    self._counts[tenant_id] -= 1
                    if not self._counts[tenant_id]:
                        del self._counts[tenant_id]

        return answer

    async def _recheck_caller(self, rule: AccessRule, call: Call) -> None:
        loop = asyncio.get_running_loop()
        verified_at = loop.time()
        while True:
            await asyncio.sleep(self._recheck_seconds)
            try:
                caller = await self._reidentify(call)
                rule.check(caller)
                if call.caller is not None and caller.spaces != call.caller.spaces:
                    raise errors.SpacesChanged  # noqa: TRY301 - as the errors of the check.
            except RpcError as error:
                reason, code = error, errors.status_code(error.status())
            except Exception:  # noqa: BLE001 - a failed recheck, whatever its error, is no verdict on the caller.
                reason = errors.ServiceUnavailable()
                code = reason.code
            else:
                verified_at = loop.time()
                continue
            if code in _FINAL or loop.time() - verified_at > STALE_IDENTITY_SECONDS:
                lifetime = self._lifetimes.get(call)
                if lifetime is not None:
                    lifetime.end(reason)
                return


def stream_handler(path: str, messages: Messages) -> Handler:
    """Return a handler that writes the messages of a method, and closes the method's iterator at the end."""
    _, service, method = path.split("/")
    counter = STREAM_MESSAGES.labels(service, method)

    async def answer(request: Any, call: Call) -> None:
        async with aclosing(messages(request, call)) as stream:
            async for message in stream:
                await call.write(message)
                counter.inc()

    return answer


class Pipe:
    """A bounded buffer between the task that writes a stream's messages and the one that reads them."""

    def __init__(self) -> None:
        """Start empty."""
        self._messages: deque[Any] = deque()
        self._is_closed = False
        self._has_more = asyncio.Event()
        self._has_room = asyncio.Event()

    async def put(self, message: Any) -> None:
        """Add a message; wait while the buffer is full."""
        while len(self._messages) >= _PIPE_MESSAGES:
            self._has_room.clear()
            await self._has_room.wait()
        self._messages.append(message)
        self._has_more.set()

    def close(self) -> None:
        """Mark the end of the messages."""
        self._is_closed = True
        self._has_more.set()

    async def read(self) -> AsyncGenerator[Any, None]:
        """Yield the messages until the end."""
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
    """Run a streaming handler in a task and yield its messages; closing the iterator cancels it. Raises CallAborted."""
    pipe = Pipe()
    call.write_message = pipe.put
    task = asyncio.ensure_future(handler(request, call))
    task.add_done_callback(lambda _: pipe.close())
    try:
        async with aclosing(pipe.read()) as messages:
            async for message in messages:
                yield message
        if task.cancelled():
            raise CallAborted(errors.StreamEnded().status())
        task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
