"""What the interpreter keeps of a person: reminders, a profile, memories and contexts, each of one `user_id` alone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.filters.expression import quoted
from skein_pc2.protocol import fields
from skein_pc2.protocol.errors import MEMORY_NOT_FOUND, VALIDATION_ERROR, RequestError
from skein_pc2.protocol.frames import repeat_key
from skein_pc2.protocol.concurrency import KeyedLock
from skein_pc2.reasoning.jarvis import jarvis
from skein_pc2.reasoning.records import convert as records
from skein_pc2.reasoning.records import memory_lists
from skein_pc2.reasoning.records import record_values as words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skein.tenancy.v1 import subjects_pb2
    from skein_pc2.gateway_api.client import GatewayApi
    from skein_pc2.protocol.frames import Message
    from skein_pc2.reasoning.actions.digital_twins import Twins
    from skein_pc2.reasoning.records.agent_request import Action
    from skein_pc2.reasoning.records.agent_request import Ask

# Types of the memories that keep reminders and contexts. A context is one of this port's, by its kind.
REMINDER, CONTEXT = "reminder", "context"
_MAX_REMINDERS = 500
_DEFAULT_MEMORIES, _MAX_MEMORIES = 10, 200
# Memories of a person whose fields a keyword is looked for in; older ones are found by their words alone.
_MAX_SEARCHED = 200
_MAX_CONTEXTS = 20
_MAX_KEYWORD_CHARACTERS = 1000
_OLDEST_FIRST = "create_time"
_OWN_CONTEXTS = f'metadata.{records.PC2}.{records.KIND} = "{CONTEXT}"'
_MEMORIES = f'type != "{REMINDER}" AND metadata.{records.PC2}.{records.KIND} != "{CONTEXT}"'


class PersonalDataActions:
    """The interpreter's actions."""

    def __init__(self, api: GatewayApi, twins: Twins) -> None:
        self._api = api
        self._twins = twins
        self._lines = KeyedLock()
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

    async def contexts(self, ask: Ask, user: str) -> list[Any]:
        """Return the newest contexts of a person, oldest first."""
        page = await memory_lists.listed(self._api, ask, _contexts_of(user), limit=_MAX_CONTEXTS)
        return [jarvis.value_of(memory) for memory in reversed(page.memories)]

    async def _add_reminder(self, ask: Ask) -> Message:
        reminder = ask.message.get("reminder")
        if isinstance(reminder, str) and reminder.strip():
            reminder = {"message": reminder}
        if not fields.mapping(reminder, "reminder"):
            raise RequestError(VALIDATION_ERROR, words.MISSING)
        return await self._create(ask, reminder, kind=REMINDER)

    async def _list_reminders(self, ask: Ask) -> Message:
        page = await self._reminders(ask)
        return {"status": "ok", "reminders": [_reminder(memory) for memory in page.memories], **page.rest()}

    async def _delete_reminder(self, ask: Ask) -> Message:
        """Delete the reminder at a place of the list, the first at 0."""
        if ask.message.get("index") is None:
            raise RequestError(VALIDATION_ERROR, words.MISSING)
        index = fields.integer(ask.message["index"], "index", default=0, least=0)
        # Two deletions at once are of two places of the same list, one after the other.
        async with self._lines.place(words.user_id(ask.message)):
            page = await self._reminders(ask)
            if index >= len(page.memories):
                text = "Reminder not found"
                raise RequestError(MEMORY_NOT_FOUND, text)
            request = pb.DeleteMemoryRequest(
                memory_id=page.memories[index].memory_id, request_id=repeat_key(ask.message)
            )
            await self._api.call(self._api.memories.DeleteMemory, request, ask)
        return {"status": "ok"}

    async def _delete_all_reminders(self, ask: Ask) -> Message:
        about = _reminders_of(words.user_id(ask.message))
        return {"status": "ok", "deleted": await memory_lists.forget(self._api, ask, about)}

    async def _get_profile(self, ask: Ask) -> Message:
        user = words.user_id(ask.message)
        return {"status": "ok", "profile": _profile(user, await self._twins.find(ask, user))}

    async def _update_profile(self, ask: Ask) -> Message:
        """Change what `updates` names; the rest of the profile stays."""
        user = words.user_id(ask.message)
        updates = fields.mapping(ask.message.get("updates"), "updates")
        if not updates:
            raise RequestError(VALIDATION_ERROR, words.MISSING)
        await self._twins.merge(ask, user, words.struct(updates, "updates"))
        return {"status": "ok", "profile": _profile(user, await self._twins.find(ask, user))}

    async def _get_memory(self, ask: Ask) -> Message:
        about = pb.MemoryFilter(subject_id=words.user_id(ask.message), where=_MEMORIES)
        page = await memory_lists.listed(self._api, ask, about, limit=_limit(ask))
        return {"status": "ok", "memory": [_entry(memory) for memory in reversed(page.memories)], **page.rest()}

    async def _search_memory(self, ask: Ask) -> Message:
        """Find a person's memories that hold a keyword, as it is written but in any case; newest first."""
        keyword = words.needed(ask.message, "keyword", "query").strip()
        if len(keyword) > _MAX_KEYWORD_CHARACTERS:
            raise fields.invalid("keyword", f"has {_MAX_KEYWORD_CHARACTERS} characters at most")
        user, limit = words.user_id(ask.message), _limit(ask)
        by_text = pb.MemoryFilter(subject_id=user, where=f"{_MEMORIES} AND content:{quoted(keyword)}")
        newest = pb.MemoryFilter(subject_id=user, where=_MEMORIES)
        pages = await asyncio.gather(
            memory_lists.listed(self._api, ask, by_text, limit=limit),
            memory_lists.listed(self._api, ask, newest, limit=_MAX_SEARCHED),
        )
        found = {memory.memory_id: memory for memory in pages[0].memories}
        found |= {memory.memory_id: memory for memory in pages[1].memories if _holds(memory, keyword)}
        results = sorted(found.values(), key=memory_lists.created, reverse=True)[:limit]
        return {"status": "ok", "results": [_entry(memory) for memory in results]}

    async def _add_context(self, ask: Ask) -> Message:
        if ask.message.get("context") in (None, "", [], {}):
            raise RequestError(VALIDATION_ERROR, words.MISSING)
        return await self._create(ask, ask.message["context"], kind=CONTEXT)

    async def _clear_context(self, ask: Ask) -> Message:
        about = _contexts_of(words.user_id(ask.message))
        return {"status": "ok", "cleared": await memory_lists.forget(self._api, ask, about)}

    async def _create(self, ask: Ask, value: Any, *, kind: str) -> Message:
        memory = jarvis.memory_of(words.user_id(ask.message), value)
        memory.type = kind
        records.set_kind(memory, kind)
        request = pb.CreateMemoryRequest(defer_embedding=True, memory=memory, request_id=repeat_key(ask.message))
        # A list of reminders has the order in which they were added.
        async with self._lines.place(words.user_id(ask.message)):
            stored = await self._api.call(self._api.memories.CreateMemory, request, ask)
        return {"status": "ok", "memory_id": memory_lists.memory_id(stored.memory)}

    async def _reminders(self, ask: Ask) -> memory_lists.Page:
        about = _reminders_of(words.user_id(ask.message))
        return await memory_lists.listed(self._api, ask, about, limit=_MAX_REMINDERS, order_by=_OLDEST_FIRST)


