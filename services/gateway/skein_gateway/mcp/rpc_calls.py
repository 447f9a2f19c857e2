"""One HTTP request of an MCP client, and the RPCs that it makes, through the interceptors of the other ports."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message
from google.rpc.status_pb2 import Status
from mcp.server.context import ServerRequestContext

from skein_gateway.identity import challenges
from skein_gateway.public_methods import PUBLIC_METHODS
from skein_kit import errors
from skein_kit.admission.body_memory import Reservation
from skein_kit.admission.processor_time import run_in_thread
from skein_kit.calls.call import Call, CallAborted
from skein_kit.errors import status_code, status_reason
from skein_kit.host.process import ServicerRegistry
from skein_kit.identity.identity_token import Caller
from skein_kit.rpc.interceptors import Admit
from skein_kit.rpc.request_body import MAX_MESSAGE_BYTES, CompleteBody
from skein_kit.rpc.streaming import run_piped

Converted = TypeVar("Converted")
# ASGI scope key of the McpRequest.
SCOPE_KEY = "skein.mcp"
# Key of the W3C trace context in a message's _meta, and in the metadata of calls.
TRACEPARENT = "traceparent"
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
# Resource of access tokens for MCP, below the issuer (RFC 8707, RFC 9728).
MCP_PATH = "/mcp"
# JSON of this size takes milliseconds, so a thread converts it.
LARGE_BYTES = 64 * 1024


@dataclass(kw_only=True, slots=True)
class McpRequest:
    """A request with its caller, and how its HTTP response differs from the SDK's."""

    # The call as it arrived: address, request id and credential.
    call: Call
    caller: Caller
    issuer: str
    toolsets: frozenset[str]
    # The body is so large that a thread must parse it.
    is_large: bool = False
    # The span of the client's message (W3C), from its _meta: a client's HTTP library knows no message.
    traceparent: str = ""
    # Arguments of a tool call where the SDK's parsing would lose digits.
    arguments: dict[str, Any] | None = None
    # The body's bytes in the memory budget.
    reservation: Reservation
    # An RPC of this request was counted by the rate limit.
    is_counted: bool = False
    # HTTP status in place of 200, and further headers.
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def call_for(self, path: str) -> Call:
        """Return a call of an RPC with this request's credential, request id and origin."""
        http_call = self.call
        metadata = {**http_call.metadata, TRACEPARENT: self.traceparent} if self.traceparent else http_call.metadata
        call = Call(path=path, metadata=metadata, deadline=None, peer=http_call.peer_address)
        call.request_id, call.audience = http_call.request_id, http_call.audience
        call.client_address, call.user_agent = http_call.client_address, http_call.user_agent
        return call

    async def run_off_loop(self, convert: Callable[[Any], Converted], value: Any) -> Converted:
        """Convert a value, in a thread when the body is large."""
        return await run_in_thread(convert, value) if self.is_large else convert(value)

    def set_http_error(self, status: Status, path: str) -> None:
        """Set the HTTP status and challenge for an invalid credential, or a scope that an application lacks."""
        code = status_code(status)
        if code is grpc.StatusCode.UNAUTHENTICATED:
            self.status = 401
        elif code is grpc.StatusCode.PERMISSION_DENIED and status_reason(status) == "PERMISSION_MISSING":
            # Only applications can request more scope. Other callers get the error as a tool result.
            if not self.caller.client_id:
                return
            self.status = 403
        else:
            return
        self.headers |= challenges.error_headers(status, path, self.issuer, has_credential=True, resource=MCP_PATH)


class RpcCaller:
    """Calls public RPCs as the caller of a request."""

    def __init__(self, servicers: ServicerRegistry) -> None:
        """Call the handlers of the gRPC port."""
        self._servicers = servicers

    async def record_refusal(
        self, mcp_request: McpRequest, path: str, error: errors.RpcError, request: Message
    ) -> None:
        """Record a call that was refused before it could be made, with what its request names."""
        if (refusals := self._servicers.steps.refusals) is not None:
            call = mcp_request.call_for(path)
            call.caller, call.identity_token = mcp_request.caller, mcp_request.call.identity_token
            await refusals.record(call, error, request)

    async def call(self, mcp_request: McpRequest, path: str, request: Message) -> Message:
        """Call an RPC. Raises CallAborted, and MessageTooLarge for a response beyond MAX_MESSAGE_BYTES."""
        return await self.call_and_convert(mcp_request, path, request, lambda response: response)

    async def call_and_convert(
        self,
        mcp_request: McpRequest,
        path: str,
        request: Message,
        convert: Callable[[Message], Converted],
        *,
        seconds: float | None = None,
    ) -> Converted:
        """Call an RPC and convert its response as part of the call, in a thread if large. Raises as `call` does.

        `seconds` is the time limit of the call; None means the default one.
        """
        entry = self._servicers.handlers.get(path)
        if entry is None:
            raise CallAborted(errors.ServiceUnavailable().status())
        method, handler = entry
        mcp_request.is_counted = True
        kind = PUBLIC_METHODS[path].response

        async def encode(response: Any) -> Converted:
            size = len(response) if isinstance(response, bytes) else response.ByteSize()
            if size > MAX_MESSAGE_BYTES:
                raise errors.MessageTooLarge(limit=MAX_MESSAGE_BYTES, size=size)
            message = kind.FromString(response) if isinstance(response, bytes) else response
            return convert(message) if size < LARGE_BYTES else await run_in_thread(convert, message)

        call = mcp_request.call_for(path)
        call.encode = encode
        if seconds is not None:
            call.deadline = asyncio.get_running_loop().time() + seconds
        payload = request.SerializeToString() if method.deserializer is None else request
        try:
            body = CompleteBody(payload, mcp_request.reservation) if isinstance(payload, bytes) else payload
            converted: Converted = await handler(body, call)
        except CallAborted as aborted:
            mcp_request.set_http_error(aborted.status, path)
            raise
        return converted

    async def stream(self, mcp_request: McpRequest, path: str, request: Message) -> AsyncGenerator[Message, None]:
        """Call a streaming RPC and yield its messages. Raises CallAborted."""
        entry = self._servicers.handlers.get(path)
        if entry is None:
            raise CallAborted(errors.ServiceUnavailable().status())
        method, handler = entry
        mcp_request.is_counted = True
        kind = PUBLIC_METHODS[path].response
        payload = request.SerializeToString() if method.deserializer is None else request
        body = CompleteBody(payload, mcp_request.reservation) if isinstance(payload, bytes) else payload
        try:
            async with aclosing(run_piped(handler, body, mcp_request.call_for(path))) as messages:
                async for message in messages:
                    yield kind.FromString(message) if isinstance(message, bytes) else message
        except CallAborted as aborted:
            mcp_request.set_http_error(aborted.status, path)
            raise

    @property
    def admit(self) -> Admit | None:
        """Return the rate limit; None without one."""
        return self._servicers.admit


def mcp_request_of(context: ServerRequestContext[Any, Any]) -> McpRequest:
    """Return the request that a client's message came in."""
    scope: Mapping[str, Any] = context.request.scope  # type: ignore[union-attr]  # Over HTTP there is always one.
    mcp_request: McpRequest = scope[SCOPE_KEY]
    traceparent = (context.meta or {}).get(TRACEPARENT)
    if isinstance(traceparent, str) and _TRACEPARENT.fullmatch(traceparent):
        mcp_request.traceparent = traceparent
    return mcp_request
