"""Parents of port 7140: a memory, whose children link to it, or a session, whose children carry its id."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.field_mask_pb2 import FieldMask
from grpc import aio

from skein.memory.v1 import memory_pb2 as pb
from skein.session.v1 import session_pb2
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.memory_service import convert as records
from skein_pc2.memory_service import links
from skein_pc2.protocol import fields
from skein_pc2.protocol.actions import ActionRequest
from skein_pc2.protocol.concurrency import RequestContext
from skein_pc2.protocol.errors import MEMORY_NOT_FOUND, VALIDATION_ERROR, RequestError
from skein_pc2.protocol.frames import Message

_DEFAULT_LIMIT, _MAX_LIMIT = 50, 200
_ORDERS = {
    ("created_at", True): "create_time desc",
    ("created_at", False): "create_time",
}
_FIELDS = {"timestamp": "created_at", "importance_score": "importance"}
# Children converted together when they are sorted here.
_RECORD_BATCH_SIZE = 50
# Children of one deletion call, and attempts of a session update with concurrent changes.
_DELETION_BATCH_SIZE, _MAX_ATTEMPTS = 50, 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Parent:
    """A memory or session with children."""

    parent_id: str
    # None: the parent is a memory.
    session: session_pb2.Session | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """The order of children."""

    field: str
    is_descending: bool

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Order:
        """Read sort_field and sort_order: the newest first by default."""
        name = fields.text(values, "sort_field") or "created_at"
        field = _FIELDS.get(name, name)
        if field not in _SORT_KEYS:
            raise fields.invalid("sort_field", f"is one of {', '.join(_SORT_KEYS)}")
        direction = (fields.text(values, "sort_order") or "desc").strip().lower()
        if direction not in {"asc", "desc", "ascending", "descending"}:
            raise fields.invalid("sort_order", "is asc or desc")
        return cls(field=field, is_descending=direction.startswith("desc"))

    def sort(self, memories: list[pb.Memory]) -> None:
        """Sort memories; ties come newest first."""
        memories.sort(key=_SORT_KEYS["created_at"], reverse=True)
        memories.sort(key=_SORT_KEYS[self.field], reverse=self.is_descending)


async def parent_of(api: GatewayApi, context: RequestContext, parent_id: str) -> Parent:
    """Return the memory or session with an id. Raises RequestError when neither exists."""
    # A list of links counts no access.
    call = pb.ListLinksRequest(memory_id=parent_id, page_size=1)
    if await api.find(api.links.ListLinks, call, context) is not None:
        return Parent(parent_id=parent_id, session=None)
    session = await session_of(api, context, parent_id)
    if session is None:
        raise RequestError(MEMORY_NOT_FOUND, "There is no memory and no session of this id")
    return Parent(parent_id=parent_id, session=session)


async def session_of(api: GatewayApi, context: RequestContext, session_id: str) -> session_pb2.Session | None:
    """Read a session; None when it does not exist."""
    call = session_pb2.GetSessionRequest(session_id=session_id)
    reply = await api.find(api.sessions.GetSession, call, context)
    return None if reply is None else reply.session


async def list_children(api: GatewayApi, request: ActionRequest) -> Message:
    """List the children of a memory or a session."""
    parent_id, order = fields.required_text(request.fields, "parent_id"), Order.of(request.fields)
    limit = min(_MAX_LIMIT, fields.integer(request.fields.get("limit"), "limit", default=_DEFAULT_LIMIT, minimum=1))
    parent = await parent_of(api, request, parent_id)
    has_more = False
    if parent.session is None:
        memories, has_more = await links.list_children(api, request, parent_id)
        order.sort(memories)
        shown_memories = links.fit_reply(memories, limit)
        result = await links.to_records(api, request, shown_memories)
        has_more |= len(shown_memories) < len(memories)
    else:
        result, has_more = await _children_of_session(api, request, parent_id, order, limit)
    return links.list_reply(result, "children", "results", is_truncated=has_more)


async def _children_of_session(
    api: GatewayApi, request: ActionRequest, session_id: str, order: Order, limit: int
) -> tuple[list[dict[str, Any]], bool]:
    result: list[dict[str, Any]] = []
    size = 0
    async with aclosing(_session_memories(api, request, session_id, order, limit)) as batches:
        async for batch in batches:
            batch_records = await links.to_records(api, request, batch)
            for memory, record in zip(batch, batch_records, strict=True):
                # A memory with a parent memory is not the session's child.
                if record["parent_id"] != session_id:
                    continue
                size += memory.ByteSize()
                if len(result) == limit or (result and size > links.MAX_REPLY_BYTES):
                    return result, True
                result.append(record)
    return result, False


async def _session_memories(
    api: GatewayApi, request: ActionRequest, session_id: str, order: Order, limit: int
) -> AsyncGenerator[list[pb.Memory], None]:
    """Yield a session's memories in order, in batches."""
    condition = pb.MemoryFilter(session_id=session_id)
    order_by = _ORDERS.get((order.field, order.is_descending))
    if order_by is not None:
        async for page in links.memory_pages(api, request, condition, order_by=order_by, page_size=limit + 1):
            yield page
        return
    memories, has_more = await links.list_memories(
        api, request, condition, order_by="create_time desc", limit=links.MAX_PAGE_SIZE
    )
    if has_more:
        raise RequestError(
            VALIDATION_ERROR, f"This order is made of {links.MAX_PAGE_SIZE} memories at most; sort by created_at"
        )
    order.sort(memories)
    for start in range(0, len(memories), _RECORD_BATCH_SIZE):
        yield memories[start : start + _RECORD_BATCH_SIZE]


