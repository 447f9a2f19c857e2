"""The actions add_memory, get_all_memories, update_memories and get_memory_stats (§1)."""

from __future__ import annotations

import asyncio

from skein.memory.v1 import curation_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein.session.v1 import session_pb2
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.protocol.frames import Message, timestamp
from skein_pc2.reasoning.actions import decay
from skein_pc2.reasoning.actions.background_updates import BackgroundUpdates
from skein_pc2.reasoning.actions.memory_updates import MemoryUpdates
from skein_pc2.reasoning.records import convert as records
from skein_pc2.reasoning.records import memory_lists, record_values
from skein_pc2.reasoning.records.agent_request import Action, AgentRequest
from skein_pc2.reasoning.records.memory_store import MemoryStore


class MemoryActions:
    """The actions of §1 on memories."""

    def __init__(self, api: GatewayApi, store: MemoryStore, background: BackgroundUpdates) -> None:
        self._api = api
        self._memories = store
        self._updates = MemoryUpdates(api, store, background)
        self.actions: dict[str, Action] = {
            "add_memory": self._add,
            "get_all_memories": self._list_all,
            "update_memories": self._updates.update,
            "get_memory_stats": self._stats,
        }

    async def _add(self, request: AgentRequest) -> Message:
        memory = records.parse_memory(
            request.message,
            external_id=records.new_id(request.message),
            importance=record_values.parse_importance(request.message.get("priority")),
        )
        return {
            "status": "success",
            "message": "Memory added",
            "memory_id": await self._memories.create_once(request, memory),
        }

    async def _list_all(self, request: AgentRequest) -> Message:
        """Return the newest memories, and recent messages as short-term memories."""
        limit, page_token = memory_lists.parse_page(request.message)
        await self._updates.wait_background(request)
        listing = memory_lists.list_memories(self._api, request, pb.MemoryFilter(), limit=limit, page_token=page_token)
        messages: list[session_pb2.Message] = []
        has_more_messages = False
        if page_token:
            page = await listing
        else:
            page, (messages, has_more_messages) = await asyncio.gather(listing, self._updates.recent_messages(request))
        items = [
            *(decay.memory_item(memory, request.at) for memory in page.memories),
            *(decay.message_item(message, request.at) for message in messages),
        ]
        items.sort(key=lambda item: str(item["timestamp"]), reverse=True)
        reply: Message = {"status": "success", "memories": items, **page.reply_fields()}
        if has_more_messages:
            reply["truncated"] = True
        return reply

    async def _stats(self, request: AgentRequest) -> Message:
        statistics = await self._api.call(
            self._api.curation.GetStatistics, curation_pb2.GetStatisticsRequest(), request
        )
        stats = {
            "total_memories": statistics.memory_count,
            "total_links": statistics.link_count,
            "by_type": dict(statistics.type_counts),
            "by_level": dict(statistics.level_counts),
            "tags": {tag.tag: tag.count for tag in statistics.tags},
            # Number of newest memories that the counts by type, level and tag cover.
            "counted_memories": statistics.sampled_memory_count,
            "timestamp": timestamp(request.at),
        }
        return {"status": "success", "stats": stats}
