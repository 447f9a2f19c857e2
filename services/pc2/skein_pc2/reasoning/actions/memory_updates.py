"""update_memories: the decay manager's changes of memories and messages, and its consolidated memories."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Any

import grpc
from google.protobuf.field_mask_pb2 import FieldMask
from grpc import aio

from skein.memory.v1 import memory_pb2 as pb
from skein.session.v1 import session_pb2
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.protocol import fields
from skein_pc2.protocol.concurrency import KeyedLock, RequestContext
from skein_pc2.protocol.errors import VALIDATION_ERROR, RequestError
from skein_pc2.protocol.frames import Message
from skein_pc2.reasoning.actions import decay
from skein_pc2.reasoning.actions.background_updates import BackgroundUpdates, Update
from skein_pc2.reasoning.records import convert as records
from skein_pc2.reasoning.records import memory_lists, record_values
from skein_pc2.reasoning.records.agent_request import AgentRequest
from skein_pc2.reasoning.records.memory_store import MemoryStore

# More than `get_all_memories` returns, so that clients can send back all items.
MAX_ITEMS = 1000
# Newest sessions whose recent messages are read, and messages of each.
_MAX_SESSIONS, _MAX_MESSAGES = 8, 25
# Bytes of recent messages in a reply, which clients send back as a whole.
_MAX_MESSAGE_BYTES = 512 * 1024
# Share of a list's time that it waits for background updates.
_BACKGROUND_WAIT_SHARE = 0.5
# Codes for sessions or messages that were deleted or archived since.
_MISSING_CODES = (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION)


@dataclass(frozen=True, slots=True)
class _ItemIndex:
    """Memories and messages of a request's items, by id, and by key for items without an id."""

    memories: dict[object, pb.Memory] = field(default_factory=dict)
    messages: dict[object, session_pb2.Message] = field(default_factory=dict)


