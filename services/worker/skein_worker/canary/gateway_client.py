"""The gateway as a stranger with an API key meets it: any public RPC by its path."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pool, message_factory

from skein_kit.calls.call import AUTHORIZATION_KEY

if TYPE_CHECKING:
    from google.protobuf.descriptor import MethodDescriptor
    from google.protobuf.message import Message
    from grpc import aio

_SECONDS = 10.0
# A stream has sent what it has to send at once when it has been silent for so long; then it is left.
_SILENCE_SECONDS = 0.25
_MOST_MESSAGES = 20


class GatewayClient:
    """Calls of one tenant."""

    def __init__(self, channel: aio.Channel, key: str) -> None:
        """Call the gateway over `channel` with an API key."""
        self._channel: Any = channel
        self._metadata = {AUTHORIZATION_KEY: f"Bearer {key}"}

    async def call(self, path: str, request: Message) -> Any:
        """Return the answer, of a stream what it sends at once in one message. Raises AioRpcError."""
        method = method_of(path)
        response = message_factory.GetMessageClass(method.output_type)
        opened = self._channel.unary_stream if method.server_streaming else self._channel.unary_unary
        calling = opened(
            path, request_serializer=type(request).SerializeToString, response_deserializer=response.FromString
        )(request, timeout=_SECONDS, metadata=self._metadata)
        return await (_begun(calling, response()) if method.server_streaming else calling)


def method_of(path: str) -> MethodDescriptor:
    """Return the contract of an RPC."""
    service, _, name = path.removeprefix("/").partition("/")
    found: MethodDescriptor = descriptor_pool.Default().FindServiceByName(service).methods_by_name[name]
    return found


async def _begun(stream: Any, sent: Message) -> Message:
    async with aclosing(stream) as messages:
        for number in range(_MOST_MESSAGES):
            try:
                # The first message comes soon or the call ends: its own deadline counts until then.
                async with asyncio.timeout(_SILENCE_SECONDS if number else None):
                    sent.MergeFrom(await anext(messages))
            except (TimeoutError, StopAsyncIteration):
                break
    return sent
