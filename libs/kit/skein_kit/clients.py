"""Calls to other services: a socket, or a function call when the service runs in this process.

Either way the caller's signed identity, request id, trace and remaining time go along, and the same interceptors run on
the other side.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import grpc
from grpc import aio
from opentelemetry import trace as otel
from opentelemetry.semconv._incubating.attributes import rpc_attributes
from opentelemetry.semconv.attributes import error_attributes, server_attributes
from opentelemetry.trace import SpanKind

from skein_kit import errors
from skein_kit.call import ADDRESS_KEY, AGENT_KEY, AUTHORIZATION_KEY, REQUEST_ID_KEY, Call, Ended, current, trailing
from skein_kit.streams import piped
from skein_kit.telemetry import TRACING, inject

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping
    from pathlib import Path

    from skein_kit.interceptors import Handler, Method

# Time for a call made in the background without a limit of its own.
BACKGROUND_SECONDS = 30.0
OPTIONS = (
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.max_send_message_length", 64 * 1024 * 1024),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.enable_retries", 0),
    ("grpc.lb_policy_name", "round_robin"),
    # The proxy that http_proxy names is the way out of the network; services call one another inside of it.
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
)


_SECURE = "https://"
LocalMethods = dict[str, "tuple[Method, Handler]"]


class Channel:
    """What a generated stub needs of a channel, over a socket or in process, to send one message to a method."""

    def __init__(self, target: Callable[[], str], local: LocalMethods, *, ca_file: Path | None = None) -> None:
        """Reach `target()`, asked at the first use, for every method that is not in `local`.

        It is "host:port", or "https://host:port" for TLS; `ca_file` then says whose certificates are good.
        """
        self._target = target
        self._local = local
        self._ca_file = ca_file
        self._remote: aio.Channel | None = None

    def unary_unary(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes] | None = None,
        response_deserializer: Callable[[bytes], Any] | None = None,
        **_: object,
    ) -> Outgoing:
        """Return a callable for one method."""
        return Outgoing(self, method, request_serializer, response_deserializer)

    def unary_stream(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes] | None = None,
        response_deserializer: Callable[[bytes], Any] | None = None,
        **_: object,
    ) -> OutgoingStream:
        """Return a callable for one method that answers with a stream."""
        return OutgoingStream(self, method, request_serializer, response_deserializer)

    @property
    def target(self) -> str:
        """Return "host:port" of the socket."""
        return self._target().removeprefix(_SECURE)

    @property
    def remote(self) -> aio.Channel:
        """Return the socket's channel, opened at the first use."""
        if self._remote is None:
            if self._target().startswith(_SECURE):
                roots = None if self._ca_file is None else self._ca_file.read_bytes()
                credentials = grpc.ssl_channel_credentials(roots)
                self._remote = aio.secure_channel(self.target, credentials, options=OPTIONS)
            else:
                self._remote = aio.insecure_channel(self.target, options=OPTIONS)
        return self._remote

    def local(self, path: str) -> tuple[Method, Handler] | None:
        """Return the method if its service runs here."""
        return self._local.get(path)

    async def close(self) -> None:
        """Close the socket, if it was opened."""
        if self._remote is not None:
            await self._remote.close()


