"""Requests on their way: read once it is known who calls, within the memory for the bodies of such callers."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skein_kit import errors
from skein_kit.body_budget import ANONYMOUS_BODIES, KNOWN_BODIES
from skein_kit.networks import network_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from skein_kit.call import Call

    Handler = Callable[[Any, Call], Awaitable[Any]]

# Larger messages are refused with a reason; gRPC's own limit lies above.
MAX_MESSAGE_BYTES = 4 * 1024 * 1024
# Nothing that is sent before it is known who calls is longer.
MAX_ANONYMOUS_BYTES = 64 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Body:
    """A request that is still on its way."""

    # Waits for all of it and returns its bytes; those beyond a limit are refused, before they come where that is known.
    read: Callable[[int], Awaitable[bytes]]
    # The most memory that it takes while it comes.
    size: int
    # Whether `read` takes no more memory than its limit.
    stops: bool = False
    # Makes the bytes a message, which may take its time; None: they stay bytes until the call has its turn.
    parse: Callable[[bytes], Awaitable[Any]] | None = None


def body(handler: Handler) -> Handler:
    """Read a request that is still on its way, once it is known who calls; it takes no turn from others meanwhile."""

    async def answer(request: Any, call: Call) -> Any:
        if isinstance(request, Body):
            message = await received(request, call)
            request = message if request.parse is None else functools.partial(request.parse, message)
        return await handler(request, call)

    return answer


async def received(request: Body, call: Call) -> bytes:
    """Read a request within the memory that bodies of such callers may take.

    Raises Overloaded and AnonymousMessageTooLarge.
    """
    caller = call.caller
    if caller is not None:
        async with KNOWN_BODIES.room(caller.tenant_id or caller.principal, request.size):
            return await request.read(MAX_MESSAGE_BYTES)
    size = min(request.size, MAX_ANONYMOUS_BYTES) if request.stops else request.size
    async with ANONYMOUS_BODIES.room(network_of(call.client_address or call.peer_address), size):
        message = await request.read(MAX_ANONYMOUS_BYTES)
        if len(message) <= MAX_ANONYMOUS_BYTES:
            return message
        # The frames of an error may live on for a while; the message must not.
        del message
        raise too_large(MAX_ANONYMOUS_BYTES)


def too_large(limit: int) -> errors.MessageTooLarge:
    """Return the refusal of a message beyond one of the two limits."""
    return (errors.AnonymousMessageTooLarge if limit == MAX_ANONYMOUS_BYTES else errors.MessageTooLarge)(limit=limit)
