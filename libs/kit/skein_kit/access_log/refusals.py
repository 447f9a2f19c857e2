"""Calls that end before a service records them: denied, malformed, or beyond a limit.

The first ones of a caller in a window are passed on one by one, with what their requests name. The others are counted
by method and reason, so that a flood of refused calls fills neither the access log nor the memory.

A call without a verified caller belongs to no tenant. Auth's audit log has refused credentials (credential_refused).
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import OrderedDict
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import grpc
from google.protobuf.message import DecodeError, Message

from skein_kit import canary
from skein_kit.background import background_tasks
from skein_kit.errors import RpcError, UpstreamError, status_code, status_reason
from skein_kit.identity.permissions import ACCESS_RULES
from skein_kit.ids import now
from skein_kit.rpc.declarations import GATEWAY, is_recorded, request_class
from skein_kit.rpc.request_body import MAX_MESSAGE_BYTES, CompleteBody, RequestBody, read_body

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from datetime import datetime
    from uuid import UUID

    from skein_kit.calls.call import Call

    Handler = Callable[[Any, Call], Awaitable[Any]]
    Write = Callable[[Sequence["Refusal"]], Awaitable[None]]

WINDOW_SECONDS = 10.0
# Calls of one caller and window that are recorded one by one, and most kinds of further ones that are counted.
MAX_SINGLE = 10
_MAX_KINDS = 100
# Most callers whose windows are kept, and most refusals that wait to be written; further ones are lost, and counted.
_MAX_CALLERS = 10_000
MAX_WAITING = 5000
_FLUSH_SECONDS = 0.5
_STOP_SECONDS = 5.0
# Larger requests are recorded without what they name.
MAX_REQUEST_BYTES = 16 * 1024
# A denied request that arrives more slowly is recorded without what it names.
_READ_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """One refused call, or the newest of several."""

    call: Call
    # The request as far as it could be read; None without it.
    request: Message | None
    error_code: str
    error_reason: str
    at: datetime
    count: int = 1


@dataclass(kw_only=True, slots=True)
class _Window:
    """The refused calls of one caller in a while."""

    # The event loop's time.
    end: float
    single_count: int = 0
    # By path and reason.
    counted: dict[tuple[str, str], Refusal] = field(default_factory=dict)


class RefusalRecorder:
    """Records the refused calls of one process's service."""

    def __init__(
        self, write: Write, *, count_lost: Callable[[int], None], window_seconds: float = WINDOW_SECONDS
    ) -> None:
        """Pass refusals to `write`, soon and in the background; a failed write is its own concern."""
        self._write = write
        self._count_lost = count_lost
        self._window_seconds = window_seconds
        # By tenant and principal, oldest first.
        self._windows: OrderedDict[tuple[UUID, str], _Window] = OrderedDict()
        self._waiting: list[Refusal] = []
        self._has_refusals = asyncio.Event()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Self]:
        """Write refusals while the block runs, and the waiting ones when it ends."""
        async with background_tasks(refused_calls=self._write_forever):
            yield self
        self._close_windows(float("inf"))
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await self._flush()

    def wrap(self, path: str, handler: Handler) -> Handler:
        """Record the calls of a method that end before its service records them."""

        async def answer(request: Any, call: Call) -> Any:
            body = _ReadableBody(request) if isinstance(request, RequestBody) else None
            try:
                return await handler(request if body is None else body.request, call)
            except RpcError as error:
                if not _is_recorded_elsewhere(path, call, error):
                    await self.record(call, error, request if body is None else body)
                raise

        return answer

    async def record(self, call: Call, error: RpcError, request: Any) -> None:
        """Record a refused call of a verified caller with a tenant; the log of a deleted one takes no more."""
        caller = call.caller
        if caller is None or caller.tenant_id is None or caller.is_tenant_deleted or is_probe(caller.tenant_id, call):
            return
        if (refusal := self._counted(caller.tenant_id, caller.principal, call, error)) is not None:
            message = await _message(call, error, request)
            self._append(dataclasses.replace(refusal, request=message))
        self._has_refusals.set()

    def _counted(self, tenant_id: UUID, principal: str, call: Call, error: RpcError) -> Refusal | None:
        """Return the refusal to record by itself; None when it was counted with others."""
        code, reason = code_and_reason(error)
        refusal = Refusal(call=call, request=None, error_code=code, error_reason=reason, at=now())
        at = asyncio.get_running_loop().time()
        self._close_windows(at)
        window = self._windows.get((tenant_id, principal))
        if window is None:
            if len(self._windows) >= _MAX_CALLERS:
                self._close_window(self._windows.popitem(last=False)[1])
            window = self._windows[tenant_id, principal] = _Window(end=at + self._window_seconds)
        if window.single_count < MAX_SINGLE:
            window.single_count += 1
            return refusal
        counted = window.counted.get((call.path, reason))
        if counted is None and len(window.counted) >= _MAX_KINDS:
            self._count_lost(1)
        else:
            count = 1 if counted is None else counted.count + 1
            window.counted[call.path, reason] = dataclasses.replace(refusal, count=count)
        return None

    def _append(self, refusal: Refusal) -> None:
        if len(self._waiting) >= MAX_WAITING:
            self._count_lost(refusal.count)
        else:
            self._waiting.append(refusal)

    def _close_windows(self, at: float) -> None:
        while self._windows and next(iter(self._windows.values())).end <= at:
            self._close_window(self._windows.popitem(last=False)[1])

    def _close_window(self, window: _Window) -> None:
        for refusal in window.counted.values():
            self._append(refusal)

    async def _write_forever(self) -> None:
        while True:
            await self._has_refusals.wait()
            await asyncio.sleep(min(_FLUSH_SECONDS, self._window_seconds))
            self._close_windows(asyncio.get_running_loop().time())
            if not self._windows:
                self._has_refusals.clear()
            await self._flush()

    async def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            await self._write(waiting)