class Outgoing:
    """One method of another service. Calling it returns the response or raises grpc's AioRpcError."""

    def __init__(
        self,
        channel: Channel,
        path: str,
        serializer: Callable[[Any], bytes] | None,
        deserializer: Callable[[bytes], Any] | None,
    ) -> None:
        """Without a serializer requests are bytes, without a deserializer responses are."""
        self._channel = channel
        self._path = path
        self._serializer = serializer
        self._deserializer = deserializer
        self._remote: Any = None

    async def __call__(
        self,
        request: Any,
        *,
        timeout: float | None = None,
        metadata: Mapping[str, str] | None = None,
        **_: object,
    ) -> Any:
        """Call within the time left of the call being answered, or `timeout` if that is shorter."""
        call = current()
        seconds = _limit(call, timeout)
        headers = _headers(call, metadata)
        if not TRACING.on:
            return await self._send(request, headers, seconds)
        with TRACING.tracer.start_as_current_span(
            self._path[1:],
            kind=SpanKind.CLIENT,
            attributes=self._attributes(),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            inject(headers)
            try:
                response = await self._send(request, headers, seconds)
            except BaseException as error:
                code = error.code() if isinstance(error, aio.AioRpcError) else grpc.StatusCode.CANCELLED
                span.set_attribute(rpc_attributes.RPC_RESPONSE_STATUS_CODE, code.name)
                span.set_attribute(error_attributes.ERROR_TYPE, code.name)
                span.set_status(otel.StatusCode.ERROR)
                raise
            span.set_attribute(rpc_attributes.RPC_RESPONSE_STATUS_CODE, "OK")
            return response

    def _attributes(self) -> dict[str, str | int]:
        attributes: dict[str, str | int] = {
            rpc_attributes.RPC_SYSTEM_NAME: "grpc",
            rpc_attributes.RPC_METHOD: self._path[1:],
        }
        if self._channel.local(self._path) is None:
            host, _, port = self._channel.target.rpartition(":")
            attributes[server_attributes.SERVER_ADDRESS] = host
            if port.isdecimal():
                attributes[server_attributes.SERVER_PORT] = int(port)
        return attributes

    async def _send(self, request: Any, headers: dict[str, str], seconds: float) -> Any:
        local = self._channel.local(self._path)
        if local is None:
            if self._remote is None:
                self._remote = self._channel.remote.unary_unary(
                    self._path, request_serializer=self._serializer, response_deserializer=self._deserializer
                )
            return await self._remote(request, timeout=seconds, metadata=tuple(headers.items()))
        method, handler = local
        if self._serializer is not None and method.deserializer is None:
            request = self._serializer(request)
        deadline = asyncio.get_running_loop().time() + seconds
        call = Call(path=self._path, metadata=headers, deadline=deadline, peer="in-process")
        try:
            response = await handler(request, call)
        except Ended as ended:
            raise _raised(ended) from None
        if self._deserializer is None and method.serializer is not None:
            return method.serializer(response)
        if self._deserializer is not None and method.serializer is None:
            return self._deserializer(response)
        return response


class OutgoingStream:
    """One method of another service that answers with a stream, cancelled there when it is closed here."""

    def __init__(
        self,
        channel: Channel,
        path: str,
        serializer: Callable[[Any], bytes] | None,
        deserializer: Callable[[bytes], Any] | None,
    ) -> None:
        """Without a serializer requests are bytes, without a deserializer messages are."""
        self._channel = channel
        self._path = path
        self._serializer = serializer
        self._deserializer = deserializer
        self._remote: Any = None

    async def __call__(
        self,
        request: Any,
        *,
        timeout: float | None = None,
        metadata: Mapping[str, str] | None = None,
        **_: object,
    ) -> AsyncGenerator[Any, None]:
        """Yield the messages, or raise grpc's AioRpcError; the deadline is that of the call being answered, if any."""
        call = current()
        own = None if call is None else call.deadline
        at = asyncio.get_running_loop().time()
        ends = [time for time in (own, None if timeout is None else at + timeout) if time is not None]
        headers = _headers(call, metadata)
        if TRACING.on:
            inject(headers)
        async with aclosing(self._sent(request, headers, min(ends, default=None))) as sent:
            async for message in sent:
                yield message

    async def _sent(self, request: Any, headers: dict[str, str], deadline: float | None) -> AsyncGenerator[Any, None]:
        local = self._channel.local(self._path)
        if local is None:
            if self._remote is None:
                self._remote = self._channel.remote.unary_stream(
                    self._path, request_serializer=self._serializer, response_deserializer=self._deserializer
                )
            seconds = None if deadline is None else deadline - asyncio.get_running_loop().time()
            remote = self._remote(request, timeout=seconds, metadata=tuple(headers.items()))
            try:
                async for message in remote:
                    yield message
            finally:
                remote.cancel()
            return
        method, handler = local
        if self._serializer is not None and method.deserializer is None:
            request = self._serializer(request)
        call = Call(path=self._path, metadata=headers, deadline=deadline, peer="in-process")
        try:
            async with aclosing(piped(handler, request, call)) as messages:
                async for message in messages:
                    if self._deserializer is None and method.serializer is not None:
                        yield method.serializer(message)
                    elif self._deserializer is not None and method.serializer is None:
                        yield self._deserializer(message)
                    else:
                        yield message
        except Ended as ended:
            raise _raised(ended) from None


def _headers(call: Call | None, metadata: Mapping[str, str] | None) -> dict[str, str]:
    """Return what goes along with a call that is made on behalf of another."""
    headers = dict(metadata or {})
    if call is not None:
        headers.setdefault(REQUEST_ID_KEY, call.request_id)
        if call.client_address:
            headers.setdefault(ADDRESS_KEY, call.client_address)
        if call.user_agent:
            headers.setdefault(AGENT_KEY, call.user_agent)
        if call.token:
            headers.setdefault(AUTHORIZATION_KEY, f"Bearer {call.token}")
    return headers


def _limit(call: Call | None, timeout: float | None) -> float:
    left = call.remaining() if call is not None else BACKGROUND_SECONDS
    if timeout is None:
        return BACKGROUND_SECONDS if left is None else left
    return timeout if left is None else min(left, timeout)


def _raised(ended: Ended) -> aio.AioRpcError:
    return aio.AioRpcError(
        errors.code_of(ended.status),
        aio.Metadata(),
        aio.Metadata(*trailing(ended.status)),
        details=ended.status.message,
    )
