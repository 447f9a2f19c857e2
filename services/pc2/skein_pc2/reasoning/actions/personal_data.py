"""The interpreter's data of one `user_id`: reminders, profile, memories and contexts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from skein.memory.v1 import memory_pb2 as pb
from skein.tenancy.v1 import subjects_pb2
from skein_kit.filters.expression import quote
from skein_kit.text.unicode_form import contains
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.protocol import fields
from skein_pc2.protocol.concurrency import KeyedLock
from skein_pc2.protocol.errors import MEMORY_NOT_FOUND, VALIDATION_ERROR, RequestError
from skein_pc2.protocol.frames import Message, repeat_key
from skein_pc2.reasoning.actions.digital_twins import DigitalTwins
from skein_pc2.reasoning.jarvis import jarvis
from skein_pc2.reasoning.records import convert as records
from skein_pc2.reasoning.records import memory_lists, record_values
from skein_pc2.reasoning.records.agent_request import Action, AgentRequest

# Types of memories that hold reminders and contexts. The kind distinguishes this port's contexts from others.
REMINDER, CONTEXT = "reminder", "context"
_MAX_REMINDERS = 500
_DEFAULT_MEMORIES, _MAX_MEMORIES = 10, 200
# Newest memories whose fields are searched for a keyword; older ones match by content alone.
_MAX_SEARCHED_MEMORIES = 200
_MAX_CONTEXTS = 20
_MAX_KEYWORD_CHARACTERS = 1000
_OLDEST_FIRST = "create_time"
_OWN_CONTEXTS = f'metadata.{records.PC2}.{records.KIND} = "{CONTEXT}"'
_OTHER_MEMORIES = f'type != "{REMINDER}" AND metadata.{records.PC2}.{records.KIND} != "{CONTEXT}"'


class PersonalDataActions:
    """The interpreter's actions."""

    def __init__(self, api: GatewayApi, twins: DigitalTwins) -> None:
        self._api = api
        self._twins = twins
        self._locks = KeyedLock()
        self.actions: dict[str, Action] = {
            "add_reminder": self._add_reminder,
            "list_reminders": self._list_reminders,
            "delete_reminder": self._delete_reminder,
            "delete_all_reminders": self._delete_all_reminders,
            "get_profile": self._get_profile,
            "update_profile": self._update_profile,
            "get_memory": self._get_memory,
            "search_memory": self._search_memory,
            "add_context": self._add_context,
            "clear_context": self._clear_context,
        }

    async def contexts(self, request: AgentRequest, user_id: str) -> list[Any]:
        """Return the newest contexts of a person, oldest first."""
        page = await memory_lists.list_memories(self._api, request, _contexts_of(user_id), limit=_MAX_CONTEXTS)
        return [jarvis.to_value(memory) for memory in reversed(page.memories)]

    async def _add_reminder(self, request: AgentRequest) -> Message:
        reminder = request.message.get("reminder")
        if isinstance(reminder, str) and reminder.strip():
            reminder = {"message": reminder}
        if not fields.mapping(reminder, "reminder"):
            raise RequestError(VALIDATION_ERROR, record_values.MISSING_FIELDS)
        return await self._create(request, reminder, kind=REMINDER)

    async def _list_reminders(self, request: AgentRequest) -> Message:
        page = await self._reminders(request)
        return {"status": "ok", "reminders": [_to_reminder(memory) for memory in page.memories], **page.reply_fields()}

    async def _delete_reminder(self, request: AgentRequest) -> Message:
        """Delete the reminder at an index of the list, from 0."""
        if request.message.get("index") is None:
            raise RequestError(VALIDATION_ERROR, record_values.MISSING_FIELDS)
        index = fields.integer(request.message["index"], "index", default=0, minimum=0)
        # Concurrent deletions by index must run one after another.
        async with self._locks.hold(record_values.user_id(request.message)):
            page = await self._reminders(request)
            if index >= len(page.memories):
                raise RequestError(MEMORY_NOT_FOUND, "Reminder not found")
            call = pb.DeleteMemoryRequest(
                memory_id=page.memories[index].memory_id, request_id=repeat_key(request.message)
            )
            await self._api.call(self._api.memories.DeleteMemory, call, request)
        return {"status": "ok"}

    async def _delete_all_reminders(self, request: AgentRequest) -> Message:
        condition = _reminders_of(record_values.user_id(request.message))
        return {"status": "ok", "deleted": await memory_lists.delete_memories(self._api, request, condition)}

    async def _get_profile(self, request: AgentRequest) -> Message:
        user_id = record_values.user_id(request.message)
        return {"status": "ok", "profile": _to_profile(user_id, await self._twins.find(request, user_id))}

    async def _update_profile(self, request: AgentRequest) -> Message:
        """Merge `updates` into the profile."""
        user_id = record_values.user_id(request.message)
        updates = fields.mapping(request.message.get("updates"), "updates")
        if not updates:
            raise RequestError(VALIDATION_ERROR, record_values.MISSING_FIELDS)
        await self._twins.merge(request, user_id, record_values.struct(updates, "updates"))
        return {"status": "ok", "profile": _to_profile(user_id, await self._twins.find(request, user_id))}

    async def _get_memory(self, request: AgentRequest) -> Message:
        condition = pb.MemoryFilter(subject_id=record_values.user_id(request.message), where=_OTHER_MEMORIES)
        page = await memory_lists.list_memories(self._api, request, condition, limit=_parse_limit(request))
        return {
            "status": "ok",
            "memory": [_to_entry(memory) for memory in reversed(page.memories)],
            **page.reply_fields(),
        }

    async def _search_memory(self, request: AgentRequest) -> Message:
        """Find a person's memories that contain a keyword, ignoring case; newest first."""
        keyword = record_values.required_text(request.message, "keyword", "query").strip()
        if len(keyword) > _MAX_KEYWORD_CHARACTERS:
            raise fields.invalid("keyword", f"has {_MAX_KEYWORD_CHARACTERS} characters at most")
        user_id, limit = record_values.user_id(request.message), _parse_limit(request)
        by_text = pb.MemoryFilter(subject_id=user_id, where=f"{_OTHER_MEMORIES} AND content:{quote(keyword)}")
        newest = pb.MemoryFilter(subject_id=user_id, where=_OTHER_MEMORIES)
        pages = await asyncio.gather(
            memory_lists.list_memories(self._api, request, by_text, limit=limit),
            memory_lists.list_memories(self._api, request, newest, limit=_MAX_SEARCHED_MEMORIES),
        )
        result = {memory.memory_id: memory for memory in pages[0].memories}
        result |= {memory.memory_id: memory for memory in pages[1].memories if _contains(memory, keyword)}
        results = sorted(result.values(), key=memory_lists.create_time_of, reverse=True)[:limit]
        return {"status": "ok", "results": [_to_entry(memory) for memory in results]}

    async def _add_context(self, request: AgentRequest) -> Message:
        if request.message.get("context") in (None, "", [], {}):
            raise RequestError(VALIDATION_ERROR, record_values.MISSING_FIELDS)
        return await self._create(request, request.message["context"], kind=CONTEXT)

    async def _clear_context(self, request: AgentRequest) -> Message:
        condition = _contexts_of(record_values.user_id(request.message))
        return {"status": "ok", "cleared": await memory_lists.delete_memories(self._api, request, condition)}

    async def _create(self, request: AgentRequest, value: Any, *, kind: str) -> Message:
        memory = jarvis.to_memory(record_values.user_id(request.message), value)
        memory.type = kind
        records.set_kind(memory, kind)
        call = pb.CreateMemoryRequest(defer_embedding=True, memory=memory, request_id=repeat_key(request.message))
        # Reminders are listed in the order of their creation.
        async with self._locks.hold(record_values.user_id(request.message)):
            stored = await self._api.call(self._api.memories.CreateMemory, call, request)
        return {"status": "ok", "memory_id": memory_lists.memory_id(stored.memory)}

    async def _reminders(self, request: AgentRequest) -> memory_lists.MemoryPage:
        condition = _reminders_of(record_values.user_id(request.message))
        return await memory_lists.list_memories(
            self._api, request, condition, limit=_MAX_REMINDERS, order_by=_OLDEST_FIRST
        )


