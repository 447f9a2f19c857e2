"""Calls of the gateway with an API key: any public RPC by its path."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from grpc import aio

from skein_kit.calls.call import AUTHORIZATION_KEY

_CALL_SECONDS = 10.0
# A stream that sends nothing for this long has sent all stored messages, and is cancelled.
_SILENCE_SECONDS = 0.25
_MAX_MESSAGES = 20


class GatewayClient:
    """Calls the gateway with the API key of one tenant."""

    def __init__(self, channel: aio.Channel, key: str) -> None:
        self._channel: Any = channel
        self._metadata = {AUTHORIZATION_KEY: f"Bearer {key}"}

    async def call(self, path: str, request: Message) -> Any:
        """Return the response; the first responses of a stream are merged into one. Raises AioRpcError."""
        method = method_of(path)
        response_class = message_factory.GetMessageClass(method.output_type)
        stub_factory = self._channel.unary_stream if method.server_streaming else self._channel.unary_unary
        stub = stub_factory(
            path, request_serializer=type(request).SerializeToString, response_deserializer=response_class.FromString
        )
        call = stub(request, timeout=_CALL_SECONDS, metadata=self._metadata)
        return await (_merge_first(call, response_class()) if method.server_streaming else call)


def method_of(path: str) -> MethodDescriptor:
    """Return the descriptor of an RPC by its path."""
    service, _, name = path.removeprefix("/").partition("/")
    method: MethodDescriptor = descriptor_pool.Default().FindServiceByName(service).methods_by_name[name]
    return method


async def _merge_first(stream: Any, merged_response: Message) -> Message:
    async with aclosing(stream) as messages:
        for number in range(_MAX_MESSAGES):
            try:
                # Until the first message only the deadline of the call counts.
                async with asyncio.timeout(_SILENCE_SECONDS if number else None):
                    merged_response.MergeFrom(await anext(messages))
            except (TimeoutError, StopAsyncIteration):
                break
    return merged_response
