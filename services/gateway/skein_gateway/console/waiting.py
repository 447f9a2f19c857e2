"""How much waits for approval: a number beside the entry of the navigation, for callers who may approve.

The counts are kept for a few seconds, because each is two calls, which the access log records.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

from skein.memory.v1 import approvals_pb2
from skein.session.v1 import session_pb2
from skein_gateway.console.problems import PageError, or_page_error
from skein_gateway.console.rpc_client import Api

# Of each kind, so many are counted.
MAX_COUNTED = 20
_SECONDS = 10.0
_PATIENCE_SECONDS = 1.0
_MAX_CALLERS = 1000
_UNKNOWN = PageError(title="", text="", status=504)


class WaitingCounts:
    """The counts of callers, by tenant and principal."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start empty; `clock` returns monotonic seconds."""
        self._clock = clock
        # Each with the time until which it is kept.
        self._counts: OrderedDict[tuple[str, str], tuple[float, str]] = OrderedDict()

    async def get(self, api: Api, tenant_id: str, principal: str) -> str:
        """Return how many memories and messages wait: "3", "20+", or empty for none and if the caller cannot know."""
        expire_time, count = self._counts.get((tenant_id, principal), (0.0, ""))
        if self._clock() < expire_time:
            return count
        memories: approvals_pb2.ListPendingMemoriesResponse | PageError = _UNKNOWN
        messages: session_pb2.ListAgentMessagesResponse | PageError = _UNKNOWN
        # No page waits long for a number.
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                memories, messages = await asyncio.gather(
                    or_page_error(
                        api.curation.ListPendingMemories(
                            approvals_pb2.ListPendingMemoriesRequest(page_size=MAX_COUNTED)
                        )
                    ),
                    or_page_error(
                        api.sessions.ListAgentMessages(
                            session_pb2.ListAgentMessagesRequest(page_size=MAX_COUNTED, pending_approval=True)
                        )
                    ),
                )
        return self.keep(tenant_id, principal, memories, messages)

    def keep(
        self,
        tenant_id: str,
        principal: str,
        memories: approvals_pb2.ListPendingMemoriesResponse | PageError,
        messages: session_pb2.ListAgentMessagesResponse | PageError,
    ) -> str:
        """Keep and return the count of the first pages of both lists."""
        total, has_more = 0, False
        if not isinstance(memories, PageError):
            total, has_more = len(memories.pending_memories), bool(memories.next_page_token)
        if not isinstance(messages, PageError):
            total, has_more = total + len(messages.messages), has_more or bool(messages.next_page_token)
        count = f"{total}{'+' if has_more else ''}" if total or has_more else ""
        self._counts[tenant_id, principal] = (self._clock() + _SECONDS, count)
        self._counts.move_to_end((tenant_id, principal))
        if len(self._counts) > _MAX_CALLERS:
            self._counts.popitem(last=False)
        return count

    def forget(self, tenant_id: str) -> None:
        """Count again at the next page of the tenant, after a decision."""
        for key in [key for key in self._counts if key[0] == tenant_id]:
            del self._counts[key]
