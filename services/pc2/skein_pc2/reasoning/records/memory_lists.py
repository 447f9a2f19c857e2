"""Memories that are read in pages: as many as an answer has room for, never the whole tenant."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from skein.memory.v1 import memory_pb2 as pb
from skein_pc2.protocol import fields
from skein_pc2.protocol.errors import RATE_LIMIT_EXCEEDED, RequestError
from skein_pc2.reasoning.records import record_values as words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skein_pc2.gateway_api.client import GatewayApi
    from skein_pc2.protocol.concurrency import RequestContext

DEFAULT_LIMIT, MOST = 200, 500
# A call looks at a bounded number of memories, so a page may be short; after so many the rest is left for another ask.
_MOST_CALLS = 4
# Memories that one call forgets: each takes some milliseconds, and calls end while there is time to answer.
_FORGET_SIZE = 25
_FORGET_MARGIN_SECONDS = 1.5
# An answer has room for some megabytes.
_ANSWER_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Page:
    """Memories, in order, and where those that were left out begin."""

    memories: list[pb.Memory] = field(default_factory=list)
    next_page_token: str = ""

    def rest(self) -> dict[str, Any]:
        """Write what an answer says of those that were left out."""
        if not self.next_page_token:
            return {}
        return {"truncated": True, "next_page_token": self.next_page_token}


async def listed(
    api: GatewayApi,
    errand: RequestContext,
    filter_: pb.MemoryFilter,
    *,
    limit: int = DEFAULT_LIMIT,
    page_token: str = "",
    order_by: str = "",
) -> Page:
    """Read the memories that pass, the newest first unless `order_by` says otherwise. Raises AioRpcError."""
    found: list[pb.Memory] = []
    size = 0
    for _ in range(_MOST_CALLS):
        request = pb.ListMemoriesRequest(
            filter=filter_, page_size=limit - len(found), page_token=page_token, order_by=order_by
        )
        response = await api.call(api.memories.ListMemories, request, errand)
        found += response.memories
        size += response.ByteSize()
        page_token = response.next_page_token
        if not page_token or len(found) >= limit or size >= _ANSWER_BYTES:
            break
    return Page(found, page_token)


def bounds(values: Mapping[str, Any]) -> tuple[int, str]:
    """Read how many are wanted, and from where on."""
    limit = fields.integer(values.get("limit"), "limit", default=DEFAULT_LIMIT, least=1)
    return min(limit, MOST), words.text(values, "page_token")


async def forget(api: GatewayApi, errand: RequestContext, filter_: pb.MemoryFilter) -> int:
    """Delete the memories that pass, so that they can be restored for a while; return how many they were.

    Raises AioRpcError, and Rejected when there was no time for all of them.
    """
    request = pb.ForgetMemoriesRequest(selection=pb.MemorySelection(filter=filter_), page_size=_FORGET_SIZE)
    count = 0
    while True:
        forgotten = await api.call(api.memories.ForgetMemories, request, errand)
        count += len(forgotten.memory_ids)
        request.page_token = forgotten.next_page_token
        if not request.page_token:
            return count
        if errand.seconds() < _FORGET_MARGIN_SECONDS:
            text = f"{count} memories are forgotten and there are more: ask again for the rest"
            raise RequestError(RATE_LIMIT_EXCEEDED, text)


def memory_id(memory: pb.Memory) -> str:
    """Return the name by which an assistant knows a memory."""
    return memory.external_id or memory.memory_id


def created(memory: pb.Memory) -> datetime:
    """Return when a memory was made."""
    return memory.create_time.ToDatetime(tzinfo=UTC)
