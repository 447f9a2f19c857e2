"""update_memories: what the decay manager has changed of memories and messages, and what it has consolidated."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.field_mask_pb2 import FieldMask
from grpc import aio

from skein.memory.v1 import memory_pb2 as pb
from skein.session.v1 import session_pb2
from skein_pc2.protocol import fields
from skein_pc2.protocol.errors import VALIDATION_ERROR, RequestError
from skein_pc2.protocol.concurrency import KeyedLock
from skein_pc2.reasoning.actions import decay
from skein_pc2.reasoning.records import convert as records
from skein_pc2.reasoning.records import record_values
from skein_pc2.reasoning.records import memory_lists

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skein_pc2.gateway_api.client import GatewayApi
    from skein_pc2.protocol.frames import Message
    from skein_pc2.protocol.concurrency import RequestContext
    from skein_pc2.reasoning.actions.background_updates import BackgroundUpdates, Update
    from skein_pc2.reasoning.records.agent_request import Ask
    from skein_pc2.reasoning.records.memory_store import MemoryStore

# `get_all_memories` tells fewer, so that a client can send back all that it was told.
MAX_ITEMS = 1000
# Recent messages are read from so many sessions, the newest, and so many of each.
_MAX_SESSIONS, _MAX_MESSAGES = 8, 25
# What the contents of recent messages take of an answer, which is sent back whole.
_MAX_MESSAGE_BYTES = 512 * 1024
# Of the time for a list, what it waits for updates in the background.
_SHARE_OF_TIME_TO_SETTLE = 0.5
# Sessions, or messages, are gone or went to cold storage meanwhile.
_GONE = (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION)


@dataclass(frozen=True, slots=True)
class _ItemIndex:
    """What the items of a request are about, by id and by what tells items without an id apart."""

    memories: dict[object, pb.Memory] = field(default_factory=dict)
    messages: dict[object, session_pb2.Message] = field(default_factory=dict)


class MemoryUpdates:
    """Writes items into the memories and messages that they come from, and stores the new ones."""

    def __init__(self, api: GatewayApi, keeper: MemoryStore, background: BackgroundUpdates) -> None:
        self._api = api
        self._keeper = keeper
        self._background = background
        self._lines = KeyedLock()

    async def update(self, ask: Ask) -> Message:
        """Change what is known where an item differs from it; store the other items as memories."""
        items = _items(ask.message.get("memories"))
        # Without ids, items are told apart by what is stored.
        await self.settle(ask)
        known = await self._known(ask, items)
        fresh: list[pb.Memory] = []
        # By the ids of what they change.
        changes: dict[str, Update] = {}
        by_session: defaultdict[str, dict[str, Update]] = defaultdict(dict)
        targets: set[str] = set()
        for place, item in enumerate(items):
            message_id = record_values.text(item, "message_id")
            message = known.messages.get(message_id or decay.key_of(item))
            memory = known.memories.get(_name(item) or decay.key_of(item))
            if message is not None:
                targets.add(message.message_id)
                if decay.change_message(message, item, ask.at):
                    change = partial(self._change_message, message)
                    by_session[message.session_id][message.message_id] = change
            elif memory is not None:
                targets.add(memory.memory_id)
                if paths := decay.change_memory(memory, item, ask.at):
                    changes[memory.memory_id] = partial(self._change_memory, memory, paths)
            elif not message_id:
                external_id = _name(item) or records.new_id(ask.message, place)
                fresh.append(decay.new_memory(item, external_id=external_id, at=ask.at))
        # Changes of one session wait for each other, so the sessions take turns.
        for change_of_each in zip_longest(*(session.items() for session in by_session.values())):
            changes |= dict(filter(None, change_of_each))
        await self._background.supersede(targets)
        writes: dict[str, Update] = {memory.external_id: partial(self._create, memory) for memory in fresh} | changes
        done = await self._keeper.together(ask, [partial(write, ask) for write in writes.values()])
        remaining = done.count(None)
        for (target, write), result in zip(writes.items(), done, strict=True):
            if result is None:
                self._background.submit(target, write)
        counts = {"updated": done[-len(changes) :].count(True) if changes else 0, "stored": 0}
        counts["stored"] = done.count(True) - counts["updated"]
        return {
            "status": "success",
            **counts,
            "unchanged": len(items) - sum(counts.values()) - remaining,
            **({"remaining": remaining} if remaining else {}),
        }

    async def settle(self, ask: Ask) -> None:
        """Wait for updates in the background, as long as there is time for it."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._background.drained(), ask.seconds() * _SHARE_OF_TIME_TO_SETTLE)

    async def recent_messages(self, ask: Ask) -> tuple[list[session_pb2.Message], bool]:
        """Return the newest messages of the newest sessions, newest first, and whether there are more."""
        request = session_pb2.ListSessionsRequest(page_size=_MAX_SESSIONS)
        listed = await self._api.call(self._api.sessions.ListSessions, request, ask)
        pages = await asyncio.gather(*(self._messages(ask, session.session_id) for session in listed.sessions))
        found = sorted(
            (message for page in pages for message in page.messages),
            key=lambda message: (message.create_time.ToNanoseconds(), message.sequence),
            reverse=True,
        )
        size = 0
        for count, message in enumerate(found):
            size += message.ByteSize()
            if count and size > _MAX_MESSAGE_BYTES:
                return found[:count], True
        return found, bool(listed.next_page_token) or any(page.next_page_token for page in pages)

    async def _messages(self, ask: Ask, session_id: str) -> session_pb2.ListMessagesResponse:
        request = session_pb2.ListMessagesRequest(session_id=session_id, page_size=_MAX_MESSAGES, newest_first=True)
        try:
            return await self._api.call(self._api.sessions.ListMessages, request, ask)
        except aio.AioRpcError as error:
            if error.code() not in _GONE:
                raise
            return session_pb2.ListMessagesResponse()

    async def _known(self, ask: Ask, items: list[dict[str, Any]]) -> _ItemIndex:
        known = _ItemIndex()
        message_ids = {name for item in items if (name := record_values.text(item, "message_id"))}
        names = [name for item in items if (name := _name(item)) and name not in message_ids]
        if names:
            found = await self._keeper.several(ask, names)
            known.memories.update({name: memory for name in names if (memory := found.get(name)) is not None})
        has_nameless = any(not _name(item) and not record_values.text(item, "message_id") for item in items)
        if has_nameless:
            page = await memory_lists.listed(self._api, ask, pb.MemoryFilter(), limit=memory_lists.MOST)
            for memory in page.memories:
                known.memories.setdefault(decay.key_of(decay.memory_item(memory, ask.at)), memory)
        if message_ids or has_nameless:
            for message in (await self.recent_messages(ask))[0]:
                known.messages[message.message_id] = message
                if has_nameless:
                    known.messages.setdefault(decay.key_of(decay.message_item(message, ask.at)), message)
        # Newer messages have taken the place of these.
        missing = sorted(message_ids - known.messages.keys())
        read = await self._keeper.together(ask, [partial(self._read_message, ask, name, known) for name in missing])
        if None in read:
            raise TimeoutError
        return known

    async def _read_message(self, ask: Ask, name: str, known: _ItemIndex) -> bool:
        request = session_pb2.GetMessageRequest(message_id=name)
        try:
            known.messages[name] = (await self._api.call(self._api.sessions.GetMessage, request, ask)).message
        except aio.AioRpcError as error:
            if error.code() not in _GONE:
                raise
        return True

    async def _create(self, memory: pb.Memory, errand: RequestContext) -> bool:
        return await self._keeper.create(errand, memory)

    async def _change_memory(self, memory: pb.Memory, paths: Sequence[str], errand: RequestContext) -> bool:
        # The sender has read it, so its word holds, whatever the memory is by now.
        memory.revision = 0
        try:
            await self._keeper.update(errand, memory, paths)
        except aio.AioRpcError as error:
            if error.code() not in _GONE:
                raise
            return False
        return True

    async def _change_message(self, message: session_pb2.Message, errand: RequestContext) -> bool:
        changed = session_pb2.Message(message_id=message.message_id, metadata=message.metadata)
        request = session_pb2.UpdateMessageRequest(message=changed, update_mask=FieldMask(paths=["metadata"]))
        try:
            async with self._lines.place(message.session_id):
                await self._api.call(self._api.sessions.UpdateMessage, request, errand)
        except aio.AioRpcError as error:
            if error.code() not in _GONE:
                raise
            return False
        return True


def _items(value: object) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        raise RequestError(VALIDATION_ERROR, record_values.MISSING)
    if len(value) > MAX_ITEMS:
        raise fields.invalid("memories", f"are {MAX_ITEMS} at most")
    if not all(isinstance(item, dict) for item in value):
        raise fields.invalid("memories", "are objects")
    return value


def _name(item: Mapping[str, Any]) -> str:
    return record_values.text(item, "id", "memory_id")
