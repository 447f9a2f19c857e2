"""The gRPC port of a service: the options of its server, and calls as bytes from the socket to the interceptors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import grpc
from grpc import aio

from skein_kit import errors
from skein_kit.calls.call import (
    AUTHORIZATION_KEY,
    MAX_DEADLINE_SECONDS,
    Call,
    CallAborted,
    peer_address,
    status_metadata,
)
from skein_kit.identity.permissions import ACCESS_RULES
from skein_kit.identity.service_identity import services_of
from skein_kit.rpc.channel import InProcessHandlers
from skein_kit.rpc.interceptors import Handler, Method
from skein_kit.rpc.request_body import RequestBody
from skein_kit.settings import ProcessSettings

# The largest message that is sent.
WIRE_LIMIT = 64 * 1024 * 1024
# The largest message that is received: above our own limit of 4 MiB, whose error gives the reason.
REQUEST_LIMIT = 5 * 1024 * 1024
# Memory of a message of unknown size while it arrives, in grpc's buffers and in ours. Services of the cluster are
# trusted to send small ones.
_EDGE_BYTES = 2 * REQUEST_LIMIT
_INNER_BYTES = 2 * 1024 * 1024
# Headers by which a proxy reports the address of a caller. Forwarded (RFC 7239) is not read, only noticed.
FORWARDED_FOR = "x-forwarded-for"
FORWARDED = "forwarded"
# Returns the address of a caller from the socket's address, the X-Forwarded-For headers, and whether there is a
# Forwarded header.
OriginResolver = Callable[[str, Sequence[str], bool], str]


class GrpcHandler(grpc.GenericRpcHandler):
    """Finds the handler of a call by its path."""

    def __init__(self, handlers: InProcessHandlers, origin: OriginResolver | None, *, body_seconds: float) -> None:
        """Serve the handlers in `handlers`; with an `origin`, as the edge of the cluster.

        A request whose message has not arrived after `body_seconds` is refused.
        """
        self._handlers = {
            path: (_stream if method.is_streaming else _unary)(path, method, handler, origin, body_seconds)
            for path, (method, handler) in handlers.items()
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
    is_internal = bool(ACCESS_RULES[path].services)

    async def answer(_messages: object, context: aio.ServicerContext[bytes, bytes]) -> bytes:
        call = _call_from_context(path, context, origin)
        if is_internal:
            call.peer_services = services_of(context.auth_context())
        try:
            response = await handler(_request_body(context, body_seconds, is_internal=origin is None), call)
        except CallAborted as aborted:
            status = aborted.status
            trailers: tuple[tuple[str, str | bytes], ...] = (*status_metadata(status), *call.revision_trailers())
            await context.abort(errors.status_code(status), status.message, trailing_metadata=trailers)
        if call.revision:
            context.set_trailing_metadata(call.revision_trailers())
        content = serializer(response) if serializer is not None else cast("bytes", response)
        if len(content) > WIRE_LIMIT:
            # gRPC would end the call without giving a reason.
            status = errors.MessageTooLarge(limit=WIRE_LIMIT, size=len(content)).status()
            await context.abort(errors.status_code(status), status.message, trailing_metadata=status_metadata(status))
        return content

    return grpc.stream_unary_rpc_method_handler(answer)


def _stream(
    path: str, method: Method, handler: Handler, origin: OriginResolver | None, body_seconds: float
) -> grpc.RpcMethodHandler[bytes, bytes]:
    serializer = method.serializer

    is_internal = bool(ACCESS_RULES[path].services)

    async def answer(_messages: object, context: aio.ServicerContext[bytes, bytes]) -> None:
        call = _call_from_context(path, context, origin)
        if is_internal:
            call.peer_services = services_of(context.auth_context())

        async def write(message: Any) -> None:
            content = serializer(message) if serializer is not None else cast("bytes", message)
            if len(content) > WIRE_LIMIT:
                raise errors.MessageTooLarge(limit=WIRE_LIMIT, size=len(content))
            # Waits while the caller does not read.
            await context.write(content)

        call.write_message = write
        try:
            await handler(_request_body(context, body_seconds, is_internal=origin is None), call)
        except CallAborted as aborted:
            status = aborted.status
            await context.abort(errors.status_code(status), status.message, trailing_metadata=status_metadata(status))

    return grpc.stream_stream_rpc_method_handler(answer)


def _request_body(context: aio.ServicerContext[bytes, bytes], seconds: float, *, is_internal: bool) -> RequestBody:
    size = _INNER_BYTES if is_internal else _EDGE_BYTES
    return RequestBody(read=lambda _limit: _read(context, seconds), size=size, is_internal=is_internal)


async def _read(context: aio.ServicerContext[bytes, bytes], seconds: float) -> bytes:
    """Return the one message of a request. Raises CallAborted when it is missing or late.

    For a unary request grpc waits for the message without a limit before it calls the handler. Therefore all methods
    are registered with a stream of requests. grpc buffers at most the stream's window of an unread message.
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
    remaining = context.time_remaining()
    pairs = [(key, value) for key, value in context.invocation_metadata() or () if isinstance(value, str)]
    metadata = dict(pairs)
    if [key for key, _ in pairs].count(AUTHORIZATION_KEY) > 1:
        # A proxy may have checked another one than the last: the call has none.
        del metadata[AUTHORIZATION_KEY]
    call = Call(
        path=path,
        metadata=metadata,
        deadline=None if remaining is None else asyncio.get_running_loop().time() + remaining,
        peer=context.peer(),
    )
    if origin is not None:
        forwarded = [value for key, value in pairs if key == FORWARDED_FOR]
        has_forwarded = any(key == FORWARDED for key, _ in pairs)
        call.set_origin(origin(peer_address(call.peer_address), forwarded, has_forwarded))
    return call


