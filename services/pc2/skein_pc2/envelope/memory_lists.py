"""Actions on many memories: pages, bulk deletion, summaries. Each request reads a bounded number."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import grpc
from grpc import aio

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.text.summary import DEFAULT_CHARACTERS, MAX_READ_CHARACTERS, SpeakerTurn, summarize
from skein_pc2.envelope import convert as wire
from skein_pc2.envelope.background_deletion import BackgroundDeletions
from skein_pc2.envelope.request import Action, Request
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.protocol.errors import STORAGE_ERROR, RequestError
from skein_pc2.protocol.fields import integer, invalid, mapping, read_time, texts
from skein_pc2.protocol.frames import timestamp

# Most BatchGetMemories calls of one request; each reply has up to 4 MiB.
_MAX_READ_CALLS = 20
_PAGE_SIZE = 1000
# Memories of one deletion call, all or none: few enough for a busy machine.
DELETION_BATCH_SIZE = 50
# Most deletion calls of one request, and the time reserved for its reply.
MAX_DELETION_CALLS = 200
_MARGIN_SECONDS = 0.2
_MAX_SUMMARIZED_MEMORIES = 500
_BULK_CONDITIONS = frozenset({"memory_type", "memory_types", "older_than", "tags", "time_range"})
# Most memories that are sorted here, for orders without an index.
MAX_SORTED_MEMORIES = 1000
_MAX_IDS = 1000
_DEFAULT_LIMIT, _MAX_LIMIT = 50, 200
# Rows before a page are read and dropped.
_MAX_OFFSET = 1000
_MAX_REPLY_BYTES = 3 * 1024 * 1024
_DESCENDING = {"desc": True, "descending": True, "asc": False, "ascending": False}
_FIELDS = {
    "created_at": "create_time",
    "updated_at": "update_time",
    "priority": "importance",
}
_INDEXED = frozenset({"create_time desc", "create_time", "update_time desc", "importance desc"})


@dataclass(kw_only=True, slots=True)
class _MemoryPage:
    """Memories of one list."""

    memories: list[pb.Memory]
    # More memories may match.
    has_more: bool
    # Matching memories before this page, and all of them if that was counted.
    skipped_count: int = 0
    total: int | None = None


class MemoryLists:
    """batch_read, bulk_delete, summarize."""

    def __init__(self, api: GatewayApi, deletions: BackgroundDeletions) -> None:
        self._api = api
        self._deletions = deletions

    def actions(self) -> dict[str, Action]:
        """Return the handlers by the protocol's action names."""
        return {"batch_read": self._batch_read, "bulk_delete": self._bulk_delete, "summarize": self._summarize}

    async def _batch_read(self, request: Request) -> dict[str, Any]:
        """Read named memories of a session, or a page of those that match a filter.

        `total_count` is the number of matches; when it was not counted, the number of matches read so far.
        """
        page = BatchReadQuery.of(request.payload, session_id=request.required_session_id())
        result = await (self._read_by_ids(page, request) if page.memory_ids else self._read_by_filter(page, request))
        page_memories = fit_reply(result.memories[: page.limit])
        has_more = result.has_more or len(result.memories) > len(page_memories)
        return {
            "memories": [wire.memory_data(memory) for memory in page_memories],
            "total_count": result.skipped_count + len(result.memories) if result.total is None else result.total,
            "page_info": {
                # The page's real size, because a reply has at most a few megabytes.
                "limit": page.limit
                if len(page_memories) == min(page.limit, len(result.memories))
                else len(page_memories),
                "offset": page.offset,
                "has_more": has_more,
            },
        }

    async def _read_by_ids(self, page: BatchReadQuery, request: Request) -> _MemoryPage:
        memory_ids, result = page.memory_ids, []
        for _ in range(_MAX_READ_CALLS):
            call = pb.BatchGetMemoriesRequest(memory_ids=memory_ids)
            response = await self._api.call(self._api.memories.BatchGetMemories, call, request)
            result += [memory for memory in response.memories if matches(memory, page.filter)]
            memory_ids = list(response.unread_ids)
            if not memory_ids:
                break
        else:
            raise RequestError(STORAGE_ERROR, "The memories are too large to be read together; ask for fewer at a time")
        return _MemoryPage(memories=result, has_more=False)

    async def _read_by_filter(self, page: BatchReadQuery, request: Request) -> _MemoryPage:
        if page.order_by:
            # One memory beyond the page shows whether there are more.
            limit = page.offset + page.limit + 1
            result = await self._list(page.filter, limit, request, order_by=page.order_by, should_count=True)
        else:
            result = await self._list(page.filter, MAX_SORTED_MEMORIES, request)
            if result.has_more:
                raise invalid(
                    "filter.sort", f"has no index: it takes a filter that at most {MAX_SORTED_MEMORIES} memories pass"
                )
            result.memories.sort(key=page.key, reverse=page.is_descending)
        skipped_count = min(page.offset, len(result.memories))
        return replace(result, memories=result.memories[skipped_count:], skipped_count=skipped_count)

    async def _list(
        self,
        condition: pb.MemoryFilter,
        limit: int,
        request: Request,
        *,
        order_by: str = "create_time desc",
        max_characters: float = math.inf,
        should_count: bool = False,
    ) -> _MemoryPage:
        """Return up to `limit` matching memories; stop after `max_characters` of content."""
        call = pb.ListMemoriesRequest(filter=condition, order_by=order_by, show_total_size=should_count)
        result: list[pb.Memory] = []
        total: int | None = None
        characters = 0
        while True:
            call.page_size = min(_PAGE_SIZE, limit - len(result))
            response = await self._api.call(self._api.memories.ListMemories, call, request)
            if response.HasField("total_size"):
                total = response.total_size
            result += response.memories
            characters += sum(len(memory.content) for memory in response.memories)
            call.page_token = response.next_page_token
            if not call.page_token or len(result) >= limit or characters >= max_characters:
                return _MemoryPage(memories=result, has_more=bool(call.page_token), total=total)

    async def _bulk_delete(self, request: Request) -> dict[str, Any]:
        """Delete the memories of a session that match a filter.

        When time runs out, deletion continues in the background, except for memories created since. The reply then has
        `has_more`.
        """
        received_at = datetime.now(UTC)
        session_id = request.required_session_id()
        values = mapping(request.payload.get("filter"), "filter")
        condition, applied_filter = _bulk_filter(values, session_id=session_id)
        call = pb.DeleteMemoriesRequest(selection=pb.MemorySelection(filter=condition), page_size=DELETION_BATCH_SIZE)
        # The reply reports finished deletions even when time runs out.
        margin_request = replace(request, deadline=request.deadline - _MARGIN_SECONDS)
        count = 0
        for batch_number in range(MAX_DELETION_CALLS):
            if request.repeat_id:
                call.request_id = f"{request.repeat_id}-{batch_number}"
            try:
                response = await self._api.call(self._api.memories.DeleteMemories, call, margin_request)
            except aio.AioRpcError as error:
                if not batch_number or error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise
                break
            count += len(response.memory_ids)
            call.page_token = response.next_page_token
            if not call.page_token:
                break
        has_more = bool(call.page_token)
        if has_more:
            _limit_to_before(condition, received_at)
            self._deletions.submit(self._api, pb.MemorySelection(filter=condition), page_size=DELETION_BATCH_SIZE)
        return {"deleted_count": count, "filter_applied": applied_filter, "has_more": has_more}

    async def _summarize(self, request: Request) -> dict[str, Any]:
        """Summarize the newest matching memories by their most important sentences."""
        condition = wire.parse_filter(request.payload, "payload", session_id=request.required_session_id())
        if not condition.types:
            raise invalid("memory_type", "is needed, such as conversation")
        result = await self._list(condition, _MAX_SUMMARIZED_MEMORIES, request, max_characters=MAX_READ_CHARACTERS)
        summarized_memories = _fit_characters(result.memories, MAX_READ_CHARACTERS)
        turns = [SpeakerTurn(speaker="", text=memory.content) for memory in reversed(summarized_memories)]
        summary = await asyncio.to_thread(summarize, turns)
        if not summary and summarized_memories:
            # The texts contain no sentence.
            summary = summarized_memories[0].content[:DEFAULT_CHARACTERS]
        time_range = mapping(request.payload.get("time_range"), "time_range")
        range_ends = {"start": summarized_memories[-1], "end": summarized_memories[0]} if summarized_memories else {}
        return {
            "summary": summary,
            "memory_count": len(summarized_memories),
            "time_range": {
                name: timestamp(read_time(time_range[name], f"time_range.{name}"))
                if time_range.get(name) is not None
                else wire.time_of(range_ends[name], "create_time")
                if name in range_ends
                else None
                for name in ("start", "end")
            },
            "has_more": result.has_more or len(summarized_memories) < len(result.memories),
        }


