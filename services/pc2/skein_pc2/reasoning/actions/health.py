"""The health of port 5596: how many requests it answered, and how much there is of what its clients ask about."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

from grpc import aio

from skein.memory.v1 import memory_pb2
from skein.tenancy.v1 import limits_pb2
from skein_pc2.protocol.errors import RequestError
from skein_pc2.protocol.health import Health
from skein_pc2.protocol.concurrency import RequestContext
from skein_pc2.reasoning.actions import error_patterns

if TYPE_CHECKING:
    from skein_pc2.gateway_api.client import GatewayApi
    from skein_pc2.protocol.frames import Message

# Counts are this old at most when the cluster answers; then one document waits for them, so long at most.
_FRESH_SECONDS, _WAIT_SECONDS = 3.0, 0.4
_SESSIONS = "sessions"


class ReasoningHealth(Health):
    """The health document of the Unified Memory Reasoning Agent, on its main port and on its health ports."""

    def __init__(self, agent: str, api: GatewayApi) -> None:
        super().__init__(agent, api.has_key)
        self._api = api
        self._answered = self._refused = self._errors = 0
        self._pattern_count = self._session_count = 0
        self._count_again = 0.0

    def record_request(self, *, is_refused: bool) -> None:
        """Count a request that was answered."""
        self._answered += 1
        self._refused += is_refused

    def record_error_report(self) -> None:
        """Count an error that an assistant reported."""
        self._errors += 1

    def metrics(self) -> Message:
        """Return the counts of requests as HEALTH_CHECK has them."""
        return {"messages_answered": self._answered, "messages_refused": self._refused}

    def document(self) -> Message:
        """Write the document as of now, under the names that both versions of the agent have for a number."""
        return {
            **super().document(),
            "request_count": self._answered,
            "total_requests": self._answered,
            "successful_requests": self._answered - self._refused,
            "failed_requests": self._refused,
            "error_count": self._refused,
            "error_patterns_count": self._pattern_count,
            # Errors reported since the start: messages are not counted by their type.
            "error_history_count": self._errors,
            "sessions_count": self._session_count,
        }

    async def current_document(self) -> Message:
        """Write the document; count anew if the last counts are old. Without the cluster they stay as they were."""
        loop = asyncio.get_running_loop()
        if self.is_ready() and loop.time() >= self._count_again:
            # Other requests do not wait for the counts meanwhile.
            self._count_again = loop.time() + _FRESH_SECONDS
            errand = RequestContext(request_id=secrets.token_hex(8), deadline=loop.time() + _WAIT_SECONDS)
            await asyncio.gather(self._count_patterns(errand), self._count_sessions(errand))
        return self.document()

    async def _count_patterns(self, errand: RequestContext) -> None:
        request = memory_pb2.ListMemoriesRequest(
            filter=memory_pb2.MemoryFilter(types=[error_patterns.TYPE]), page_size=1, show_total_size=True
        )
        try:
            response = await self._api.call(self._api.memories.ListMemories, request, errand)
        except (aio.AioRpcError, RequestError):
            return
        if response.HasField("total_size"):
            self._pattern_count = response.total_size

    async def _count_sessions(self, errand: RequestContext) -> None:
        try:
            response = await self._api.call(self._api.tenancy.GetUsage, limits_pb2.GetUsageRequest(), errand)
        except (aio.AioRpcError, RequestError):
            return
        self._session_count = next((usage.used for usage in response.usage if usage.kind == _SESSIONS), 0)