class MemoryUpdates:
    """Applies items to their memories and messages, and creates memories for new items."""

    def __init__(self, api: GatewayApi, store: MemoryStore, background: BackgroundUpdates) -> None:
        self._api = api
        self._memories = store
        self._background = background
        self._locks = KeyedLock()

    async def update(self, request: AgentRequest) -> Message:
        """Apply items that differ from their memory or message; create memories for the others."""
        items = _parse_items(request.message.get("memories"))
        # Items without ids are matched with stored ones.
        await self.wait_background(request)
        index = await self._index_items(request, items)
        new_memories: list[pb.Memory] = []
        # By the id of their target.
        changes: dict[str, Update] = {}
        changes_by_session: defaultdict[str, dict[str, Update]] = defaultdict(dict)
        targets: set[str] = set()
        for position, item in enumerate(items):
            message_id = record_values.text(item, "message_id")
            message = index.messages.get(message_id or decay.content_key(item))
            memory = index.memories.get(_item_id(item) or decay.content_key(item))
            if message is not None:
                targets.add(message.message_id)
                if decay.change_message(message, item, request.at):
                    change = partial(self._change_message, message)
                    changes_by_session[message.session_id][message.message_id] = change
            elif memory is not None:
                targets.add(memory.memory_id)
                if paths := decay.change_memory(memory, item, request.at):
                    changes[memory.memory_id] = partial(self._change_memory, memory, paths)
            elif not message_id:
                external_id = _item_id(item) or records.new_id(request.message, position)
                new_memories.append(decay.new_memory(item, external_id=external_id, at=request.at))
        # Changes of one session are serial, so sessions alternate.
        for session_changes in zip_longest(*(session.items() for session in changes_by_session.values())):
            changes |= dict(filter(None, session_changes))
        await self._background.supersede(targets)
        writes: dict[str, Update] = {
            memory.external_id: partial(self._create, memory) for memory in new_memories
        } | changes
        results = await self._memories.call_all(request, [partial(write, request) for write in writes.values()])
        remaining = results.count(None)
        for (target, write), result in zip(writes.items(), results, strict=True):
            if result is None:
                self._background.submit(target, write)
        counts = {"updated": results[-len(changes) :].count(True) if changes else 0, "stored": 0}
        counts["stored"] = results.count(True) - counts["updated"]
        return {
            "status": "success",
            **counts,
            "unchanged": len(items) - sum(counts.values()) - remaining,
            **({"remaining": remaining} if remaining else {}),
        }

    async def wait_background(self, request: AgentRequest) -> None:
        """Wait for background updates, for a share of the remaining time."""
        with suppress(TimeoutError):
            await asyncio.wait_for(
                self._background.wait_drained(), request.remaining_seconds() * _BACKGROUND_WAIT_SHARE
            )

    async def recent_messages(self, request: AgentRequest) -> tuple[list[session_pb2.Message], bool]:
        """Return the newest messages of the newest sessions, newest first, and whether there are more."""
        call = session_pb2.ListSessionsRequest(page_size=_MAX_SESSIONS)
        session_list = await self._api.call(self._api.sessions.ListSessions, call, request)
        pages = await asyncio.gather(
            *(self._session_messages(request, session.session_id) for session in session_list.sessions)
        )
        result = sorted(
            (message for page in pages for message in page.messages),
            key=lambda message: (message.create_time.ToNanoseconds(), message.sequence),
            reverse=True,
        )
        size = 0
        for count, message in enumerate(result):
            size += message.ByteSize()
            if count and size > _MAX_MESSAGE_BYTES:
                return result[:count], True
        return result, bool(session_list.next_page_token) or any(page.next_page_token for page in pages)

    async def _session_messages(self, request: AgentRequest, session_id: str) -> session_pb2.ListMessagesResponse:
        call = session_pb2.ListMessagesRequest(session_id=session_id, page_size=_MAX_MESSAGES, newest_first=True)
        try:
            return await self._api.call(self._api.sessions.ListMessages, call, request)
        except aio.AioRpcError as error:
            if error.code() not in _MISSING_CODES:
                raise
            return session_pb2.ListMessagesResponse()

    async def _index_items(self, request: AgentRequest, items: list[dict[str, Any]]) -> _ItemIndex:
        index = _ItemIndex()
        message_ids = {name for item in items if (name := record_values.text(item, "message_id"))}
        names = [name for item in items if (name := _item_id(item)) and name not in message_ids]
        if names:
            result = await self._memories.get_many(request, names)
            index.memories.update({name: memory for name in names if (memory := result.get(name)) is not None})
        has_items_without_id = any(not _item_id(item) and not record_values.text(item, "message_id") for item in items)
        if has_items_without_id:
            page = await memory_lists.list_memories(self._api, request, pb.MemoryFilter(), limit=memory_lists.MAX_LIMIT)
            for memory in page.memories:
                index.memories.setdefault(decay.content_key(decay.memory_item(memory, request.at)), memory)
        if message_ids or has_items_without_id:
            for message in (await self.recent_messages(request))[0]:
                index.messages[message.message_id] = message
                if has_items_without_id:
                    index.messages.setdefault(decay.content_key(decay.message_item(message, request.at)), message)
        # These messages are too old for recent_messages.
        missing_ids = sorted(message_ids - index.messages.keys())
        results = await self._memories.call_all(
            request, [partial(self._read_message, request, name, index) for name in missing_ids]
        )
        if None in results:
            raise TimeoutError
        return index

    async def _read_message(self, request: AgentRequest, name: str, index: _ItemIndex) -> bool:
        call = session_pb2.GetMessageRequest(message_id=name)
        try:
            index.messages[name] = (await self._api.call(self._api.sessions.GetMessage, call, request)).message
        except aio.AioRpcError as error:
            if error.code() not in _MISSING_CODES:
                raise
        return True

    async def _create(self, memory: pb.Memory, context: RequestContext) -> bool:
        return await self._memories.create(context, memory)

    async def _change_memory(self, memory: pb.Memory, paths: Sequence[str], context: RequestContext) -> bool:
        # Overwrite concurrent changes: without a revision the update always succeeds.
        memory.revision = 0
        try:
            await self._memories.update(context, memory, paths)
        except aio.AioRpcError as error:
            if error.code() not in _MISSING_CODES:
                raise
            return False
        return True

    async def _change_message(self, message: session_pb2.Message, context: RequestContext) -> bool:
        message_update = session_pb2.Message(message_id=message.message_id, metadata=message.metadata)
        call = session_pb2.UpdateMessageRequest(message=message_update, update_mask=FieldMask(paths=["metadata"]))
        try:
            async with self._locks.hold(message.session_id):
                await self._api.call(self._api.sessions.UpdateMessage, call, context)
        except aio.AioRpcError as error:
            if error.code() not in _MISSING_CODES:
                raise
            return False
        return True


def _parse_items(value: object) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        raise RequestError(VALIDATION_ERROR, record_values.MISSING_FIELDS)
    if len(value) > MAX_ITEMS:
        raise fields.invalid("memories", f"are {MAX_ITEMS} at most")
    if not all(isinstance(item, dict) for item in value):
        raise fields.invalid("memories", "are objects")
    return value


def _item_id(item: Mapping[str, Any]) -> str:
    return record_values.text(item, "id", "memory_id")
