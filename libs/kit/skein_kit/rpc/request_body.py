"""Request bodies: read after the caller is identified, and counted in a memory budget until they are parsed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skein_kit import errors
from skein_kit.admission.body_memory import (
    ANONYMOUS_BODIES,
    AUTHENTICATED_BODIES,
    INTERNAL_ANONYMOUS_BODIES,
    INTERNAL_AUTHENTICATED_BODIES,
)
from skein_kit.network.source_network import source_network

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from google.protobuf.message import Message

    from skein_kit.admission.body_memory import Reservation
    from skein_kit.calls.call import Call

    Handler = Callable[[Any, Call], Awaitable[Any]]

# Larger messages are refused with a reason; gRPC's own limit is higher.
MAX_MESSAGE_BYTES = 4 * 1024 * 1024
# Limit of a message without a verified caller.
MAX_ANONYMOUS_BYTES = 64 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestBody:
    """A request body that is still arriving."""

    # Reads the whole body and returns its bytes; refuses a body beyond the limit, before it arrives where possible.
    read: Callable[[int], Awaitable[bytes]]
    # The most memory that the body takes while it arrives.
    size: int
    # Whether `read` takes no more memory than its limit.
    is_refused_at_limit: bool = False
    # Whether the call comes from another service of the cluster.
    is_internal: bool = False
    # Parses the bytes, which may take long; None: they stay bytes.
    parse: Callable[[bytes], Awaitable[Any]] | None = None
    # Reads what is readable of bytes that `parse` may refuse; None: they are a protobuf message.
    recover: Callable[[bytes], Message | None] | None = None


class CompleteBody:
    """The bytes of a request, which count in a memory budget until they are parsed or released."""

    def __init__(
        self, content: bytes, reservation: Reservation, parse: Callable[[bytes], Awaitable[Any]] | None = None
    ) -> None:
        """Own the reservation of the content."""
        self._content: bytes | None = content
        self._parse = parse
        self.size = len(content)
        self.reservation = reservation

    @property
    def content(self) -> bytes:
        """The bytes. Raises RuntimeError after `message` has parsed them."""
        if self._content is None:
            message = "the body was parsed before"
            raise RuntimeError(message)
        return self._content

    @property
    def content_or_none(self) -> bytes | None:
        """The bytes; None after `message` has parsed them."""
        return self._content

    async def message(self) -> Any:
        """Return the parsed message, or the bytes without a parser, and release the reservation. Call it once."""
        content, self._content = self.content, None
        with self.reservation:
            return content if self._parse is None else await self._parse(content)


def body(handler: Handler) -> Handler:
    """Read a request body before the call waits for admission; its bytes are reserved until they are parsed."""

    async def answer(request: Any, call: Call) -> Any:
        if not isinstance(request, RequestBody):
            return await handler(request, call)
        complete_body = await read_body(request, call)
        with complete_body.reservation:
            return await handler(complete_body, call)

    return answer


async def read_body(request: RequestBody, call: Call) -> CompleteBody:
    """Read a request within the memory budget of its caller; the caller of this function releases the reservation.

    Raises Overloaded and AnonymousMessageTooLarge.
    """
    caller = call.caller
    if caller is not None:
        authenticated = INTERNAL_AUTHENTICATED_BODIES if request.is_internal else AUTHENTICATED_BODIES
        async with authenticated.reserve(caller.tenant_id or caller.principal, request.size) as incoming:
            message = await request.read(MAX_MESSAGE_BYTES)
            return CompleteBody(message, incoming.transfer(_retained_bytes(request, message)), request.parse)
    size = min(request.size, MAX_ANONYMOUS_BYTES) if request.is_refused_at_limit else request.size
    anonymous = INTERNAL_ANONYMOUS_BODIES if request.is_internal else ANONYMOUS_BODIES
    async with anonymous.reserve(source_network(call.client_address or call.peer_address), size) as incoming:
        message = await request.read(MAX_ANONYMOUS_BYTES)
        if len(message) <= MAX_ANONYMOUS_BYTES:
            return CompleteBody(message, incoming.transfer(_retained_bytes(request, message)), request.parse)
        # The frames of an error may stay alive for a while and must not hold the message.
        del message
        raise message_too_large(MAX_ANONYMOUS_BYTES)


def _retained_bytes(request: RequestBody, message: bytes) -> int:
    """Return the bytes that a complete body keeps; 0 for internal calls, which are admitted already."""
    return 0 if request.is_internal else len(message)


def message_too_large(limit: int) -> errors.MessageTooLarge:
    """Return the error for a message beyond one of the two limits."""
    return (errors.AnonymousMessageTooLarge if limit == MAX_ANONYMOUS_BYTES else errors.MessageTooLarge)(limit=limit)
