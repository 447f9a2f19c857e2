"""Health of port 5596: counts of requests, error patterns and sessions."""

from __future__ import annotations

import asyncio
import secrets

from grpc import aio

from skein.memory.v1 import memory_pb2
from skein.tenancy.v1 import limits_pb2
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.protocol.concurrency import RequestContext
from skein_pc2.protocol.errors import RequestError
from skein_pc2.protocol.frames import Message
from skein_pc2.protocol.health import Health
from skein_pc2.reasoning.actions import error_patterns

# Longest age of counts, and longest wait of a document for new ones.
_MAX_COUNT_AGE_SECONDS, _COUNT_SECONDS = 3.0, 0.4
_SESSIONS = "sessions"


class ReasoningHealth(Health):
    """The health document of the Unified Memory Reasoning Agent, on its main port and on its health ports."""

    def __init__(self, agent: str, api: GatewayApi) -> None:
        super().__init__(agent, api.has_key)
        self._api = api
        self._request_count = self._error_count = self._error_report_count = 0
        self._pattern_count = self._session_count = 0
        self._next_count_time = 0.0

    def count_request(self, *, is_error: bool) -> None:
        """Count a request that was answered."""
        self._request_count += 1
        self._error_count += is_error

    def count_error_report(self) -> None:
        """Count an error report of an assistant."""
        self._error_report_count += 1

    def metrics(self) -> Message:
        """Return the counts of requests as HEALTH_CHECK has them."""
        return {"messages_answered": self._request_count, "messages_refused": self._error_count}

    def document(self) -> Message:
        """Return the document as of now; numbers have the names of both versions of the agent."""
        return {
            **super().document(),
            "request_count": self._request_count,
            "total_requests": self._request_count,
            "successful_requests": self._request_count - self._error_count,
            "failed_requests": self._error_count,
            "error_count": self._error_count,
            "error_patterns_count": self._pattern_count,
            # Error reports since the start.
            "error_history_count": self._error_report_count,
            "sessions_count": self._session_count,
        }

    async def current_document(self) -> Message:
        """Return the document with recent counts, or with the last counts when the cluster does not answer."""
        loop = asyncio.get_running_loop()
        if self.is_ready() and loop.time() >= self._next_count_time:
            # Concurrent requests use the last counts.
            self._next_count_time = loop.time() + _MAX_COUNT_AGE_SECONDS
            context = RequestContext(request_id=secrets.token_hex(8), deadline=loop.time() + _COUNT_SECONDS)
            await asyncio.gather(self._count_patterns(context), self._count_sessions(context))
        return self.document()

    async def _count_patterns(self, context: RequestContext) -> None:
        call = memory_pb2.ListMemoriesRequest(
            filter=memory_pb2.MemoryFilter(types=[error_patterns.TYPE]), page_size=1, show_total_size=True
        )
        try:
            response = await self._api.call(self._api.memories.ListMemories, call, context)
        except (aio.AioRpcError, RequestError):
            return
        if response.HasField("total_size"):
            self._pattern_count = response.total_size

    async def _count_sessions(self, context: RequestContext) -> None:
        try:
            response = await self._api.call(self._api.tenancy.GetUsage, limits_pb2.GetUsageRequest(), context)
        except (aio.AioRpcError, RequestError):
            return
        self._session_count = next((usage.used for usage in response.usage if usage.kind == _SESSIONS), 0)