def _unknown_method_handler() -> grpc.RpcMethodHandler[bytes, bytes]:
    async def answer(_request: bytes, context: aio.ServicerContext[bytes, bytes]) -> bytes:
        status = errors.MethodNotFound().status()
        await context.abort(errors.status_code(status), status.message, trailing_metadata=status_metadata(status))
        return b""

    return grpc.unary_unary_rpc_method_handler(answer)


_OPTIONS = (
    ("grpc.max_receive_message_length", REQUEST_LIMIT),
    ("grpc.max_send_message_length", WIRE_LIMIT),
    # The probe widens the windows of a fast sender to megabytes for each connection. Unread bodies of strangers filled
    # them: 480 MiB for 400 calls. Without it a call may send 64 KiB ahead.
    ("grpc.http2.bdp_probe", 0),
    # Bit 0 is "identity". A compressed message ends its call with UNIMPLEMENTED before it is unpacked: a few kilobytes
    # may stand for 5 MiB.
    ("grpc.compression_enabled_algorithms_bitset", 1),
    # Lets client-side balancing see new replicas.
    ("grpc.max_connection_age_ms", 300_000),
    # Both sides may probe an idle connection, so that a stream whose reader is gone ends.
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    # Without this, the core closes the connection at the third ping of a client without open calls.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.ping_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
)
# Concurrent calls of one connection from outside. Services have no such limit, because the streams of all tenants share
# their connections.
_MAX_CALLS_PER_CONNECTION = 4_096
# Seconds beyond the longest call until a connection that takes no new calls is closed.
_AGE_GRACE_SECONDS = 30.0


def server_options(settings: ProcessSettings, *, connections: int, is_edge: bool) -> Sequence[tuple[str, int]]:
    """Return the options of a server with at most this many connections; the core closes further ones."""
    max_call_seconds = max(settings.max_stream_seconds, MAX_DEADLINE_SECONDS) + _AGE_GRACE_SECONDS
    options = (
        *_OPTIONS,
        # When on by mistake, a second process could bind the same port and get half of the calls.
        ("grpc.so_reuseport", int(is_edge and settings.share_gateway_ports)),
        ("grpc.max_allowed_incoming_connections", connections),
        ("grpc.server_handshake_timeout_ms", _milliseconds(settings.handshake_seconds)),
        ("grpc.max_connection_idle_ms", _milliseconds(settings.idle_seconds)),
        ("grpc.max_connection_age_grace_ms", _milliseconds(max_call_seconds)),
    )
    return (*options, ("grpc.max_concurrent_streams", _MAX_CALLS_PER_CONNECTION)) if is_edge else options


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
