"""Stubs that call the public RPCs in process, through the interceptors, with the credential of the browser."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, cast

from grpc import aio

from skein.auth.v1 import auth_pb2_grpc
from skein.gateway.v1 import gateway_pb2_grpc
from skein.memory.v1 import blocks_pb2_grpc, curation_pb2_grpc, history_pb2_grpc, memory_pb2_grpc
from skein.options.v1 import options_pb2
from skein.recall.v1 import recall_pb2_grpc
from skein.session.v1 import session_pb2_grpc
from skein.tenancy.v1 import tenancy_pb2_grpc
from skein_kit.calls.call import SPACE_KEY
from skein_kit.errors import ServiceUnavailable
from skein_kit.identity.permissions import ACCESS_RULES
from skein_kit.rpc.channel import InProcessHandlers, ServiceChannel


class Api:
    """Stubs of all services, with the caller's headers."""

    def __init__(self, handlers: InProcessHandlers, headers: Mapping[str, str], space_id: str = "") -> None:
        """Call `handlers` with `headers`: credential, tenant, request id and origin; in a space if given."""
        self._channel = cast("aio.Channel", _CallerChannel(handlers, headers, space_id))

    @property
    def auth(self) -> auth_pb2_grpc.AuthServiceAsyncStub:
        """Accounts and API keys."""
        return auth_pb2_grpc.AuthServiceStub(self._channel)

    @property
    def tenancy(self) -> tenancy_pb2_grpc.TenancyServiceAsyncStub:
        """The tenant, its policy and usage."""
        return tenancy_pb2_grpc.TenancyServiceStub(self._channel)

    @property
    def sessions(self) -> session_pb2_grpc.SessionServiceAsyncStub:
        """Sessions and messages."""
        return session_pb2_grpc.SessionServiceStub(self._channel)

    @property
    def memory(self) -> memory_pb2_grpc.MemoryServiceAsyncStub:
        """Memories."""
        return memory_pb2_grpc.MemoryServiceStub(self._channel)

    @property
    def blocks(self) -> blocks_pb2_grpc.BlockServiceAsyncStub:
        """Blocks."""
        return blocks_pb2_grpc.BlockServiceStub(self._channel)

    @property
    def links(self) -> memory_pb2_grpc.LinkServiceAsyncStub:
        """Links between memories."""
        return memory_pb2_grpc.LinkServiceStub(self._channel)

    @property
    def curation(self) -> curation_pb2_grpc.CurationServiceAsyncStub:
        """Conflicts and statistics."""
        return curation_pb2_grpc.CurationServiceStub(self._channel)

    @property
    def history(self) -> history_pb2_grpc.HistoryServiceAsyncStub:
        """The event log and the access log."""
        return history_pb2_grpc.HistoryServiceStub(self._channel)

    @property
    def recall(self) -> recall_pb2_grpc.RecallServiceAsyncStub:
        """Searches by their receipts."""
        return recall_pb2_grpc.RecallServiceStub(self._channel)

    @property
    def gateway(self) -> gateway_pb2_grpc.GatewayServiceAsyncStub:
        """Recall of all branches, and the cluster's status."""
        return gateway_pb2_grpc.GatewayServiceStub(self._channel)


class _CallerChannel:
    """The part of a channel that generated stubs use."""

    def __init__(self, handlers: InProcessHandlers, headers: Mapping[str, str], space_id: str) -> None:
        self._handlers = handlers
        self._headers = headers
        self._space_id = space_id
        self._channel = ServiceChannel(str, handlers)

    def unary_unary(self, method: str, *arguments: Any, **keywords: Any) -> Callable[[Any], Awaitable[Any]]:
        outgoing = self._channel.unary_unary(method, *arguments, **keywords)

        async def call(request: Any) -> Any:
            self._check(method)
            return await outgoing(request, metadata=self._headers_of(method))

        return call

    def unary_stream(self, method: str, *arguments: Any, **keywords: Any) -> Callable[[Any], AsyncGenerator[Any]]:
        outgoing = self._channel.unary_stream(method, *arguments, **keywords)

        def call(request: Any) -> AsyncGenerator[Any]:
            self._check(method)
            return outgoing(request, metadata=self._headers_of(method))

        return call

    def _headers_of(self, method: str) -> Mapping[str, str]:
        """Return the headers of a call; a space is named where calls act in one."""
        is_walled = ACCESS_RULES[method].spaces == options_pb2.SPACE_RULE_WALLED
        return {**self._headers, SPACE_KEY: self._space_id} if self._space_id and is_walled else self._headers

    def _check(self, method: str) -> None:
        """Raise ServiceUnavailable while the gateway is starting."""
        if method not in self._handlers:
            raise ServiceUnavailable(service="gateway")
