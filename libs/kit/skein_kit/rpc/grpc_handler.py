"""A service's gRPC port: how a call on the socket becomes a call behind the interceptors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import grpc
from grpc import aio

from skein_kit import errors
from skein_kit.calls.call import Call, CallAborted, peer_address, status_metadata
from skein_kit.calls.database_revision import revision_trailers
from skein_kit.rpc.request_body import RequestBody

if TYPE_CHECKING:
    from skein_kit.rpc.channel import InProcessHandlers
    from skein_kit.rpc.interceptors import Handler, Method

# What leaves in one message.
WIRE_LIMIT = 64 * 1024 * 1024
# What comes in one: messages up to here reach our own check of 4 MiB, so that the refusal says why.
REQUEST_LIMIT = 5 * 1024 * 1024
# What one takes while it comes, as its size is not known: it lies in grpc's memory and in ours. The cluster's services
# are believed to send each other what is small.
_EDGE_BYTES = 2 * REQUEST_LIMIT
_INNER_BYTES = 2 * 1024 * 1024
# What a proxy says of where a call comes from.
FORWARDED_FOR = "x-forwarded-for"
# The same as RFC 7239 has it. It is not read, but a proxy that sends it is noticed.
FORWARDED = "forwarded"
# Says where a call comes from, given the socket's address, what X-Forwarded-For says and whether there is a Forwarded.
OriginResolver = Callable[[str, Sequence[str], bool], str]


class GrpcHandler(grpc.GenericRpcHandler):
    """Brings calls from the socket to the interceptors, as bytes."""

    def __init__(self, answers: InProcessHandlers, origin: OriginResolver | None, *, body_seconds: float) -> None:
        """Answer with these; with an `origin` calls enter the cluster here, and it says where from.

        A request whose message has not come after `body_seconds` is refused.
        """
        self._handlers = {
            path: (_stream if method.streams else _unary)(path, method, handler, origin, body_seconds)
            for path, (method, handler) in answers.items()
        }

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        path = str(handler_call_details.method)
        handler = self._handlers.get(path)
        if handler is None and path.startswith("/skein."):
            return _unknown_method_handler()
        return handler


def _unary(
    path: str, method: Method, handler: Handler, origin: OriginResolver | None, body_seconds: float
) -> grpc.RpcMethodHandler[bytes, bytes]:
    serializer = method.serializer

    async def answer(_messages: object, context: aio.ServicerContext[bytes, bytes]) -> bytes:
        call = _call_from_context(path, context, origin)
        try:
            response = await handler(_request_body(context, body_seconds, is_internal=origin is None), call)
        except CallAborted as ended:
            status = ended.status
            said: tuple[tuple[str, str | bytes], ...] = (*status_metadata(status), *revision_trailers(call))
            await context.abort(errors.status_code(status), status.message, trailing_metadata=said)
        if call.revision:
            context.set_trailing_metadata(revision_trailers(call))
        answered = serializer(response) if serializer is not None else cast("bytes", response)
        if len(answered) > WIRE_LIMIT:
            # gRPC would end the call without a reason.
            status = errors.MessageTooLarge(limit=WIRE_LIMIT, size=len(answered)).status()
            await context.abort(errors.status_code(status), status.message, trailing_metadata=status_metadata(status))
        return answered

    return grpc.stream_unary_rpc_method_handler(answer)


def _stream(
    path: str, method: Method, handler: Handler, origin: OriginResolver | None, body_seconds: float
) -> grpc.RpcMethodHandler[bytes, bytes]:
    serializer = method.serializer

    async def answer(_messages: object, context: aio.ServicerContext[bytes, bytes]) -> None:
        call = _call_from_context(path, context, origin)

        async def write(message: Any) -> None:
            written = serializer(message) if serializer is not None else cast("bytes", message)
            if len(written) > WIRE_LIMIT:
                raise errors.MessageTooLarge(limit=WIRE_LIMIT, size=len(written))
            # It waits while the caller does not read.
            await context.write(written)

        call.writer = write
        try:
            await handler(_request_body(context, body_seconds, is_internal=origin is None), call)
        except CallAborted as ended:
            status = ended.status
            await context.abort(errors.status_code(status), status.message, trailing_metadata=status_metadata(status))

    return grpc.stream_stream_rpc_method_handler(answer)


def _request_body(context: aio.ServicerContext[bytes, bytes], seconds: float, *, is_internal: bool) -> RequestBody:
    size = _INNER_BYTES if is_internal else _EDGE_BYTES
    return RequestBody(read=lambda _most: _read(context, seconds), size=size, is_internal=is_internal)


async def _read(context: aio.ServicerContext[bytes, bytes], seconds: float) -> bytes:
    """Return the one message of a request. Raises Ended when it does not come, or not in time.

    grpc itself waits for ever for the message of a unary request, before it calls us. All methods are therefore
    registered as ones whose requests are streams. Of a message that is not read yet the core takes no more than the
    window of its stream.
    """
    try:
        async with asyncio.timeout(seconds):
            message: object = await context.read()
    except TimeoutError:
        raise CallAborted(errors.DeadlineExceeded().status()) from None
    if message is aio.EOF:
        raise CallAborted(errors.FieldInvalid(violations=[("", "is missing")]).status())
    return cast("bytes", message)


def _call_from_context(path: str, context: aio.ServicerContext[bytes, bytes], origin: OriginResolver | None) -> Call:
    left = context.time_remaining()
    pairs = [(key, value) for key, value in context.invocation_metadata() or () if isinstance(value, str)]
    call = Call(
        path=path,
        metadata=dict(pairs),
        deadline=None if left is None else asyncio.get_running_loop().time() + left,
        peer=context.peer(),
    )
    if origin is not None:
        forwarded = [value for key, value in pairs if key == FORWARDED_FOR]
        has_forwarded = any(key == FORWARDED for key, _ in pairs)
        call.entered(origin(peer_address(call.peer_address), forwarded, has_forwarded))
    return call


def _unknown_method_handler() -> grpc.RpcMethodHandler[bytes, bytes]:
    async def answer(_request: bytes, context: aio.ServicerContext[bytes, bytes]) -> bytes:
        status = errors.MethodNotFound().status()
        await context.abort(errors.status_code(status), status.message, trailing_metadata=status_metadata(status))
        return b""

    return grpc.unary_unary_rpc_method_handler(answer)
