"""Actions on many memories: pages, bulk deletion, summaries. Each request reads a bounded number."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import grpc
from grpc import aio

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.text.summary import DEFAULT_CHARACTERS, MAX_READ_CHARACTERS, SpeakerTurn, summarize
from skein_pc2.envelope import convert as wire
from skein_pc2.envelope.pagination import MAX_SORTED_MEMORIES, BatchReadQuery, fit_reply, matches
from skein_pc2.protocol.errors import STORAGE_ERROR, RequestError
from skein_pc2.protocol.fields import invalid, mapping, read_time
from skein_pc2.protocol.frames import timestamp

if TYPE_CHECKING:
    from skein_pc2.envelope.background_deletion import BackgroundDeletions
    from skein_pc2.envelope.request import Action, Request
    from skein_pc2.gateway_api.client import GatewayApi

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


@dataclass(kw_only=True, slots=True)
class _MemoryPage:
    """Memories of one list."""

    memories: list[pb.Memory]
    # More memories may match.
    has_more: bool
    # Matching memories before this page, and all of them if that was counted.
    skipped: int = 0
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
        page = BatchReadQuery.of(request.payload, session_id=request.scope())
        result = await (self._get_named(page, request) if page.memory_ids else self._list_filtered(page, request))
        fitting = fit_reply(result.memories[: page.limit])
        has_more = result.has_more or len(result.memories) > len(fitting)
        return {
            "memories": [wire.memory_data(memory) for memory in fitting],
            "total_count": result.skipped + len(result.memories) if result.total is None else result.total,
            "page_info": {
                # The page's real size: a reply holds a few megabytes.
                "limit": page.limit if len(fitting) == min(page.limit, len(result.memories)) else len(fitting),
                "offset": page.offset,
                "has_more": has_more,
            },
        }

    async def _get_named(self, page: BatchReadQuery, request: Request) -> _MemoryPage:
        memory_ids, result = page.memory_ids, []
        for _ in range(_MAX_READ_CALLS):
            call = pb.BatchGetMemoriesRequest(memory_ids=memory_ids)
            response = await self._api.call(self._api.memories.BatchGetMemories, call, request)
            result += [memory for memory in response.memories if matches(memory, page.filter)]
            memory_ids = list(response.deferred)
            if not memory_ids:
                break
        else:
            raise RequestError(STORAGE_ERROR, "The memories are too large to be read together; ask for fewer at a time")
        return _MemoryPage(memories=result, has_more=False)

    async def _list_filtered(self, page: BatchReadQuery, request: Request) -> _MemoryPage:
        if page.order_by:
            # One more than the page tells whether more follow.
            most = page.offset + page.limit + 1
            result = await self._list(page.filter, most, request, order_by=page.order_by, is_counted=True)
        else:
            result = await self._list(page.filter, MAX_SORTED_MEMORIES, request)
            if result.has_more:
                raise invalid(
                    "filter.sort", f"has no index: it takes a filter that at most {MAX_SORTED_MEMORIES} memories pass"
                )
            result.memories.sort(key=page.key, reverse=page.is_descending)
        skipped = min(page.offset, len(result.memories))
        return replace(result, memories=result.memories[skipped:], skipped=skipped)

    async def _list(
        self,
        condition: pb.MemoryFilter,
        most: int,
        request: Request,
        *,
        order_by: str = "create_time desc",
        most_characters: float = math.inf,
        is_counted: bool = False,
    ) -> _MemoryPage:
        """Return up to `most` matching memories; stop after `most_characters` of content."""
        call = pb.ListMemoriesRequest(filter=condition, order_by=order_by, show_total_size=is_counted)
        result: list[pb.Memory] = []
        total: int | None = None
        characters = 0
        while True:
            call.page_size = min(_PAGE_SIZE, most - len(result))
            response = await self._api.call(self._api.memories.ListMemories, call, request)
            if response.HasField("total_size"):
                total = response.total_size
            result += response.memories
            characters += sum(len(memory.content) for memory in response.memories)
            call.page_token = response.next_page_token
            if not call.page_token or len(result) >= most or characters >= most_characters:
                return _MemoryPage(memories=result, has_more=bool(call.page_token), total=total)

    async def _bulk_delete(self, request: Request) -> dict[str, Any]:
        """Delete the memories of a session that match a filter.

        The rest is deleted in the background when time runs out, except memories created since; `has_more` says so.
        """
        received_at = datetime.now(UTC)
        session_id = request.scope()
        values = mapping(request.payload.get("filter"), "filter")
        condition, applied = _bulk_filter(values, session_id=session_id)
        call = pb.ForgetMemoriesRequest(selection=pb.MemorySelection(filter=condition), page_size=DELETION_BATCH_SIZE)
        # The reply reports finished deletions even when time runs out.
        margin_request = replace(request, deadline=request.deadline - _MARGIN_SECONDS)
        count = 0
        for batch_number in range(MAX_DELETION_CALLS):
            if request.repeat_id:
                call.request_id = f"{request.repeat_id}-{batch_number}"
            try:
                response = await self._api.call(self._api.memories.ForgetMemories, call, margin_request)
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
        return {"deleted_count": count, "filter_applied": applied, "has_more": has_more}

    async def _summarize(self, request: Request) -> dict[str, Any]:
        """Summarize the newest matching memories by their most telling sentences."""
        condition = wire.condition(request.payload, "payload", session_id=request.scope())
        if not condition.types:
            raise invalid("memory_type", "is needed, such as conversation")
        result = await self._list(condition, _MAX_SUMMARIZED_MEMORIES, request, most_characters=MAX_READ_CHARACTERS)
        summarized = _within(result.memories, MAX_READ_CHARACTERS)
        turns = [SpeakerTurn(speaker="", text=memory.content) for memory in reversed(summarized)]
        summary = await asyncio.to_thread(summarize, turns)
        if not summary and summarized:
            # The texts hold no sentence.
            summary = summarized[0].content[:DEFAULT_CHARACTERS]
        span = mapping(request.payload.get("time_range"), "time_range")
        margin_request = {"start": summarized[-1], "end": summarized[0]} if summarized else {}
        return {
            "summary": summary,
            "memory_count": len(summarized),
            "time_range": {
                name: timestamp(read_time(span[name], f"time_range.{name}"))
                if span.get(name) is not None
                else wire.time_of(margin_request[name], "create_time")
                if name in margin_request
                else None
                for name in ("start", "end")
            },
            "has_more": result.has_more or len(summarized) < len(result.memories),
        }


def _bulk_filter(values: dict[str, Any], *, session_id: str) -> tuple[pb.MemoryFilter, dict[str, Any]]:
    """Read a deletion's filter; return it and its echo. An ignored condition would delete too much."""
    unknown = sorted(values.keys() - _BULK_CONDITIONS)
    if unknown:
        raise invalid(f"filter.{unknown[0][:100]}", "is not known here; nothing was deleted")
    condition = wire.condition(values, "filter", session_id=session_id)
    applied: dict[str, Any] = {}
    if condition.types:
        name = "memory_type" if len(condition.types) == 1 else "memory_types"
        applied[name] = condition.types[0] if len(condition.types) == 1 else list(condition.types)
    if condition.tags_any:
        applied["tags"] = list(condition.tags_any)
    if values.get("older_than") is not None:
        before = read_time(values["older_than"], "filter.older_than")
        _limit_to_before(condition, before)
        applied["older_than"] = timestamp(before)
    span = mapping(values.get("time_range"), "filter.time_range")
    if any(span.get(name) is not None for name in ("start", "end")):
        applied["time_range"] = {
            name: timestamp(read_time(span[name], f"filter.time_range.{name}"))
            for name in ("start", "end")
            if span.get(name) is not None
        }
    if not applied:
        raise invalid("filter", "is needed: memory_type, older_than, tags or time_range; nothing was deleted")
    return condition, applied


def _limit_to_before(condition: pb.MemoryFilter, end: datetime) -> None:
    """Restrict a filter to memories created before a time."""
    if not condition.HasField("end_time") or end < condition.end_time.ToDatetime(tzinfo=UTC):
        condition.end_time.FromDatetime(end)


def _within(memories: list[pb.Memory], characters: int) -> list[pb.Memory]:
    """Return the first memories within a budget of characters, at least one."""
    for count, memory in enumerate(memories):
        characters -= len(memory.content)
        if characters < 0:
            return memories[: max(1, count)]
    return memories
