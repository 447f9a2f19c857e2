"""The dialect whose messages have a `command` in upper case (§2)."""

from __future__ import annotations

import asyncio
from typing import Any

from skein.memory.v1 import curation_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.protocol import fields
from skein_pc2.protocol.errors import INVALID_REQUEST, RequestError
from skein_pc2.protocol.frames import Message, repeat_key, timestamp
from skein_pc2.reasoning.commands.synchronization import Synchronizer
from skein_pc2.reasoning.records import convert as records
from skein_pc2.reasoning.records import memory_lists, record_values
from skein_pc2.reasoning.records.agent_request import Action, AgentRequest, lower_case_error
from skein_pc2.reasoning.records.memory_store import NO_QUERY, MemoryStore, strengths

NO_MEMORY_ID = "No memory_id provided"
# Newest memories with a strength that the sums cover.
_MAX_COUNTED_MEMORIES = 200


class Commands:
    """The commands of §2 except HEALTH_CHECK."""

    def __init__(self, api: GatewayApi, store: MemoryStore) -> None:
        self._api = api
        self._memories = store
        self._synchronizer = Synchronizer(api, store)
        self.actions: dict[str, Action] = {
            "TEST_PING": _ping,
            "STORE_MEMORY": self._store,
            "QUERY_MEMORY": self._query,
            "REINFORCE_MEMORY": self._reinforce,
            "GET_MEMORY_STATUS": self._status,
            "SYNC_MEMORIES": self._sync,
            "DELETE_MEMORY": self._delete,
        }

    async def _store(self, request: AgentRequest) -> Message:
        values = fields.mapping(request.message.get("data"), "data")
        if not values:
            raise RequestError(INVALID_REQUEST, "No memory data provided")
        values_with_text = records.with_text_content(values)
        record_values.required_text(values_with_text, "content", missing="No content provided")
        memory = records.parse_memory(
            values_with_text,
            external_id=records.new_id(request.message),
            importance=record_values.parse_importance(values.get("priority")),
        )
        records.store_sent_fields(memory, values)
        memory_id = await self._memories.create_once(request, memory)
        return success("Memory stored successfully", {"memory_id": memory_id})

    async def _query(self, request: AgentRequest) -> Message:
        query = request.message.get("query")
        if query is None or query == {}:
            raise RequestError(INVALID_REQUEST, NO_QUERY)
        result = await self._memories.find(request, fields.mapping(query, "query"))
        data: dict[str, Any] = {"memories": [records.to_record(memory, request.at) for memory in result.memories]}
        if result.is_truncated:
            data["truncated"] = True
        return success(f"Found {len(result.memories)} matching memories", data)

    async def _reinforce(self, request: AgentRequest) -> Message:
        memory_id = record_values.required_text(request.message, "memory_id", missing=NO_MEMORY_ID)
        strength = await self._memories.reinforce(request, memory_id, operation=repeat_key(request.message))
        data = {"memory_id": memory_id, "strength": records.round_strength(strength)}
        return success(f"Memory {memory_id} reinforced successfully", data)

    async def _delete(self, request: AgentRequest) -> Message:
        memory_id = record_values.required_text(request.message, "memory_id", missing=NO_MEMORY_ID)
        await self._memories.delete(request, memory_id, operation=repeat_key(request.message))
        return {"status": "SUCCESS", "message": f"Memory {memory_id} deleted successfully"}

    async def _sync(self, request: AgentRequest) -> Message:
        count, remaining_count = await self._synchronizer.synchronize(request)
        data = {"synced_count": count, "total_memories": (await self._get_statistics(request)).memory_count}
        if remaining_count:
            data["remaining_count"] = remaining_count
        return success(f"Synchronized {count} memories", data)

    async def _status(self, request: AgentRequest) -> Message:
        """Count all memories, and sum up the strengths of the newest."""
        own_memories = pb.MemoryFilter(where=f'metadata.{records.PC2}.agent = "{record_values.AGENT}"')
        statistics, page = await asyncio.gather(
            self._get_statistics(request),
            memory_lists.list_memories(self._api, request, own_memories, limit=_MAX_COUNTED_MEMORIES),
        )
        result = strengths(page.memories, request)
        forgotten_count = sum(1 for strength in result if strength.is_forgotten(request.at))
        data = {
            "total_memories": statistics.memory_count,
            "active_memories": statistics.memory_count - forgotten_count,
            "forgotten_memories": forgotten_count,
            "total_reinforcements": sum(strength.reinforcements for strength in result),
            "total_decays": sum(strength.decays + strength.idle_periods(request.at) for strength in result),
            # Strengths are computed when they are read.
            "last_decay_check": request.at.timestamp(),
            "last_sync": max(filter(None, map(records.last_sync_time, page.memories)), default=None),
            "timestamp": request.at.timestamp(),
        }
        if page.next_page_token:
            data |= {"counted_memories": len(result), "truncated": True}
        return success("Memory status", data)

    async def _get_statistics(self, request: AgentRequest) -> curation_pb2.GetStatisticsResponse:
        call = curation_pb2.GetStatisticsRequest(top=1)
        return await self._api.call(self._api.curation.GetStatistics, call, request)


def upper_case_error(text: str) -> Message:
    """Return an error reply of §2."""
    return {**lower_case_error(text), "status": "ERROR"}


def success(text: str, data: dict[str, Any]) -> Message:
    """Return a success reply of §2."""
    return {"status": "SUCCESS", "message": text, "data": data}


async def _ping(request: AgentRequest) -> Message:
    data = {
        "echo": request.message.get("data"),
        "timestamp": timestamp(request.at),
        "agent": record_values.AGENT,
        "location": "PC2",
    }
    return success("TEST_PING received and processed", data)
