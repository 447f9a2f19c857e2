"""The Jarvis memory agent: what is remembered of a person, any JSON value at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
from grpc import aio

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.json_values import exact
from skein_pc2.protocol.dialect import answer_by_type, is_health, is_health_by_type
from skein_pc2.protocol.errors import MEMORY_NOT_FOUND, VALIDATION_ERROR, RequestError
from skein_pc2.protocol.frames import Frames, MalformedMessage, Message, repeat_key
from skein_pc2.protocol.concurrency import ConcurrencyLimit
from skein_pc2.reasoning.records import agent_request as talk
from skein_pc2.reasoning.records import convert as records
from skein_pc2.reasoning.records import record_values
from skein_pc2.reasoning.records import memory_lists

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skein_pc2.gateway_api.client import GatewayApi
    from skein_pc2.protocol.health import Health
    from skein_pc2.reasoning.records.agent_request import Action
    from skein_pc2.reasoning.records.agent_request import Ask

# Where a value says in words what it is about, the best first.
_TEXTS = ("text", "content", "message", "value", "summary", "note")
_MOST_CHARACTERS = 100_000
_VALUE, _VALUE_JSON = "memory", "memory_json"


class Jarvis:
    """Answers §3 of the protocol, and health; a port may be given to it alone."""

    def __init__(self, api: GatewayApi, health: Health, *, at_once: int) -> None:
        """Work on so many messages at the same time; others wait for their turn, health never does."""
        self._talk = talk.RequestRunner(api, ConcurrencyLimit(at_once))
        self._health = health
        self._actions = Memories(api).actions

    async def answer(self, frames: Frames, *, deadline: float) -> Message:
        try:
            message = frames.parsed()
        except MalformedMessage as malformed:
            return talk.lower_case(str(malformed))
        if is_health(message):
            return self._health.document()
        if is_health_by_type(message):
            return answer_by_type(self._health.document())
        name = talk.verb(message)
        action = self._actions.get(name)
        if action is None:
            return talk.lower_case(talk.UNKNOWN_ACTION)
        return await self._talk.answer(message, action, talk.lower_case, name=name, deadline=deadline)

    def refused(self, code: str, text: str) -> Message:
        return talk.lower_case(text)


class Memories:
    """The actions of §3."""

    def __init__(self, api: GatewayApi) -> None:
        self._api = api
        self.actions: dict[str, Action] = {
            "add_memory": self._add,
            "get_memories": self._get,
            "delete_memory": self._delete,
            "clear_memories": self._clear,
        }

    async def _add(self, ask: Ask) -> Message:
        if _VALUE not in ask.message:
            raise RequestError(VALIDATION_ERROR, record_values.MISSING)
        request = pb.CreateMemoryRequest(
            defer_embedding=True,
            memory=memory_of(record_values.user_id(ask.message), ask.message[_VALUE]),
            request_id=repeat_key(ask.message),
        )
        stored = await self._api.call(self._api.memories.CreateMemory, request, ask)
        return {"status": "ok", "memory_id": memory_lists.memory_id(stored.memory)}

    async def _get(self, ask: Ask) -> Message:
        limit, page_token = memory_lists.bounds(ask.message)
        about = pb.MemoryFilter(subject_id=record_values.user_id(ask.message))
        page = await memory_lists.listed(self._api, ask, about, limit=limit, page_token=page_token)
        # In the order in which they were told.
        return {"status": "ok", "memories": [to_record(memory) for memory in reversed(page.memories)], **page.rest()}

    async def _delete(self, ask: Ask) -> Message:
        name, user = record_values.needed(ask.message, "memory_id"), record_values.user_id(ask.message)
        missing = RequestError(MEMORY_NOT_FOUND, "Memory not found")
        try:
            found = await self._api.call(self._api.memories.GetMemory, pb.GetMemoryRequest(memory_id=name), ask)
            if found.memory.subject_id != user:
                raise missing
            await self._api.call(self._api.memories.DeleteMemory, pb.DeleteMemoryRequest(memory_id=name), ask)
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            raise missing from None
        return {"status": "ok"}

    async def _clear(self, ask: Ask) -> Message:
        """Forget all that `get_memories` would tell; as after any deletion, it can be restored for a while."""
        about = pb.MemoryFilter(subject_id=record_values.user_id(ask.message))
        return {"status": "ok", "cleared": await memory_lists.forget(self._api, ask, about)}


def memory_of(user: str, value: Any) -> pb.Memory:
    """Make the memory of a person that keeps a JSON value."""
    kept = (
        {_VALUE: value}
        if record_values.is_storable(value)
        else {_VALUE_JSON: exact.dumps(exact.to_decimals(value), ensure_ascii=True)}
    )
    metadata = record_values.struct(kept, "memory")
    # As it will be read, so that whoever reads it sees whether somebody has changed the words since.
    stored = record_values.plain_value(metadata.fields[_VALUE]) if _VALUE in kept else value
    return pb.Memory(type=_type(value), content=_content(stored), subject_id=user, metadata=metadata)


def value_of(memory: pb.Memory) -> Any:
    """Return the JSON value that a memory keeps; of one that was stored otherwise, what it says."""
    kept = memory.metadata.fields
    if _VALUE in kept:
        value = record_values.plain_value(kept[_VALUE])
    else:
        try:
            value = exact.loads_mixed(kept[_VALUE_JSON].string_value if _VALUE_JSON in kept else "")
        except ValueError:
            return _search_text(memory)
    if _content(value).strip() == memory.content:
        return value
    # The text is the truth: somebody has changed it since.
    name = _string_values(value) if isinstance(value, dict) else ""
    return {**value, name: memory.content} if name else memory.content


def to_record(memory: pb.Memory) -> dict[str, Any]:
    """Write a memory as §3 tells it."""
    value = value_of(memory)
    if isinstance(value, dict) and records.kind(memory):
        # Clients tell memories apart by their type, which a reminder comes without.
        value = {"type": records.kind(memory), **value}
    return {
        "id": memory_lists.memory_id(memory),
        "timestamp": memory_lists.created(memory).timestamp(),
        "memory": value,
    }


def _search_text(memory: pb.Memory) -> dict[str, Any]:
    described: dict[str, Any] = {"type": memory.type, "text": memory.content}
    if memory.title:
        described["title"] = memory.title
    if memory.tags:
        described["tags"] = list(memory.tags)
    if memory.data.fields:
        described["data"] = record_values.plain(memory.data)
    return described


def _type(value: Any) -> str:
    """Return the type that a value names, if it can be one."""
    try:
        return record_values.type_name(value.get("type") if isinstance(value, dict) else None)
    except RequestError:
        return record_values.DEFAULT_TYPE


def _content(value: Any) -> str:
    """Return the words by which a value is found: its own, or all of it."""
    if isinstance(value, str) and value.strip():
        return record_values.replace_unstorable(value)
    name = _string_values(value) if isinstance(value, dict) else ""
    if name:
        return record_values.replace_unstorable(value[name])
    return record_values.replace_unstorable(record_values.to_compact_json(value))[:_MOST_CHARACTERS]


def _string_values(value: Mapping[str, Any]) -> str:
    return next((name for name in _TEXTS if isinstance(value.get(name), str) and value[name].strip()), "")