def _reminders_of(user: str) -> pb.MemoryFilter:
    return pb.MemoryFilter(subject_id=user, types=[REMINDER])


def _contexts_of(user: str) -> pb.MemoryFilter:
    return pb.MemoryFilter(subject_id=user, types=[CONTEXT], where=_OWN_CONTEXTS)


def _reminder(memory: pb.Memory) -> dict[str, Any]:
    """Write a reminder with the fields that its client reads, also one that a typed client has stored."""
    value = jarvis.value_of(memory)
    said = value if isinstance(value, dict) else {}
    return {"id": memory_lists.memory_id(memory), "time": "", "message": memory.content, **said}


def _profile(user: str, subject: subjects_pb2.Subject | None) -> dict[str, Any]:
    profile: dict[str, Any] = {"name": user, "preferences": {}, "taught_commands": {}}
    if subject is None:
        return profile
    if subject.display_name:
        profile["name"] = subject.display_name
    return {**profile, "preferences": words.plain(subject.preferences), **words.plain(subject.profile)}


def _entry(memory: pb.Memory) -> dict[str, Any]:
    return {**jarvis.to_record(memory), "type": memory.type, "content": memory.content}


def _holds(memory: pb.Memory, keyword: str) -> bool:
    """Say whether any text of a memory holds a keyword, in any case."""
    wanted = keyword.casefold()
    return any(wanted in text.casefold() for text in _texts([memory.title, memory.content, jarvis.value_of(memory)]))


def _texts(values: Iterable[Any]) -> Iterable[str]:
    """Yield the texts of JSON values."""
    left = list(values)
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            left += value
        elif isinstance(value, str):
            yield value


def _limit(ask: Ask) -> int:
    limit = fields.integer(ask.message.get("limit"), "limit", default=_DEFAULT_MEMORIES, least=1)
    return min(limit, _MAX_MEMORIES)
