"""`coordinate_with`: what the episodic memory and the dream world are asked to do, done to Skein's memories."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from skein_pc2.protocol import fields
from skein_pc2.protocol.errors import INVALID_REQUEST, RequestError
from skein_pc2.reasoning.records import convert as records
from skein_pc2.reasoning.records import memory_lists
from skein_pc2.reasoning.records import record_values as words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skein_pc2.protocol.frames import Message
    from skein_pc2.reasoning.records.agent_request import Ask
    from skein_pc2.reasoning.records.memory_store import MemoryStore

KEY = "coordinate_with"
# Who can be asked, and the type of the memories that are stored for them.
TYPES = {"episodic": "episodic", "dreamworld": "simulation"}
# What an operation's data says in words, the best first.
_TEXTS = ("content", "text", "summary", "description", "message", "scenario", "event", "result")
_DEFAULT_HITS = 20

Operation = Callable[["Ask", dict[str, Any]], Awaitable[dict[str, Any]]]


class Coordination:
    """Does operations for the two agents that have no port of their own here."""

    def __init__(self, keeper: MemoryStore) -> None:
        self._keeper = keeper
        named: dict[Operation, tuple[str, ...]] = {
            self._store: ("store", "add", "create", "save", "record", "add_memory", "store_memory", "store_episode"),
            self._query: ("query", "search", "recall", "find", "query_memory", "search_memory"),
            self._read: ("get", "read", "retrieve", "get_memory"),
            self._update: ("update", "update_memory"),
            self._reinforce: ("reinforce", "reinforce_memory"),
            self._delete: ("delete", "remove", "delete_memory"),
        }
        self._operations = {name: operation for operation, names in named.items() for name in names}

    async def coordinate(self, ask: Ask) -> Message:
        """Do an operation, not a second time for the same op_id."""
        target, name = words.text(ask.message, KEY).lower(), words.text(ask.message, "operation").lower()
        if target not in TYPES:
            text = f"Unknown agent: {words.truncate_name(target)}"
            raise RequestError(INVALID_REQUEST, text)
        operation = self._operations.get(name)
        if operation is None:
            text = f"Unknown operation: {words.truncate_name(name)}"
            raise RequestError(INVALID_REQUEST, text)
        data = fields.mapping(ask.message.get("data"), "data")
        return {"status": "coordinated", "result": await operation(ask, data)}

    async def _store(self, ask: Ask, data: dict[str, Any]) -> dict[str, Any]:
        target = str(ask.message[KEY]).lower()
        content = words.text(data, *(name for name in _TEXTS if isinstance(data.get(name), str)))
        if not content.strip():
            if not data:
                raise fields.invalid("data", "is needed")
            content = words.replace_unstorable(words.to_compact_json(data))
        metadata = fields.mapping(data.get("metadata"), "metadata")
        rest = {
            name: value
            for name, value in data.items()
            if name not in {*_TEXTS, *records.FIELDS} and words.is_storable({name: value})
        }
        values = {"type": TYPES[target], **data, "content": content, "metadata": {**rest, **metadata}}
        operation = _operation(ask)
        memory = records.memory_of(
            values,
            external_id=records.id_of(operation) if operation else records.new_id(ask.message),
            importance=words.importance(ask.message.get("priority")),
        )
        return {"status": "success", "memory_id": await self._keeper.keep(ask, memory)}

    async def _query(self, ask: Ask, data: dict[str, Any]) -> dict[str, Any]:
        query = dict(data)
        text = words.text(data, *(name for name in ("query", "text", "content") if isinstance(data.get(name), str)))
        if text and not query.get("keywords"):
            query["keywords"] = [text]
        if data.get("memory_id"):
            query["id"] = data["memory_id"]
        limit = fields.integer(data.get("limit"), "limit", default=_DEFAULT_HITS, least=1)
        found = await self._keeper.find(ask, query)
        result: dict[str, Any] = {"memories": [records.record(memory, ask.at) for memory in found.memories[:limit]]}
        if found.is_cut or len(found.memories) > limit:
            result["truncated"] = True
        return {"status": "success", **result}

    async def _read(self, ask: Ask, data: dict[str, Any]) -> dict[str, Any]:
        """Read one memory or, where none is named, find some."""
        if not data.get("memory_id") and not data.get("id"):
            return await self._query(ask, data)
        memory = await self._keeper.get(ask, _memory_id(data))
        return {"status": "success", "memory": records.record(memory, ask.at)}

    async def _update(self, ask: Ask, data: dict[str, Any]) -> dict[str, Any]:
        """Change a memory. Doing so again changes nothing, whatever the op_id."""
        memory = await self._keeper.get(ask, _memory_id(data))
        given = data.get("update_data", data)
        paths = records.changes(memory, fields.mapping(given, "update_data"))
        if paths:
            memory.revision = 0
            memory = await self._keeper.update(ask, memory, paths)
        return {"status": "success", "memory_id": memory_lists.memory_id(memory)}

    async def _reinforce(self, ask: Ask, data: dict[str, Any]) -> dict[str, Any]:
        memory_id = _memory_id(data)
        strength = await self._keeper.reinforce(ask, memory_id, operation=_operation(ask))
        return {"status": "success", "memory_id": memory_id, "strength": records.rounded(strength)}

    async def _delete(self, ask: Ask, data: dict[str, Any]) -> dict[str, Any]:
        memory_id = _memory_id(data)
        await self._keeper.delete(ask, memory_id, operation=_operation(ask))
        return {"status": "success", "memory_id": memory_id}


def _memory_id(data: Mapping[str, Any]) -> str:
    return words.needed(data, "memory_id", "id", missing="data.memory_id is needed")


def _operation(ask: Ask) -> str:
    """Return the name under which an operation is known again, which is "" when its sender gave it none."""
    op_id = ask.message.get("op_id")
    if op_id is None or op_id == "":
        return ""
    if isinstance(op_id, int) and not isinstance(op_id, bool):
        op_id = str(op_id)
    name = words.text({"op_id": op_id}, "op_id")
    return records.id_of(*(words.text(ask.message, key).lower() for key in (KEY, "operation")), name)
