"""`coordinate_with`: operations for the episodic memory and the dream world, on Skein's memories."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from skein_pc2.protocol import fields
from skein_pc2.protocol.errors import INVALID_REQUEST, RequestError
from skein_pc2.protocol.frames import Message
from skein_pc2.reasoning.records import convert as records
from skein_pc2.reasoning.records import memory_lists, record_values
from skein_pc2.reasoning.records.agent_request import AgentRequest
from skein_pc2.reasoning.records.memory_store import MemoryStore

KEY = "coordinate_with"
# The agents, and the type of the memories stored for each.
TYPES = {"episodic": "episodic", "dreamworld": "simulation"}
# Keys of an operation's data that hold its text, best first.
_TEXTS = ("content", "text", "summary", "description", "message", "scenario", "event", "result")
_DEFAULT_HITS = 20

Operation = Callable[["AgentRequest", dict[str, Any]], Awaitable[dict[str, Any]]]


class Coordination:
    """Operations for the two agents without a port of their own."""

    def __init__(self, store: MemoryStore) -> None:
        self._memories = store
        operation_names: dict[Operation, tuple[str, ...]] = {
            self._store: ("store", "add", "create", "save", "record", "add_memory", "store_memory", "store_episode"),
            self._query: ("query", "search", "recall", "find", "query_memory", "search_memory"),
            self._read: ("get", "read", "retrieve", "get_memory"),
            self._update: ("update", "update_memory"),
            self._reinforce: ("reinforce", "reinforce_memory"),
            self._delete: ("delete", "remove", "delete_memory"),
        }
        self._operations = {name: operation for operation, names in operation_names.items() for name in names}

    async def coordinate(self, request: AgentRequest) -> Message:
        """Run an operation, once for each op_id."""
        target, name = (
            record_values.text(request.message, KEY).lower(),
            record_values.text(request.message, "operation").lower(),
        )
        if target not in TYPES:
            raise RequestError(INVALID_REQUEST, f"Unknown agent: {record_values.truncate_name(target)}")
        operation = self._operations.get(name)
        if operation is None:
            raise RequestError(INVALID_REQUEST, f"Unknown operation: {record_values.truncate_name(name)}")
        data = fields.mapping(request.message.get("data"), "data")
        return {"status": "coordinated", "result": await operation(request, data)}

    async def _store(self, request: AgentRequest, data: dict[str, Any]) -> dict[str, Any]:
        target = str(request.message[KEY]).lower()
        content = record_values.text(data, *(name for name in _TEXTS if isinstance(data.get(name), str)))
        if not content.strip():
            if not data:
                raise fields.invalid("data", "is needed")
            content = record_values.replace_unstorable(record_values.to_compact_json(data))
        metadata = fields.mapping(data.get("metadata"), "metadata")
        extra_metadata = {
            name: value
            for name, value in data.items()
            if name not in {*_TEXTS, *records.MEMORY_KEYS} and record_values.is_storable({name: value})
        }
        values = {"type": TYPES[target], **data, "content": content, "metadata": {**extra_metadata, **metadata}}
        operation = _parse_operation_key(request)
        memory = records.parse_memory(
            values,
            external_id=records.hashed_id(operation) if operation else records.new_id(request.message),
            importance=record_values.parse_importance(request.message.get("priority")),
        )
        return {"status": "success", "memory_id": await self._memories.create_once(request, memory)}

    async def _query(self, request: AgentRequest, data: dict[str, Any]) -> dict[str, Any]:
        query = dict(data)
        text = record_values.text(
            data, *(name for name in ("query", "text", "content") if isinstance(data.get(name), str))
        )
        if text and not query.get("keywords"):
            query["keywords"] = [text]
        if data.get("memory_id"):
            query["id"] = data["memory_id"]
        limit = fields.integer(data.get("limit"), "limit", default=_DEFAULT_HITS, minimum=1)
        result = await self._memories.find(request, query)
        hits = [records.to_record(memory, request.at) for memory in result.memories[:limit]]
        is_truncated = result.is_truncated or len(result.memories) > limit
        return {"status": "success", "memories": hits, **({"truncated": True} if is_truncated else {})}

    async def _read(self, request: AgentRequest, data: dict[str, Any]) -> dict[str, Any]:
        """Read one memory, or search when no id is given."""
        if not data.get("memory_id") and not data.get("id"):
            return await self._query(request, data)
        memory = await self._memories.get(request, _parse_memory_id(data))
        return {"status": "success", "memory": records.to_record(memory, request.at)}

    async def _update(self, request: AgentRequest, data: dict[str, Any]) -> dict[str, Any]:
        """Update a memory. A repeat changes nothing, whatever its op_id."""
        memory = await self._memories.get(request, _parse_memory_id(data))
        update_data = data.get("update_data", data)
        paths = records.apply_changes(memory, fields.mapping(update_data, "update_data"))
        if paths:
            memory.revision = 0
            memory = await self._memories.update(request, memory, paths)
        return {"status": "success", "memory_id": memory_lists.memory_id(memory)}

    async def _reinforce(self, request: AgentRequest, data: dict[str, Any]) -> dict[str, Any]:
        memory_id = _parse_memory_id(data)
        strength = await self._memories.reinforce(request, memory_id, operation=_parse_operation_key(request))
        return {"status": "success", "memory_id": memory_id, "strength": records.round_strength(strength)}

    async def _delete(self, request: AgentRequest, data: dict[str, Any]) -> dict[str, Any]:
        memory_id = _parse_memory_id(data)
        await self._memories.delete(request, memory_id, operation=_parse_operation_key(request))
        return {"status": "success", "memory_id": memory_id}


def _parse_memory_id(data: Mapping[str, Any]) -> str:
    return record_values.required_text(data, "memory_id", "id", missing="data.memory_id is needed")


def _parse_operation_key(request: AgentRequest) -> str:
    """Return the idempotency key of an operation; "" without an op_id."""
    op_id = request.message.get("op_id")
    if op_id is None or op_id == "":
        return ""
    if isinstance(op_id, int) and not isinstance(op_id, bool):
        op_id = str(op_id)
    name = record_values.text({"op_id": op_id}, "op_id")
    return records.hashed_id(*(record_values.text(request.message, key).lower() for key in (KEY, "operation")), name)