def session_record(session: session_pb2.Session) -> dict[str, Any]:
    """Return a session in the form of a memory."""
    created_at, updated_at = (
        records.epoch_seconds(session, "create_time"),
        records.epoch_seconds(session, "update_time"),
    )
    return {
        "memory_id": session.session_id,
        "content": session.summary or session.title,
        "memory_type": "session",
        "memory_tier": "short",
        "importance": 0.5,
        "importance_score": 0.5,
        "access_count": 0,
        "last_accessed_at": updated_at or created_at,
        "created_at": created_at,
        "updated_at": updated_at,
        "expires_at": None,
        "metadata": fields.to_json(session.metadata),
        "tags": [],
        "session_id": session.session_id,
        "user_id": session.subject_id or None,
        "session_type": session.session_type or None,
        "relationships": [],
        "parent_id": None,
        "group_ids": [],
    }


async def update_session(api: GatewayApi, context: RequestContext, session_id: str, update: Mapping[str, Any]) -> None:
    """Merge metadata into a session's. Raises RequestError without a session or metadata."""
    session = await session_of(api, context, session_id)
    if session is None:
        raise RequestError(MEMORY_NOT_FOUND, "There is no memory and no session of this id")
    metadata = fields.mapping(update.get("metadata"), "metadata")
    if update.get("metadata") is None:
        raise RequestError(VALIDATION_ERROR, "This is the id of a session, of which metadata alone can be updated")
    new_metadata = fields.struct(metadata, "metadata")
    for attempt in range(1, _MAX_ATTEMPTS + 1):
        for key, value in new_metadata.fields.items():
            session.metadata.fields[key].CopyFrom(value)
        session_update = session_pb2.Session(
            session_id=session_id, metadata=session.metadata, revision=session.revision
        )
        call = session_pb2.UpdateSessionRequest(session=session_update, update_mask=FieldMask(paths=["metadata"]))
        try:
            await api.call(api.sessions.UpdateSession, call, context)
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.ABORTED or attempt == _MAX_ATTEMPTS:
                raise
            latest = await session_of(api, context, session_id)
            if latest is None:
                raise
            session = latest
        else:
            return


async def delete_session(api: GatewayApi, request: ActionRequest, session_id: str, *, cascade: bool) -> int:
    """Delete a session; `cascade` deletes its memories and their descendants first. Return the number of deleted rows.

    Memories are deleted in batches, so repeating the request continues a cascade that ran out of time.
    """
    count = 1
    if cascade:
        if await session_of(api, request, session_id) is None:
            raise RequestError(MEMORY_NOT_FOUND, "There is no memory and no session of this id")
        count += await _delete_memories(api, request, session_id)
    call = session_pb2.DeleteSessionRequest(session_id=session_id, request_id=request.repeat_id)
    await api.call(api.sessions.DeleteSession, call, request)
    return count


async def _delete_memories(api: GatewayApi, context: RequestContext, session_id: str) -> int:
    count = 0
    condition = pb.MemoryFilter(session_id=session_id)
    list_call = pb.ListMemoriesRequest(filter=condition, page_size=_DELETION_BATCH_SIZE)
    while True:
        page = await api.call(api.memories.ListMemories, list_call, context)
        memory_ids = [memory.memory_id for memory in page.memories]
        descendant_ids = await links.generations(api, context, memory_ids) if memory_ids else []
        for generation in [*reversed(descendant_ids), memory_ids]:
            count += await delete_memories(api, context, generation)
        if not memory_ids:
            # A page may be empty and have a next one.
            list_call.page_token = page.next_page_token
            if not page.next_page_token:
                break
    # Lists exclude expired and archived memories.
    call = pb.DeleteMemoriesRequest(selection=pb.MemorySelection(filter=condition), page_size=_DELETION_BATCH_SIZE)
    while True:
        response = await api.call(api.memories.DeleteMemories, call, context)
        count += len(response.memory_ids)
        call.page_token = response.next_page_token
        if not response.next_page_token:
            return count


async def delete_memories(api: GatewayApi, context: RequestContext, memory_ids: list[str]) -> int:
    """Delete memories in batches, each all or none, so that a repeat continues after the last batch."""
    count = 0
    for start in range(0, len(memory_ids), _DELETION_BATCH_SIZE):
        batch = memory_ids[start : start + _DELETION_BATCH_SIZE]
        call = pb.DeleteMemoriesRequest(selection=pb.MemorySelection(memory_ids=batch), page_size=_DELETION_BATCH_SIZE)
        count += len((await api.call(api.memories.DeleteMemories, call, context)).memory_ids)
    return count


def _time_sort_key(memory: pb.Memory, field: str) -> tuple[int, int, str]:
    time = getattr(memory, field)
    return time.seconds, time.nanos, memory.memory_id


_SORT_KEYS: dict[str, Callable[[pb.Memory], Any]] = {
    "created_at": lambda memory: _time_sort_key(memory, "create_time"),
    "updated_at": lambda memory: _time_sort_key(memory, "update_time"),
    "last_accessed_at": lambda memory: _time_sort_key(
        memory, "last_access_time" if memory.HasField("last_access_time") else "create_time"
    ),
    "importance": lambda memory: memory.importance,
    "access_count": lambda memory: memory.access_count,
}