def _reminders_of(user_id: str) -> pb.MemoryFilter:
    return pb.MemoryFilter(subject_id=user_id, types=[REMINDER])


def _contexts_of(user_id: str) -> pb.MemoryFilter:
    return pb.MemoryFilter(subject_id=user_id, types=[CONTEXT], where=_OWN_CONTEXTS)


def _to_reminder(memory: pb.Memory) -> dict[str, Any]:
    """Return a reminder with all fields that clients read, also for one from a typed client."""
    value = jarvis.to_value(memory)
    values = value if isinstance(value, dict) else {}
    return {"id": memory_lists.memory_id(memory), "time": "", "message": memory.content, **values}


def _to_profile(user_id: str, subject: subjects_pb2.Subject | None) -> dict[str, Any]:
    profile: dict[str, Any] = {"name": user_id, "preferences": {}, "taught_commands": {}}
    if subject is None:
        return profile
    if subject.display_name:
        profile["name"] = subject.display_name
    return {
        **profile,
        "preferences": record_values.struct_to_json(subject.preferences),
        **record_values.struct_to_json(subject.profile),
    }


def _to_entry(memory: pb.Memory) -> dict[str, Any]:
    return {**jarvis.to_record(memory), "type": memory.type, "content": memory.content}


def _contains(memory: pb.Memory, keyword: str) -> bool:
    """Say whether any text of a memory contains a keyword, in any case and form of Unicode."""
    return any(
        contains(text, keyword) for text in _iterate_texts([memory.title, memory.content, jarvis.to_value(memory)])
    )


def _iterate_texts(values: Iterable[Any]) -> Iterable[str]:
    """Yield the texts of JSON values."""
    pending = list(values)
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending += value.values()
        elif isinstance(value, list):
            pending += value
        elif isinstance(value, str):
            yield value


def _parse_limit(request: AgentRequest) -> int:
    limit = fields.integer(request.message.get("limit"), "limit", default=_DEFAULT_MEMORIES, minimum=1)
    return min(limit, _MAX_MEMORIES)
