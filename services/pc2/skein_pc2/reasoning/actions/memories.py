"""Memories in §1's words: add_memory, get_all_memories, update_memories, get_memory_stats."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from skein.memory.v1 import curation_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein_pc2.protocol.frames import timestamp
from skein_pc2.reasoning.actions import decay
from skein_pc2.reasoning.actions.memory_updates import MemoryUpdates
from skein_pc2.reasoning.records import convert as records
from skein_pc2.reasoning.records import record_values
from skein_pc2.reasoning.records import memory_lists

if TYPE_CHECKING:
    from skein.session.v1 import session_pb2
    from skein_pc2.gateway_api.client import GatewayApi
    from skein_pc2.protocol.frames import Message
    from skein_pc2.reasoning.actions.background_updates import BackgroundUpdates
    from skein_pc2.reasoning.records.agent_request import Action
    from skein_pc2.reasoning.records.agent_request import Ask
    from skein_pc2.reasoning.records.memory_store import MemoryStore


class MemoryActions:
    """The actions of §1 that speak of memories."""

    def __init__(self, api: GatewayApi, keeper: MemoryStore, background: BackgroundUpdates) -> None:
        self._api = api
        self._keeper = keeper
        self._updates = MemoryUpdates(api, keeper, background)
        self.actions: dict[str, Action] = {
            "add_memory": self._add,
            "get_all_memories": self._all,
            "update_memories": self._updates.update,
            "get_memory_stats": self._stats,
        }

    async def _add(self, ask: Ask) -> Message:
        memory = records.memory_of(
            ask.message,
            external_id=records.new_id(ask.message),
            importance=record_values.importance(ask.message.get("priority")),
        )
        return {"status": "success", "message": "Memory added", "memory_id": await self._keeper.keep(ask, memory)}

    async def _all(self, ask: Ask) -> Message:
        """Tell the newest memories, and what was said lately, as the short-term memory that it is."""
        limit, page_token = memory_lists.bounds(ask.message)
        await self._updates.settle(ask)
        listing = memory_lists.listed(self._api, ask, pb.MemoryFilter(), limit=limit, page_token=page_token)
        said: list[session_pb2.Message] = []
        has_more_messages = False
        if page_token:
            page = await listing
        else:
            page, (said, has_more_messages) = await asyncio.gather(listing, self._updates.recent_messages(ask))
        told = [
            *(decay.memory_item(memory, ask.at) for memory in page.memories),
            *(decay.message_item(message, ask.at) for message in said),
        ]
        told.sort(key=lambda item: str(item["timestamp"]), reverse=True)
        answer: Message = {"status": "success", "memories": told, **page.rest()}
        if has_more_messages:
            answer["truncated"] = True
        return answer

    async def _stats(self, ask: Ask) -> Message:
        counted = await self._api.call(self._api.curation.GetStatistics, curation_pb2.GetStatisticsRequest(), ask)
        stats = {
            "total_memories": counted.memory_count,
            "total_links": counted.link_count,
            "by_type": dict(counted.type_counts),
            "by_level": dict(counted.level_counts),
            "tags": {tag.tag: tag.count for tag in counted.tags},
            # How many of the newest the numbers by type, level and tag were counted over.
            "counted_memories": counted.sampled_memory_count,
            "timestamp": timestamp(ask.at),
        }
        return {"status": "success", "stats": stats}