def _bulk_filter(values: dict[str, Any], *, session_id: str) -> tuple[pb.MemoryFilter, dict[str, Any]]:
    """Read a deletion's filter; return it and its echo. An ignored condition would delete too much."""
    unknown_names = sorted(values.keys() - _BULK_CONDITIONS)
    if unknown_names:
        raise invalid(f"filter.{unknown_names[0][:100]}", "is not known here; nothing was deleted")
    condition = wire.parse_filter(values, "filter", session_id=session_id)
    applied_filter: dict[str, Any] = {}
    if condition.types:
        name = "memory_type" if len(condition.types) == 1 else "memory_types"
        applied_filter[name] = condition.types[0] if len(condition.types) == 1 else list(condition.types)
    if condition.tags_any:
        applied_filter["tags"] = list(condition.tags_any)
    if values.get("older_than") is not None:
        end_time = read_time(values["older_than"], "filter.older_than")
        _limit_to_before(condition, end_time)
        applied_filter["older_than"] = timestamp(end_time)
    time_range = mapping(values.get("time_range"), "filter.time_range")
    if any(time_range.get(name) is not None for name in ("start", "end")):
        applied_filter["time_range"] = {
            name: timestamp(read_time(time_range[name], f"filter.time_range.{name}"))
            for name in ("start", "end")
            if time_range.get(name) is not None
        }
    if not applied_filter:
        raise invalid("filter", "is needed: memory_type, older_than, tags or time_range; nothing was deleted")
    return condition, applied_filter


