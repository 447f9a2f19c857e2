"""The dialect whose verbs are `command`s in upper case (§2)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from skein.memory.v1 import curation_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein_pc2.protocol import fields
from skein_pc2.protocol.errors import INVALID_REQUEST, RequestError
from skein_pc2.protocol.frames import repeat_key, timestamp
from skein_pc2.reasoning.commands.synchronization import Synchronizer
from skein_pc2.reasoning.records import convert as records
from skein_pc2.reasoning.records import memory_lists
from skein_pc2.reasoning.records import record_values as words
from skein_pc2.reasoning.records.agent_request import lower_case
from skein_pc2.reasoning.records.memory_store import NO_QUERY
from skein_pc2.reasoning.records.memory_store import strengths

if TYPE_CHECKING:
    from skein_pc2.gateway_api.client import GatewayApi
    from skein_pc2.protocol.frames import Message
    from skein_pc2.reasoning.records.agent_request import Action
    from skein_pc2.reasoning.records.agent_request import Ask
    from skein_pc2.reasoning.records.memory_store import MemoryStore

NO_MEMORY_ID = "No memory_id provided"
# What the sums over strengths are taken of: the newest memories that have one.
_MOST_COUNTED = 200


class Commands:
    """The commands that ask something of Skein; health and pings answer themselves."""

    def __init__(self, api: GatewayApi, keeper: MemoryStore) -> None:
        self._api = api
        self._keeper = keeper
        self._synchronizer = Synchronizer(api, keeper)
        self.actions: dict[str, Action] = {
            "TEST_PING": _ping,
            "STORE_MEMORY": self._store,
            "QUERY_MEMORY": self._query,
            "REINFORCE_MEMORY": self._reinforce,
            "GET_MEMORY_STATUS": self._status,
            "SYNC_MEMORIES": self._sync,
            "DELETE_MEMORY": self._delete,
        }

    async def _store(self, ask: Ask) -> Message:
        values = fields.mapping(ask.message.get("data"), "data")
        if not values:
            text = "No memory data provided"
            raise RequestError(INVALID_REQUEST, text)
        with_text = records.with_text(values)
        words.needed(with_text, "content", missing="No content provided")
        memory = records.memory_of(
            with_text, external_id=records.new_id(ask.message), importance=words.importance(values.get("priority"))
        )
        records.keep_sent_fields(memory, values)
        memory_id = await self._keeper.keep(ask, memory)
        return success("Memory stored successfully", {"memory_id": memory_id})

    async def _query(self, ask: Ask) -> Message:
        query = ask.message.get("query")
        if query is None or query == {}:
            raise RequestError(INVALID_REQUEST, NO_QUERY)
        found = await self._keeper.find(ask, fields.mapping(query, "query"))
        data: dict[str, Any] = {"memories": [records.record(memory, ask.at) for memory in found.memories]}
        if found.is_cut:
            data["truncated"] = True
        return success(f"Found {len(found.memories)} matching memories", data)

    async def _reinforce(self, ask: Ask) -> Message:
        memory_id = words.needed(ask.message, "memory_id", missing=NO_MEMORY_ID)
        strength = await self._keeper.reinforce(ask, memory_id, operation=repeat_key(ask.message))
        data = {"memory_id": memory_id, "strength": records.rounded(strength)}
        return success(f"Memory {memory_id} reinforced successfully", data)

    async def _delete(self, ask: Ask) -> Message:
        memory_id = words.needed(ask.message, "memory_id", missing=NO_MEMORY_ID)
        await self._keeper.delete(ask, memory_id, operation=repeat_key(ask.message))
        return {"status": "SUCCESS", "message": f"Memory {memory_id} deleted successfully"}

    async def _sync(self, ask: Ask) -> Message:
        count, left = await self._synchronizer.synchronize(ask)
        data = {"synced_count": count, "total_memories": (await self._counted(ask)).memory_count}
        if left:
            data["remaining_count"] = left
        return success(f"Synchronized {count} memories", data)

    async def _status(self, ask: Ask) -> Message:
        """Tell how many memories there are, exactly, and what the newest ones that have a strength sum up to."""
        mine = pb.MemoryFilter(where=f'metadata.{records.PC2}.agent = "{words.AGENT}"')
        counted, page = await asyncio.gather(
            self._counted(ask), memory_lists.listed(self._api, ask, mine, limit=_MOST_COUNTED)
        )
        found = strengths(page.memories, ask)
        forgotten = sum(1 for strength in found if strength.is_forgotten(ask.at))
        data = {
            "total_memories": counted.memory_count,
            "active_memories": counted.memory_count - forgotten,
            "forgotten_memories": forgotten,
            "total_reinforcements": sum(strength.reinforcements for strength in found),
            "total_decays": sum(strength.decays + strength.idle_periods(ask.at) for strength in found),
            # Strengths are computed when they are read.
            "last_decay_check": ask.at.timestamp(),
            "last_sync": max(filter(None, map(records.synchronized, page.memories)), default=None),
            "timestamp": ask.at.timestamp(),
        }
        if page.next_page_token:
            data |= {"counted_memories": len(found), "truncated": True}
        return success("Memory status", data)

    async def _counted(self, ask: Ask) -> curation_pb2.GetStatisticsResponse:
        request = curation_pb2.GetStatisticsRequest(top=1)
        return await self._api.call(self._api.curation.GetStatistics, request, ask)


def upper_case(text: str) -> Message:
    """Refuse as §2 does."""
    return {**lower_case(text), "status": "ERROR"}


def success(text: str, data: dict[str, Any]) -> Message:
    """Answer as §2 does."""
    return {"status": "SUCCESS", "message": text, "data": data}


async def _ping(ask: Ask) -> Message:
    data = {
        "echo": ask.message.get("data"),
        "timestamp": timestamp(ask.at),
        "agent": words.AGENT,
        "location": "PC2",
    }
    return success("TEST_PING received and processed", data)
