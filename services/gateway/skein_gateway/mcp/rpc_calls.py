"""One HTTP request of a client of MCP, and the RPCs called for it: behind the interceptors of every other door."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import grpc

from skein_gateway.identity import challenges
from skein_gateway.public_methods.forwarder import PUBLIC_METHODS
from skein_kit import errors
from skein_kit.calls.call import Call, CallAborted
from skein_kit.errors import reason_of, status_code
from skein_kit.rpc.request_body import MAX_MESSAGE_BYTES, CompleteBody

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from google.protobuf.message import Message
    from google.rpc.status_pb2 import Status
    from mcp.server.context import ServerRequestContext

    from skein_kit.admission.body_memory import Reservation
    from skein_kit.host.process import ServicerRegistry
    from skein_kit.identity.identity_token import Caller
    from skein_kit.rpc.interceptors import Admit

Made = TypeVar("Made")
# Where the door leaves the exchange for the handlers.
SCOPE_KEY = "skein.mcp"
# The resource below the issuer that access tokens for MCP are made for (RFC 8707, RFC 9728).
MCP_PATH = "/mcp"
# Reading or writing JSON of this size would hold up every other call for milliseconds.
LARGE_BYTES = 64 * 1024


@dataclass(kw_only=True, slots=True)
class McpRequest:
    """What came in, who it is from, and how its answer differs from what the SDK makes of it."""

    # As it entered: its address, its request id, its credential.
    call: Call
    caller: Caller
    issuer: str
    toolsets: frozenset[str]
    # Its body is so large that reading it twice would hold up every other call.
    large: bool = False
    # What a tool is called with, where the SDK's reading loses digits.
    arguments: dict[str, Any] | None = None
    # The bytes of the body in the memory budget.
    reservation: Reservation
    # An RPC was called for it, and counted as a call of its caller's.
    paid: bool = False
    # The HTTP status instead of 200, and headers to go with it.
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def call_of(self, path: str) -> Call:
        """Return a call of an RPC with the same credential, request id and origin."""
        entered = self.call
        call = Call(path=path, metadata=entered.metadata, deadline=None, peer=entered.peer_address)
        call.request_id, call.audience = entered.request_id, entered.audience
        call.client_address, call.user_agent = entered.client_address, entered.user_agent
        return call

    async def run_off_loop(self, convert: Callable[[Any], Made], value: Any) -> Made:
        """Convert a value of the exchange, in a thread when the body is large."""
        return await asyncio.to_thread(convert, value) if self.large else convert(value)

    def refused(self, status: Status, path: str) -> None:
        """Let HTTP say what only HTTP can: that a credential is no longer good, or an application needs more scope."""
        code = status_code(status)
        if code is grpc.StatusCode.UNAUTHENTICATED:
            self.status = 401
        elif code is grpc.StatusCode.PERMISSION_DENIED and reason_of(status) == "PERMISSION_MISSING":
            # An application can ask its person for more. Nobody can be asked for more of a key: its model is told.
            if not self.caller.client_id:
                return
            self.status = 403
        else:
            return
        self.headers |= challenges.error_headers(status, path, self.issuer, has_credential=True, resource=MCP_PATH)


class RpcCaller:
    """The public RPCs, as the caller of an exchange."""

    def __init__(self, servicers: ServicerRegistry) -> None:
        """Call what the gateway's other doors call."""
        self._servicers = servicers

    async def call(self, exchange: McpRequest, path: str, request: Message) -> Message:
        """Return the answer of an RPC, which is one that a model can be told. Raises Ended and Refusal."""
        found = self._servicers.answers.get(path)
        if found is None:
            raise CallAborted(errors.ServiceUnavailable().status())
        method, handler = found
        exchange.paid = True
        sent = request.SerializeToString() if method.deserializer is None else request
        try:
            body = CompleteBody(sent, exchange.reservation) if isinstance(sent, bytes) else sent
            answer: Any = await handler(body, exchange.call_of(path))
        except CallAborted as ended:
            exchange.refused(ended.status, path)
            raise
        size = len(answer) if isinstance(answer, bytes) else answer.ByteSize()
        if size > MAX_MESSAGE_BYTES:
            raise errors.MessageTooLarge(limit=MAX_MESSAGE_BYTES, size=size)
        kind = PUBLIC_METHODS[path].response
        return kind.FromString(answer) if isinstance(answer, bytes) else answer

    @property
    def admit(self) -> Admit | None:
        """Return what refuses calls that are too many."""
        return self._servicers.admit


def exchange_of(context: ServerRequestContext[Any, Any]) -> McpRequest:
    """Return the exchange that a message of a client came in."""
    scope: Mapping[str, Any] = context.request.scope  # type: ignore[union-attr]  # Over HTTP there is always one.
    found: McpRequest = scope[SCOPE_KEY]
    return found
