"""The Jarvis memory agent (§3): memories of a person, each any JSON value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grpc
from grpc import aio

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.json_values import exact
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.protocol.concurrency import ConcurrencyLimit
from skein_pc2.protocol.dialect import is_health_request, is_typed_health_request, typed_health_reply
from skein_pc2.protocol.errors import MEMORY_NOT_FOUND, VALIDATION_ERROR, RequestError
from skein_pc2.protocol.frames import Frames, MalformedMessage, Message, repeat_key
from skein_pc2.protocol.health import Health
from skein_pc2.reasoning.records import agent_request, memory_lists, record_values
from skein_pc2.reasoning.records import convert as records
from skein_pc2.reasoning.records.agent_request import Action, AgentRequest

# Keys of a value that hold its text, best first.
_TEXTS = ("text", "content", "message", "value", "summary", "note")
_MAX_CONTENT_CHARACTERS = 100_000
_VALUE, _VALUE_JSON = "memory", "memory_json"


class Jarvis:
    """A port that answers §3 alone, and health."""

    def __init__(self, api: GatewayApi, health: Health, *, max_concurrency: int) -> None:
        """Run up to `max_concurrency` actions at the same time; others wait. Health is answered at once."""
        self._runner = agent_request.RequestRunner(api, ConcurrencyLimit(max_concurrency))
        self._health = health
        self._actions = Memories(api).actions

    async def answer(self, frames: Frames, *, deadline: float) -> Message:
        try:
            message = frames.parse()
        except MalformedMessage as error:
            return agent_request.lower_case_error(str(error))
        if is_health_request(message):
            return self._health.document()
        if is_typed_health_request(message):
            return typed_health_reply(self._health.document())
        name = agent_request.action_name(message)
        action = self._actions.get(name)
        if action is None:
            return agent_request.lower_case_error(agent_request.UNKNOWN_ACTION)
        return await self._runner.answer(message, action, agent_request.lower_case_error, name=name, deadline=deadline)

    def error_reply(self, code: str, text: str) -> Message:
        return agent_request.lower_case_error(text)


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

    async def _add(self, request: AgentRequest) -> Message:
        if _VALUE not in request.message:
            raise RequestError(VALIDATION_ERROR, record_values.MISSING_FIELDS)
        call = pb.CreateMemoryRequest(
            defer_embedding=True,
            memory=to_memory(record_values.user_id(request.message), request.message[_VALUE]),
            request_id=repeat_key(request.message),
        )
        stored = await self._api.call(self._api.memories.CreateMemory, call, request)
        return {"status": "ok", "memory_id": memory_lists.memory_id(stored.memory)}

    async def _get(self, request: AgentRequest) -> Message:
        limit, page_token = memory_lists.parse_page(request.message)
        condition = pb.MemoryFilter(subject_id=record_values.user_id(request.message))
        page = await memory_lists.list_memories(self._api, request, condition, limit=limit, page_token=page_token)
        # Oldest first.
        return {
            "status": "ok",
            "memories": [to_record(memory) for memory in reversed(page.memories)],
            **page.reply_fields(),
        }

    async def _delete(self, request: AgentRequest) -> Message:
        name, user_id = (
            record_values.required_text(request.message, "memory_id"),
            record_values.user_id(request.message),
        )
        not_found_error = RequestError(MEMORY_NOT_FOUND, "Memory not found")
        try:
            result = await self._api.call(self._api.memories.GetMemory, pb.GetMemoryRequest(memory_id=name), request)
            if result.memory.subject_id != user_id:
                raise not_found_error
            await self._api.call(self._api.memories.DeleteMemory, pb.DeleteMemoryRequest(memory_id=name), request)
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            raise not_found_error from None
        return {"status": "ok"}

    async def _clear(self, request: AgentRequest) -> Message:
        """Delete all memories of a person; they can be undeleted for a while."""
        condition = pb.MemoryFilter(subject_id=record_values.user_id(request.message))
        return {"status": "ok", "cleared": await memory_lists.delete_memories(self._api, request, condition)}


def to_memory(user_id: str, value: Any) -> pb.Memory:
    """Return a person's memory that holds a JSON value."""
    stored_fields = (
        {_VALUE: value}
        if record_values.is_storable(value)
        else {_VALUE_JSON: exact.dumps(exact.to_decimals(value), ensure_ascii=True)}
    )
    metadata = record_values.struct(stored_fields, "memory")
    # The value as it will be read, so that a later change of the content can be detected.
    stored = record_values.value_to_json(metadata.fields[_VALUE]) if _VALUE in stored_fields else value
    return pb.Memory(type=_type_or_default(value), content=_to_content(stored), subject_id=user_id, metadata=metadata)


def to_value(memory: pb.Memory) -> Any:
    """Return a memory's JSON value; for a memory of another client, an object with its fields."""
    stored_fields = memory.metadata.fields
    if _VALUE in stored_fields:
        value = record_values.value_to_json(stored_fields[_VALUE])
    else:
        try:
            value = exact.loads_mixed(stored_fields[_VALUE_JSON].string_value if _VALUE_JSON in stored_fields else "")
        except ValueError:
            return _foreign_record(memory)
    if _to_content(value).strip() == memory.content:
        return value
    # Another client changed the content, which takes precedence.
    name = _text_key(value) if isinstance(value, dict) else ""
    return {**value, name: memory.content} if name else memory.content


def to_record(memory: pb.Memory) -> dict[str, Any]:
    """Return a memory as a record of §3."""
    value = to_value(memory)
    if isinstance(value, dict) and records.kind_of(memory):
        # Clients read a type, which reminders are sent without.
        value = {"type": records.kind_of(memory), **value}
    return {
        "id": memory_lists.memory_id(memory),
        "timestamp": memory_lists.create_time_of(memory).timestamp(),
        "memory": value,
    }


def _foreign_record(memory: pb.Memory) -> dict[str, Any]:
    record: dict[str, Any] = {"type": memory.type, "text": memory.content}
    if memory.title:
        record["title"] = memory.title
    if memory.tags:
        record["tags"] = list(memory.tags)
    if memory.data.fields:
        record["data"] = record_values.struct_to_json(memory.data)
    return record


def _type_or_default(value: Any) -> str:
    """Return the value's type if it is valid, else the default."""
    try:
        return record_values.type_name(value.get("type") if isinstance(value, dict) else None)
    except RequestError:
        return record_values.DEFAULT_TYPE


def _to_content(value: Any) -> str:
    """Return the searchable text of a value: its text, or all of it as JSON."""
    if isinstance(value, str) and value.strip():
        return record_values.replace_unstorable(value)
    name = _text_key(value) if isinstance(value, dict) else ""
    if name:
        return record_values.replace_unstorable(value[name])
    return record_values.replace_unstorable(record_values.to_compact_json(value))[:_MAX_CONTENT_CHARACTERS]


def _text_key(value: Mapping[str, Any]) -> str:
    return next((name for name in _TEXTS if isinstance(value.get(name), str) and value[name].strip()), "")
