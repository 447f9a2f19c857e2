"""Pages of memories, as many as fit into one reply, and bulk deletion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from skein.memory.v1 import memory_pb2 as pb
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.protocol import fields
from skein_pc2.protocol.concurrency import RequestContext
from skein_pc2.protocol.errors import RATE_LIMIT_EXCEEDED, RequestError
from skein_pc2.reasoning.records import record_values

DEFAULT_LIMIT, MAX_LIMIT = 200, 500
# Most calls of one page: each scans a bounded number of memories and may return few.
_MAX_CALLS = 4
# Memories of one deletion call, at some milliseconds each, and the time reserved for the reply.
_DELETION_BATCH_SIZE = 25
_DELETION_MARGIN_SECONDS = 1.5
# Bytes of memories in one reply.
_MAX_REPLY_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class MemoryPage:
    """Memories in order, and the token of the next page."""

    memories: list[pb.Memory] = field(default_factory=list)
    next_page_token: str = ""

    def reply_fields(self) -> dict[str, Any]:
        """Return the reply's fields about the next page; empty on the last page."""
        if not self.next_page_token:
            return {}
        return {"truncated": True, "next_page_token": self.next_page_token}


async def list_memories(
    api: GatewayApi,
    context: RequestContext,
    condition: pb.MemoryFilter,
    *,
    limit: int = DEFAULT_LIMIT,
    page_token: str = "",
    order_by: str = "",
) -> MemoryPage:
    """List matching memories, newest first unless `order_by` says otherwise. Raises AioRpcError."""
    memories: list[pb.Memory] = []
    size = 0
    for _ in range(_MAX_CALLS):
        call = pb.ListMemoriesRequest(
            filter=condition, page_size=limit - len(memories), page_token=page_token, order_by=order_by
        )
        response = await api.call(api.memories.ListMemories, call, context)
        memories += response.memories
        size += response.ByteSize()
        page_token = response.next_page_token
        if not page_token or len(memories) >= limit or size >= _MAX_REPLY_BYTES:
            break
    return MemoryPage(memories, page_token)


def parse_page(values: Mapping[str, Any]) -> tuple[int, str]:
    """Read limit and page token."""
    limit = fields.integer(values.get("limit"), "limit", default=DEFAULT_LIMIT, minimum=1)
    return min(limit, MAX_LIMIT), record_values.text(values, "page_token")


async def delete_memories(api: GatewayApi, context: RequestContext, condition: pb.MemoryFilter) -> int:
    """Delete matching memories, which can be undeleted for a while; return their number.

    Raises AioRpcError, and RequestError when there was no time for all of them.
    """
    call = pb.DeleteMemoriesRequest(selection=pb.MemorySelection(filter=condition), page_size=_DELETION_BATCH_SIZE)
    count = 0
    while True:
        reply = await api.call(api.memories.DeleteMemories, call, context)
        count += len(reply.memory_ids)
        call.page_token = reply.next_page_token
        if not call.page_token:
            return count
        if context.remaining_seconds() < _DELETION_MARGIN_SECONDS:
            raise RequestError(
                RATE_LIMIT_EXCEEDED, f"{count} memories are forgotten and there are more: ask again for the rest"
            )


def memory_id(memory: pb.Memory) -> str:
    """Return a memory's id on the port."""
    return memory.external_id or memory.memory_id


def create_time_of(memory: pb.Memory) -> datetime:
    """Return a memory's creation time."""
    return memory.create_time.ToDatetime(tzinfo=UTC)
