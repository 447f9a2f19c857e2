"""Channels for generated stubs that add identity, deadline, request id, retries and typed errors to every call.

The asynchronous and the synchronous channel prepare calls alike (`CallPlan`) and differ in how they wait.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.message import Message
from grpc import aio

from skein_client.connection import ClientClosed, Connection
from skein_client.errors import error_from_rpc
from skein_client.retry import CallAttempts, is_read

_CLOSED = "The client is closed: make the call inside its `with` block."
REQUEST_ID_KEY = "skein-request-id"
OPTIONS = (
    # A response may be larger than the largest request that the cluster accepts.
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    # A connection whose peer is gone is detected within 32 seconds and replaced; a shorter limit would take a busy
    # process for a dead one. The third option counts too: a ping of gRPC's own may replace one of these, and its
    # timeout is a minute.
    ("grpc.keepalive_time_ms", 12_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.ping_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.lb_policy_name", "round_robin"),
    # This package retries: it knows which calls may be repeated.
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
)

Metadata = tuple[tuple[str, str], ...]
# A client sends the newest revision that it has seen, so that its reads never go backwards, whichever server answers.
REVISION_KEY, MIN_REVISION_KEY = "skein-revision", "skein-min-revision"


class RevisionTracker:
    """The newest revision in the answers of one channel. Revisions are texts of one length that sort by age."""

    def __init__(self) -> None:
        self._newest = "0" * 16
        self._lock = threading.Lock()

    @property
    def metadata(self) -> Metadata:
        """Return the metadata of the next call."""
        return ((MIN_REVISION_KEY, self._newest),)

    def observe(self, metadata: Any) -> None:
        """Remember the revision in the metadata of an answer."""
        for key, value in metadata or ():
            if key == REVISION_KEY:
                with self._lock:
                    self._newest = max(self._newest, value)


def channel_options(connection: Connection) -> tuple[tuple[str, int | str], ...]:
    """Return the options of a channel; to this machine it uses no proxy, whatever http_proxy says."""
    return (*OPTIONS, ("grpc.enable_http_proxy", 0)) if connection.is_local else OPTIONS


@dataclass(frozen=True, kw_only=True, slots=True)
class CallPlan:
    """One call, the same in every attempt."""

    request: Message
    metadata: Metadata
    # Identifies the call in the cluster's logs; also the request_id of a write, unless the caller chose either.
    request_id: str
    is_repeatable: bool

    @classmethod
    def prepare(
        cls,
        path: str,
        request: Message,
        connection: Connection,
        metadata: Iterable[tuple[str, str]],
        revisions: RevisionTracker | None = None,
    ) -> CallPlan:
        """Plan a call of the method at `path` ("/skein.memory.v1.MemoryService/CreateMemory")."""
        pairs = tuple(metadata)
        if revisions is not None and MIN_REVISION_KEY not in dict(pairs):
            pairs += revisions.metadata
        caller_request_id = dict(pairs).get(REQUEST_ID_KEY)
        request_id = caller_request_id or str(uuid.uuid4())
        method = path.rpartition("/")[2]
        has_request_id = "request_id" in request.DESCRIPTOR.fields_by_name
        if has_request_id and not getattr(request, "request_id", ""):
            # A copy: the caller may send the same message again, as another write.
            request = _copy_request(request)
            # A caller may use one id in the logs for several calls, and each of them must have its effect.
            write_id = str(uuid.uuid4()) if caller_request_id else request_id
            request.request_id = write_id  # type: ignore[attr-defined]  # The descriptor says that it is there.
        other_metadata = tuple((key, value) for key, value in pairs if key != REQUEST_ID_KEY)
        return cls(
            request=request,
            metadata=(*connection.metadata, *other_metadata, (REQUEST_ID_KEY, request_id)),
            request_id=request_id,
            is_repeatable=has_request_id or is_read(method),
        )


def async_channel(connection: Connection) -> aio.Channel:
    """Open a channel, which connects at the first call. It never sends a key to a TLS endpoint in plain text."""
    if connection.secure:
        credentials = grpc.ssl_channel_credentials(connection.roots)
        return aio.secure_channel(connection.target, credentials, options=channel_options(connection))
    return aio.insecure_channel(connection.target, options=channel_options(connection))


def sync_channel(connection: Connection) -> grpc.Channel:
    """Open a channel as `async_channel` does."""
    if connection.secure:
        credentials = grpc.ssl_channel_credentials(connection.roots)
        return grpc.secure_channel(connection.target, credentials, options=channel_options(connection))
    return grpc.insecure_channel(connection.target, options=channel_options(connection))


class AsyncChannel:
    """The part of a grpc.aio channel that generated stubs use."""

    def __init__(self, channel: aio.Channel, connection: Connection) -> None:
        """Call through `channel`, which the caller closes."""
        self._channel = channel
        self._connection = connection
        self._revisions = RevisionTracker()

    def unary_unary(
        self,
        path: str,
        request_serializer: Callable[[Any], bytes],
        response_deserializer: Callable[[bytes], Any],
        **_: object,
    ) -> AsyncMethod:
        """Return a callable for one method."""
        stub_method = self._channel.unary_unary(path, request_serializer, response_deserializer)
        return AsyncMethod(path, stub_method, self._connection, self._revisions)

    def unary_stream(
        self,
        path: str,
        request_serializer: Callable[[Any], bytes],
        response_deserializer: Callable[[bytes], Any],
        **_: object,
    ) -> Callable[..., AsyncGenerator[Any, None]]:
        """Return a callable for one streaming method: it yields messages or raises a SkeinError.

        It does not retry, because only its caller knows the position. Without `timeout` the cluster ends the stream.
        """
        stub_method: Any = self._channel.unary_stream(path, request_serializer, response_deserializer)
        connection = self._connection

        async def call(
            request: Message, *, timeout: float | None = None, metadata: Iterable[tuple[str, str]] = ()
        ) -> AsyncGenerator[Any, None]:
            plan = CallPlan.prepare(path, request, connection, metadata)
            messages: Any = None
            try:
                messages = stub_method(plan.request, timeout=timeout, metadata=plan.metadata)
                async for message in messages:
                    yield message
            except aio.AioRpcError as error:
                raise error_from_rpc(error, plan.request_id) from None
            except aio.UsageError:
                raise ClientClosed(_CLOSED) from None
            finally:
                if messages is not None:
                    messages.cancel()

        return call


class AsyncMethod:
    """One method: a call returns the response or raises a SkeinError."""

    def __init__(self, path: str, stub_method: Any, connection: Connection, revisions: RevisionTracker) -> None:
        self._path = path
        self._stub_method = stub_method
        self._connection = connection
        self._revisions = revisions

    async def __call__(
        self, request: Message, *, timeout: float | None = None, metadata: Iterable[tuple[str, str]] = ()
    ) -> Any:
        """Call within `timeout` seconds, retries included."""
        connection = self._connection
        plan = CallPlan.prepare(self._path, request, connection, metadata, self._revisions)
        attempts = CallAttempts(
            connection.retries,
            is_repeatable=plan.is_repeatable,
            timeout=connection.timeout if timeout is None else timeout,
            clock=time.monotonic,
            random=random.random,
        )
        while True:
            try:
                call = self._stub_method(plan.request, timeout=attempts.begin(), metadata=plan.metadata)
                response = await call
                self._revisions.observe(await call.trailing_metadata())
            except aio.AioRpcError as error:
                # An error shows a state too, and the next read must not show an older one.
                self._revisions.observe(error.trailing_metadata())
                pause = attempts.pause_after(error_from_rpc(error, plan.request_id))
            except aio.UsageError:
                raise ClientClosed(_CLOSED) from None
            else:
                return response
            await asyncio.sleep(pause)


class SyncChannel:
    """The part of a grpc channel that generated stubs use."""

    def __init__(
        self,
        channel: grpc.Channel,
        connection: Connection,
        *,
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random.random,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Call through `channel`, which the caller closes."""
        self._channel = channel
        self._connection = connection
        self._clock = clock
        self._random = random
        self._sleep = sleep
        self._revisions = RevisionTracker()

    def unary_unary(
        self,
        path: str,
        request_serializer: Callable[[Any], bytes],
        response_deserializer: Callable[[bytes], Any],
        **_: object,
    ) -> Callable[..., Any]:
        """Return a callable for one method: it returns the response or raises a SkeinError."""
        stub_method: Any = self._channel.unary_unary(path, request_serializer, response_deserializer)
        connection, revisions = self._connection, self._revisions

        def call(request: Message, *, timeout: float | None = None, metadata: Iterable[tuple[str, str]] = ()) -> Any:
            plan = CallPlan.prepare(path, request, connection, metadata, revisions)
            attempts = CallAttempts(
                connection.retries,
                is_repeatable=plan.is_repeatable,
                timeout=connection.timeout if timeout is None else timeout,
                clock=self._clock,
                random=self._random,
            )
            while True:
                try:
                    response, rpc = stub_method.with_call(
                        plan.request, timeout=attempts.begin(), metadata=plan.metadata
                    )
                    revisions.observe(rpc.trailing_metadata())
                except grpc.RpcError as error:
                    revisions.observe(error.trailing_metadata())
                    pause = attempts.pause_after(error_from_rpc(error, plan.request_id))
                except ValueError as error:
                    raise _closed_error(error) from None
                else:
                    return response
                self._sleep(pause)

        return call

    def unary_stream(
        self,
        path: str,
        request_serializer: Callable[[Any], bytes],
        response_deserializer: Callable[[bytes], Any],
        **_: object,
    ) -> Callable[..., Generator[Any, None, None]]:
        """Return a callable for one streaming method, as AsyncChannel does; it blocks for each message."""
        stub_method: Any = self._channel.unary_stream(path, request_serializer, response_deserializer)
        connection = self._connection

        def call(
            request: Message, *, timeout: float | None = None, metadata: Iterable[tuple[str, str]] = ()
        ) -> Generator[Any, None, None]:
            plan = CallPlan.prepare(path, request, connection, metadata)
            messages: Any = None
            try:
                messages = stub_method(plan.request, timeout=timeout, metadata=plan.metadata)
                yield from messages
            except grpc.RpcError as error:
                raise error_from_rpc(error, plan.request_id) from None
            except ValueError as error:
                raise _closed_error(error) from None
            finally:
                if messages is not None:
                    messages.cancel()

        return call


def _closed_error(error: ValueError) -> Exception:
    """Return ClientClosed for a closed channel, which gRPC reports as a plain ValueError; else the error itself."""
    return ClientClosed(_CLOSED) if "closed channel" in str(error) else error


def _copy_request(request: Message) -> Message:
    result = type(request)()
    result.CopyFrom(request)
    return result
