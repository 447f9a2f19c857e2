"""Calls to other services, over a socket, or as function calls within this process.

Both carry the caller's identity token, request id, trace and deadline, and pass the same interceptors.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import grpc
from grpc import aio
from opentelemetry import trace as otel
from opentelemetry.semconv._incubating.attributes import rpc_attributes
from opentelemetry.semconv.attributes import error_attributes, server_attributes
from opentelemetry.trace import SpanKind

from skein_kit import errors
from skein_kit.admission.processor_time import measure_part
from skein_kit.calls.call import (
    ADDRESS_KEY,
    AUTHORIZATION_KEY,
    CLAIMED_AGENT_KEY,
    CLAIMED_SESSION_KEY,
    HOPS_KEY,
    IN_PROCESS,
    REQUEST_ID_KEY,
    SPACE_KEY,
    USER_AGENT_KEY,
    Call,
    CallAborted,
    current_call,
    status_metadata,
)
from skein_kit.calls.database_revision import MIN_REVISION_KEY, REVISION_KEY, format_revision
from skein_kit.identity.service_identity import certificate_name
from skein_kit.rpc.interceptors import Handler, Method
from skein_kit.rpc.streaming import run_piped
from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import TRACING, inject
from skein_kit.tls.mutual_tls import MutualTlsFiles, TlsMaterial

# The deadline of a background call without a timeout.
BACKGROUND_SECONDS = 30.0
OPTIONS = (
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.max_send_message_length", 64 * 1024 * 1024),
    # A connection whose peer is gone is detected within 32 seconds and replaced; a shorter limit would take a busy
    # process for a dead one. The third option counts too: a ping of gRPC's own may replace one of these, and its
    # timeout is a minute.
    ("grpc.keepalive_time_ms", 12_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.ping_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.enable_retries", 0),
    ("grpc.lb_policy_name", "round_robin"),
    # The proxy of http_proxy leads out of the network; services call each other inside it.
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
)
# Calls go to replicas that report that they serve, so a draining one loses no call.
_BY_HEALTH = ("grpc.service_config", '{"healthCheckConfig": {"serviceName": ""}}')


_SECURE = "https://"
# The option with the name that the peer's certificate must have, whatever the address.
_EXPECTED_NAME = "grpc.ssl_target_name_override"
# Streams may continue for this long after a change of certificates.
_CLOSE_GRACE_SECONDS = 3600.0
_LOG_INTERVAL_SECONDS = 30.0
_MAX_LOGGED_CHARACTERS = 500
InProcessHandlers = dict[str, "tuple[Method, Handler]"]

log = logs.get("skein")


class ServiceChannel:
    """The part of a channel that generated stubs use: methods that take one message, over a socket or in process."""

    def __init__(
        self,
        target: Callable[[], str],
        local: InProcessHandlers,
        *,
        ca_file: Path | None = None,
        by_health: bool = True,
        mutual: MutualTlsFiles | None = None,
        service: str = "",
        calling_service: str = "",
    ) -> None:
        """Call the handlers in `local`, and every other method at `target()`, which is read at the first use.

        The target is "host:port", or "https://host:port" for TLS trusting `ca_file`; with `mutual` it is
        always mutual TLS, and the certificate of the target must name `service`. Without `by_health` calls also go to
        a service that reports that it does not serve. Handlers in `local` see a call of `calling_service`.
        """
        self._target = target
        self._in_process = local
        self._ca_file = ca_file
        self._options = (*OPTIONS, _BY_HEALTH) if by_health else OPTIONS
        self._mutual = mutual
        self._service = service
        self.calling_services = frozenset({calling_service} if calling_service else ())
        self._remote: aio.Channel | None = None
        # The certificate of the open channel.
        self._material: TlsMaterial | None = None
        self._closing_tasks: set[asyncio.Task[None]] = set()
        self._last_logged_at = -math.inf

    def unary_unary(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes] | None = None,
        response_deserializer: Callable[[bytes], Any] | None = None,
        **_: object,
    ) -> UnaryCallable:
        """Return a callable for one method."""
        return UnaryCallable(self, method, request_serializer, response_deserializer)

    def unary_stream(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes] | None = None,
        response_deserializer: Callable[[bytes], Any] | None = None,
        **_: object,
    ) -> StreamCallable:
        """Return a callable for one streaming method."""
        return StreamCallable(self, method, request_serializer, response_deserializer)

    @property
    def target(self) -> str:
        """The "host:port" of the socket."""
        return self._target().removeprefix(_SECURE)

    @property
    def remote(self) -> aio.Channel:
        """The socket's channel: opened at the first use, and again when the certificates have changed."""
        material = None if self._mutual is None else self._mutual.material
        if self._remote is not None and material is self._material:
            return self._remote
        if self._remote is not None:
            # Calls in flight finish over the old connections.
            task = asyncio.get_running_loop().create_task(_close_after_grace(self._remote))
            self._closing_tasks.add(task)
            task.add_done_callback(self._closing_tasks.discard)
        self._material = material
        if material is not None:
            credentials = grpc.ssl_channel_credentials(material.authority, material.key, material.certificate)
            options = (*self._options, (_EXPECTED_NAME, certificate_name(self._service)))
            self._remote = aio.secure_channel(self.target, credentials, options=options)
        elif self._target().startswith(_SECURE):
            roots = None if self._ca_file is None else self._ca_file.read_bytes()
            self._remote = aio.secure_channel(self.target, grpc.ssl_channel_credentials(roots), options=self._options)
        else:
            self._remote = aio.insecure_channel(self.target, options=self._options)
        return self._remote

    def log_unreachable(self, error: aio.AioRpcError) -> None:
        """Log why a TLS peer is unreachable, at most every 30 seconds: grpc reports failed handshakes nowhere else."""
        if self._mutual is None or error.code() is not grpc.StatusCode.UNAVAILABLE:
            return
        now = time.monotonic()
        if now - self._last_logged_at >= _LOG_INTERVAL_SECONDS:
            self._last_logged_at = now
            log.warning("mtls_peer_unreachable", peer=self.target, why=(error.details() or "")[:_MAX_LOGGED_CHARACTERS])

    def in_process_handler(self, path: str) -> tuple[Method, Handler] | None:
        """Return the method and its handler if the service runs in this process."""
        return self._in_process.get(path)

    async def close(self) -> None:
        """Close the connections."""
        for task in self._closing_tasks:
            task.cancel()
        await asyncio.gather(*self._closing_tasks, return_exceptions=True)
        if self._remote is not None:
            await self._remote.close()


