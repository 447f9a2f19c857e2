"""Health and reflection, gRPC's own services, with limits because they need no credential.

grpc's implementations wait for a message without a limit, and allow any number of streams. Its health service notifies
watchers one after another, so that one that does not read blocks all others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc import aio
from grpc_health.v1 import health, health_pb2
from grpc_reflection.v1alpha import _base, reflection, reflection_pb2

from skein_kit.admission.call_slots import CallSlots, SlotsFull

Context = aio.ServicerContext[bytes, bytes]

# Watch streams of one connection, and of all: a client needs one stream.
MAX_WATCHES_PER_CONNECTION = 8
MAX_WATCHES = 2_048
# Streams of reflection, which people use; an unread response holds some 100 KB.
MAX_REFLECTIONS_PER_CONNECTION = 4
_MAX_REFLECTIONS = 64
# Concurrent checks of one connection, and of all: each lasts until its message has arrived.
_MAX_CHECKS_PER_CONNECTION = 64
# Longer than the name of any service or symbol.
_MAX_REQUEST_BYTES = 1_024
# Cached responses of reflection: about as many as there are services and files.
_CACHED_RESPONSES = 64

_HEALTH = f"/{health.SERVICE_NAME}/"
_REFLECTION = f"/{reflection.SERVICE_NAME}/"


class HealthStatuses:
    """The health statuses of one port's services, and the streams that watch them."""

    def __init__(self) -> None:
        """Start without services."""
        self._statuses: dict[str, int] = {}
        self._change_event = asyncio.Event()
        self._is_shutting_down = False
        self._is_closed = False

    def set_status(self, names: Iterable[str], *, serving: bool) -> None:
        """Set the status of the services by these names; after the shutdown began, a call has no effect."""
        if self._is_shutting_down:
            return
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        self._statuses.update(dict.fromkeys(names, status))
        self._notify()

    def begin_shutdown(self) -> None:
        """Set all services to NOT_SERVING for good."""
        self.set_status(list(self._statuses), serving=False)
        self._is_shutting_down = True

    def close(self) -> None:
        """End the watch streams, which would delay the server's stop."""
        self._is_closed = True
        self._notify()

    @property
    def all(self) -> Mapping[str, int]:
        """Return the status of each service by its name."""
        return self._statuses

    def status(self, name: str) -> int | None:
        """Return a service's status; None for an unknown service."""
        return self._statuses.get(name)

    async def watch(self, name: str, write: Callable[[int], Awaitable[None]]) -> None:
        """Write the status of a service, and again after each change, until `close`."""
        last_status: int | None = None
        while not self._is_closed:
            event = self._change_event
            status = self._statuses.get(name, health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
            if status != last_status:
                await write(status)
                last_status = status
            # A change during the write has set this event already.
            await event.wait()

    def _notify(self) -> None:
        self._change_event.set()
        self._change_event = asyncio.Event()


class HealthReflectionHandler(grpc.GenericRpcHandler):
    """Routes calls of health and reflection to their handlers."""

    def __init__(self, health_: HealthStatuses, names: Iterable[str], *, message_seconds: float) -> None:
        """Describe the services with these names; a call ends when its next message takes longer than this."""
        self._health = health_
        self._reflection = _Reflection([*names, health.SERVICE_NAME, reflection.SERVICE_NAME])
        self._message_seconds = message_seconds
        self._watches = CallSlots(per_connection=MAX_WATCHES_PER_CONNECTION, total=MAX_WATCHES)
        self._reflections = CallSlots(per_connection=MAX_REFLECTIONS_PER_CONNECTION, total=_MAX_REFLECTIONS)
        self._checks = CallSlots(per_connection=_MAX_CHECKS_PER_CONNECTION, total=MAX_WATCHES)
        self._handlers = {
            f"{_HEALTH}Check": self._handler(self._check, self._checks),
            f"{_HEALTH}List": self._handler(self._list, self._checks),
            f"{_HEALTH}Watch": self._handler(self._watch, self._watches),
            f"{_REFLECTION}ServerReflectionInfo": self._handler(self._reflect, self._reflections),
        }

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        return self._handlers.get(str(handler_call_details.method))

    def _handler(
        self, method: Callable[[Context], Awaitable[None]], slots: CallSlots
    ) -> grpc.RpcMethodHandler[bytes, bytes]:
        async def answer(_messages: object, context: Context) -> None:
            try:
                with slots.occupy(context.peer()):
                    await method(context)
            except SlotsFull:
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many of these calls are open; end one")

        return grpc.stream_stream_rpc_method_handler(answer)

    async def _check(self, context: Context) -> None:
        request = await self._read_name(context)
        status = self._health.status(request)
        if status is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such service")
        await context.write(_response(status))

    async def _list(self, context: Context) -> None:
        await self._read(context)
        statuses = {name: health_pb2.HealthCheckResponse(status=status) for name, status in self._health.all.items()}
        messages: Any = health_pb2
        await context.write(messages.HealthListResponse(statuses=statuses).SerializeToString())

    async def _watch(self, context: Context) -> None:
        name = await self._read_name(context)
        await self._health.watch(name, lambda status: context.write(_response(status)))
        await context.abort(grpc.StatusCode.UNAVAILABLE, "the service shuts down")

    async def _reflect(self, context: Context) -> None:
        while (request := await self._read(context, is_last_allowed=True)) is not None:
            await context.write(self._reflection.answer(request))

    async def _read_name(self, context: Context) -> str:
        message = await self._read(context)
        try:
            return str(health_pb2.HealthCheckRequest.FromString(message or b"").service)
        except DecodeError:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "this is no message of the method")
            raise

    async def _read(self, context: Context, *, is_last_allowed: bool = False) -> bytes | None:
        """Return the next message; None at the end of an optional one."""
        try:
            async with asyncio.timeout(self._message_seconds):
                message: Any = await context.read()
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the message did not come in time")
        if message is aio.EOF:
            if is_last_allowed:
                return None
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the message is missing")
        if len(message) > _MAX_REQUEST_BYTES:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the message is too large")
        return bytes(message)


class _Reflection(_base.BaseReflectionServicer):
    """grpc's reflection, with its responses cached by request."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(names)
        self.answer = lru_cache(maxsize=_CACHED_RESPONSES)(self._answer)

    def _answer(self, content: bytes) -> bytes:
        try:
            request = reflection_pb2.ServerReflectionRequest.FromString(content)
        except DecodeError:
            request = reflection_pb2.ServerReflectionRequest()
        kind = request.WhichOneof("message_request")
        if kind is not None:
            extension = request.file_containing_extension
            arguments = {
                "file_containing_extension": (extension.containing_type, extension.extension_number),
                "list_services": (),
            }.get(kind, (getattr(request, kind),))
            response = getattr(self, f"_{kind}")(request, *arguments)
        else:
            code, message = grpc.StatusCode.INVALID_ARGUMENT.value
            error_response = reflection_pb2.ErrorResponse(error_code=code, error_message=message)
            response = reflection_pb2.ServerReflectionResponse(error_response=error_response, original_request=request)
        return bytes(response.SerializeToString())


def _response(status: int) -> bytes:
    return bytes(health_pb2.HealthCheckResponse(status=status).SerializeToString())