class _ReadableBody:
    """A request body whose small content is kept until the call ends, or read when it was refused unread."""

    def __init__(self, body: RequestBody) -> None:
        self._body = body
        self._was_read = False
        self._max_bytes = MAX_MESSAGE_BYTES
        self._content: bytes | None = None
        self.request = dataclasses.replace(body, read=self._read)

    async def _read(self, max_bytes: int) -> bytes:
        self._was_read = True
        content = await self._body.read(min(max_bytes, self._max_bytes))
        if len(content) <= MAX_REQUEST_BYTES:
            self._content = content
        return content

    async def message(self, call: Call, error: RpcError) -> Message | None:
        # What an overloaded gateway refuses stays unread.
        if not self._was_read and error.code is grpc.StatusCode.PERMISSION_DENIED:
            self._max_bytes = MAX_REQUEST_BYTES
            with suppress(Exception):
                async with asyncio.timeout(_READ_SECONDS):
                    complete = await read_body(self.request, call)
                    complete.reservation.release()
        if self._content is None:
            return None
        recover = self._body.recover
        return read_request(call.path, self._content) if recover is None else recover(self._content)


async def _message(call: Call, error: RpcError, request: Any) -> Message | None:
    """Return a refused request, as far as it can be read."""
    if isinstance(request, _ReadableBody):
        return await request.message(call, error)
    if isinstance(request, CompleteBody):
        request = request.content_or_none
    if isinstance(request, bytes):
        return read_request(call.path, request) if len(request) <= MAX_REQUEST_BYTES else None
    return request if isinstance(request, Message) else None


def read_request(path: str, content: bytes) -> Message | None:
    """Return the message of a request's bytes; None for other bytes, and for a method of another version."""
    try:
        return request_class(path).FromString(content)
    except (DecodeError, LookupError):
        return None


def _is_recorded_elsewhere(path: str, call: Call, error: RpcError) -> bool:
    """Return whether the call began, or whether the service that refused it records its refusals."""
    return call.is_recorded or (isinstance(error, UpstreamError) and (is_recorded(path) or path.startswith(GATEWAY)))


def is_probe(tenant_id: UUID, call: Call) -> bool:
    """Return whether the canary reads, as it does every minute: such events would fill the log."""
    if tenant_id not in canary.CANARY_TENANT_IDS:
        return False
    return str(ACCESS_RULES[call.path].permission).endswith(".read") or call.path.endswith(
        ("/ExportSubject", "/ListPendingMemories", "/ListRefusedFacts")
    )


def code_and_reason(error: RpcError) -> tuple[str, str]:
    """Return the gRPC status and the documented reason of an error."""
    if isinstance(error, UpstreamError):
        status = error.status()
        return status_code(status).name, status_reason(status)
    return error.code.name, error.reason