async def _close_after_grace(channel: aio.Channel) -> None:
    try:
        await channel.close(_CLOSE_GRACE_SECONDS)
    finally:
        # A cancelled close would leave the connections open.
        await channel.close()


class UnaryCallable:
    """One method of another service. A call returns the response or raises grpc's AioRpcError."""

    def __init__(
        self,
        channel: ServiceChannel,
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
        # The channel of `_remote`.
        self._remote_channel: aio.Channel | None = None

    async def __call__(
        self,
        request: Any,
        *,
        timeout: float | None = None,
        metadata: Mapping[str, str] | None = None,
        **_: object,
    ) -> Any:
        """Call with the deadline of the current call, or within `timeout` seconds if that is sooner."""
        call = current_call()
        seconds = _timeout(call, timeout)
        headers = _outgoing_metadata(call, metadata)
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
        if self._channel.in_process_handler(self._path) is None:
            host, _, port = self._channel.target.rpartition(":")
            attributes[server_attributes.SERVER_ADDRESS] = host
            if port.isdecimal():
                attributes[server_attributes.SERVER_PORT] = int(port)
        return attributes

    async def _send(self, request: Any, headers: dict[str, str], seconds: float) -> Any:
        local = self._channel.in_process_handler(self._path)
        if local is None:
            return await self._send_over_socket(request, headers, seconds)
        method, handler = local
        if self._serializer is not None and method.deserializer is None:
            request = self._serializer(request)
        outer_call = current_call()
        deadline = asyncio.get_running_loop().time() + seconds
        call = Call(path=self._path, metadata=headers, deadline=deadline, peer=IN_PROCESS)
        call.peer_services = self._channel.calling_services
        try:
            response = await measure_part(handler(request, call))
        except CallAborted as aborted:
            raise _rpc_error(aborted) from None
        finally:
            if outer_call is not None:
                outer_call.observe_revision(call.revision)
        if self._deserializer is None and method.serializer is not None:
            return method.serializer(response)
        if self._deserializer is not None and method.serializer is None:
            return self._deserializer(response)
        return response

    async def _send_over_socket(self, request: Any, headers: dict[str, str], seconds: float) -> Any:
        channel = self._channel.remote
        if self._remote_channel is not channel:
            self._remote_channel = channel
            self._remote = channel.unary_unary(
                self._path, request_serializer=self._serializer, response_deserializer=self._deserializer
            )
        outer_call = current_call()
        remote_call = self._remote(request, timeout=seconds, metadata=tuple(headers.items()))
        try:
            response = await remote_call
        except aio.AioRpcError as error:
            self._channel.log_unreachable(error)
            if outer_call is not None:
                outer_call.observe_revision(_revision(error.trailing_metadata()))
            raise
        if outer_call is not None:
            outer_call.observe_revision(_revision(await remote_call.trailing_metadata()))
        return response


class StreamCallable:
    """One streaming method of another service; closing the iterator cancels the call."""

    def __init__(
        self,
        channel: ServiceChannel,
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
        # The channel of `_remote`.
        self._remote_channel: aio.Channel | None = None

    async def __call__(
        self,
        request: Any,
        *,
        timeout: float | None = None,
        metadata: Mapping[str, str] | None = None,
        **_: object,
    ) -> AsyncGenerator[Any, None]:
        """Yield the messages or raise grpc's AioRpcError; the deadline is that of the current call, if any."""
        call = current_call()
        call_deadline = None if call is None else call.deadline
        at = asyncio.get_running_loop().time()
        deadlines = [time for time in (call_deadline, None if timeout is None else at + timeout) if time is not None]
        headers = _outgoing_metadata(call, metadata)
        if TRACING.on:
            inject(headers)
        async with aclosing(self._send(request, headers, min(deadlines, default=None))) as messages:
            async for message in messages:
                yield message

    async def _send(self, request: Any, headers: dict[str, str], deadline: float | None) -> AsyncGenerator[Any, None]:
        local = self._channel.in_process_handler(self._path)
        if local is None:
            channel = self._channel.remote
            if self._remote_channel is not channel:
                self._remote_channel = channel
                self._remote = channel.unary_stream(
                    self._path, request_serializer=self._serializer, response_deserializer=self._deserializer
                )
            seconds = None if deadline is None else deadline - asyncio.get_running_loop().time()
            remote = self._remote(request, timeout=seconds, metadata=tuple(headers.items()))
            try:
                async for message in remote:
                    yield message
            except aio.AioRpcError as error:
                self._channel.log_unreachable(error)
                raise
            finally:
                remote.cancel()
            return
        method, handler = local
        if self._serializer is not None and method.deserializer is None:
            request = self._serializer(request)
        call = Call(path=self._path, metadata=headers, deadline=deadline, peer=IN_PROCESS)
        call.peer_services = self._channel.calling_services
        try:
            async with aclosing(run_piped(handler, request, call)) as messages:
                async for message in messages:
                    if self._deserializer is None and method.serializer is not None:
                        yield method.serializer(message)
                    elif self._deserializer is not None and method.serializer is None:
                        yield self._deserializer(message)
                    else:
                        yield message
        except CallAborted as aborted:
            raise _rpc_error(aborted) from None


def _revision(metadata: Any) -> int:
    """Return the revision in trailing metadata; 0 without one."""
    return next((int(value, 16) for key, value in metadata or () if key == REVISION_KEY), 0)


def _outgoing_metadata(call: Call | None, metadata: Mapping[str, str] | None) -> dict[str, str]:
    """Return the metadata of a call that is made on behalf of another."""
    headers = dict(metadata or {})
    if call is not None:
        headers.setdefault(REQUEST_ID_KEY, call.request_id)
        if call.is_admitted or call.hops:
            headers[HOPS_KEY] = str(call.hops + 1)
        if call.client_address:
            headers.setdefault(ADDRESS_KEY, call.client_address)
        if call.user_agent:
            headers.setdefault(USER_AGENT_KEY, call.user_agent)
        if call.claimed_agent_id:
            headers.setdefault(CLAIMED_AGENT_KEY, call.claimed_agent_id)
        if call.claimed_session_id:
            headers.setdefault(CLAIMED_SESSION_KEY, call.claimed_session_id)
        if call.named_space:
            headers.setdefault(SPACE_KEY, call.named_space)
        if call.min_revision is not None:
            headers[MIN_REVISION_KEY] = format_revision(max(call.min_revision, call.revision))
        if call.identity_token:
            headers.setdefault(AUTHORIZATION_KEY, f"Bearer {call.identity_token}")
    return headers


def _timeout(call: Call | None, timeout: float | None) -> float:
    remaining = call.remaining_seconds() if call is not None else BACKGROUND_SECONDS
    if timeout is None:
        return BACKGROUND_SECONDS if remaining is None else remaining
    return timeout if remaining is None else min(remaining, timeout)


def _rpc_error(aborted: CallAborted) -> aio.AioRpcError:
    return aio.AioRpcError(
        errors.status_code(aborted.status),
        aio.Metadata(),
        aio.Metadata(*status_metadata(aborted.status)),
        details=aborted.status.message,
    )