def _limit_to_before(condition: pb.MemoryFilter, end: datetime) -> None:
    """Restrict a filter to memories created before a time."""
    if not condition.HasField("end_time") or end < condition.end_time.ToDatetime(tzinfo=UTC):
        condition.end_time.FromDatetime(end)


def _fit_characters(memories: list[pb.Memory], characters: int) -> list[pb.Memory]:
    """Return the first memories within a budget of characters, at least one."""
    for count, memory in enumerate(memories):
        characters -= len(memory.content)
        if characters < 0:
            return memories[: max(1, count)]
    return memories


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchReadQuery:
    """The payload of `batch_read`."""

    memory_ids: list[str]
    filter: pb.MemoryFilter
    limit: int
    offset: int
    column: str
    is_descending: bool

    @classmethod
    def of(cls, payload: Mapping[str, Any], *, session_id: str) -> BatchReadQuery:
        """Read the payload. Memory ids take precedence over limit, offset and order, which clients send as well.

        Raises RequestError.
        """
        filters = mapping(payload.get("filter"), "filter")
        memory_ids = texts(payload.get("memory_ids"), "memory_ids")
        if len(memory_ids) > _MAX_IDS:
            raise invalid("memory_ids", f"are at most {_MAX_IDS}")
        if payload.get("memory_ids") == [] and not filters:
            raise invalid("memory_ids", "names no memory, and there is no filter")
        limit = integer(filters.get("limit"), "filter.limit", default=_DEFAULT_LIMIT, minimum=1)
        offset = integer(filters.get("offset"), "filter.offset", default=0, minimum=0)
        if offset > _MAX_OFFSET:
            rule = f"is at most {_MAX_OFFSET}; narrow the time_range to go further"
            raise invalid("filter.offset", rule)
        column, is_descending = _parse_order(filters.get("sort"))
        return cls(
            memory_ids=memory_ids,
            filter=wire.parse_filter(filters, "filter", session_id=session_id),
            limit=len(memory_ids) or min(limit, _MAX_LIMIT),
            offset=0 if memory_ids else offset,
            column=column,
            is_descending=is_descending,
        )

    @property
    def order_by(self) -> str:
        """The order_by of ListMemories; empty for an order that it lacks."""
        name = f"{self.column} desc" if self.is_descending else self.column
        return name if name in _INDEXED else ""

    def key(self, memory: pb.Memory) -> Any:
        """Return a memory's sort key."""
        return memory.importance if self.column == "importance" else getattr(memory, self.column).ToNanoseconds()


def matches(memory: pb.Memory, condition: pb.MemoryFilter) -> bool:
    """Say whether a memory matches a filter of `wire.parse_filter`."""
    if condition.session_id and memory.session_id != condition.session_id:
        return False
    if condition.types and memory.type not in condition.types:
        return False
    if condition.tags_any and not set(condition.tags_any) & set(memory.tags):
        return False
    create_time = memory.create_time.ToDatetime(tzinfo=UTC)
    if condition.HasField("start_time") and create_time < condition.start_time.ToDatetime(tzinfo=UTC):
        return False
    return not condition.HasField("end_time") or create_time < condition.end_time.ToDatetime(tzinfo=UTC)


def fit_reply(memories: Sequence[pb.Memory]) -> list[pb.Memory]:
    """Return the first memories that fit into one reply, at least one."""
    result: list[pb.Memory] = []
    size = 0
    for memory in memories:
        size += memory.ByteSize()
        if result and size > _MAX_REPLY_BYTES:
            break
        result.append(memory)
    return result


def _parse_order(sort: object) -> tuple[str, bool]:
    if isinstance(sort, str):
        sort = {"field": sort}
    values = mapping(sort, "filter.sort")
    field, order = values.get("field") or "created_at", values.get("order") or "desc"
    if not isinstance(field, str) or field not in _FIELDS:
        raise invalid("filter.sort.field", f"is one of {', '.join(_FIELDS)}")
    if not isinstance(order, str) or order.lower() not in _DESCENDING:
        raise invalid("filter.sort.order", "is asc or desc")
    return _FIELDS[field], _DESCENDING[order.lower()]
