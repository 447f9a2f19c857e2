"""Many memories at a time: read in pages, deleted, summarized. Each request looks at a bounded number of them."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import grpc
from grpc import aio

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.summaries import DEFAULT_CHARACTERS, MAX_READ_CHARACTERS, Turn, extract
from skein_pc2 import wire
from skein_pc2.errors import STORAGE_ERROR, Rejected
from skein_pc2.fields import invalid, mapping, moment
from skein_pc2.messages import timestamp
from skein_pc2.orchestrator.paging import MOST_SORTED, Page, kept, matches

if TYPE_CHECKING:
    from skein_pc2.api import Api
    from skein_pc2.orchestrator.request import Action, Request

# Answers of BatchGetMemories that one request waits for; each is up to 4 MiB.
_MOST_ANSWERS = 20
_LISTED = 1000
# Memories that are deleted together, all or none: few enough for a busy machine to have time for them.
PORTION = 50
# Portions that one request deletes, and what of its time is kept to tell of them.
MOST_PORTIONS = 20
_MARGIN_SECONDS = 0.2
_MOST_SUMMARIZED = 500
_BULK_CONDITIONS = frozenset({"memory_type", "memory_types", "older_than", "tags", "time_range"})


@dataclass(kw_only=True, slots=True)
class _Found:
    """What a list brought."""

    memories: list[pb.Memory]
    # Some that match were not looked at.
    has_more: bool
    # Of a page: how many came before it.
    skipped: int = 0


class Lists:
    """Does with many memories what each request asks."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def actions(self) -> dict[str, Action]:
        """Return what it does, by the names of the protocol."""
        return {"batch_read": self._batch_read, "bulk_delete": self._bulk_delete, "summarize": self._summarize}

    async def _batch_read(self, request: Request) -> dict[str, Any]:
        """Read the memories named, or a page of those that pass a filter.

        What comes after the page is not counted: `total_count` is how many are known to be there, and all of them when
        nothing follows.
        """
        page = Page.of(request.payload)
        found = await (self._named(page, request) if page.memory_ids else self._filtered(page, request))
        shown = kept(found.memories[: page.limit])
        has_more = found.has_more or len(found.memories) > len(shown)
        return {
            "memories": [wire.data(memory) for memory in shown],
            "total_count": found.skipped + len(found.memories),
            "page_info": {
                # What it came to: an answer has room for some megabytes.
                "limit": page.limit if len(shown) == min(page.limit, len(found.memories)) else len(shown),
                "offset": page.offset,
                "has_more": has_more,
            },
        }

    async def _named(self, page: Page, request: Request) -> _Found:
        now = datetime.now(UTC)
        wanted, found = page.memory_ids, []
        for _ in range(_MOST_ANSWERS):
            call = pb.BatchGetMemoriesRequest(memory_ids=wanted)
            response = await self._api.call(self._api.memories.BatchGetMemories, call, request)
            found += [
                memory
                for memory in response.memories
                if not wire.is_expired(memory, now) and matches(memory, page.filter)
            ]
            wanted = list(response.deferred)
            if not wanted:
                break
        else:
            text = "The memories are too large to be read together; ask for fewer at a time"
            raise Rejected(STORAGE_ERROR, text)
        if page.is_sorted:
            found.sort(key=page.key, reverse=page.is_descending)
        skipped = min(page.offset, len(found))
        return _Found(memories=found[skipped:], has_more=False, skipped=skipped)

    async def _filtered(self, page: Page, request: Request) -> _Found:
        if page.order_by:
            # One more than is shown tells whether there are more.
            found = await self._listed(page.filter, page.offset + page.limit + 1, request, order_by=page.order_by)
        else:
            found = await self._listed(page.filter, MOST_SORTED, request)
            if found.has_more:
                raise invalid(
                    "filter.sort", f"has no index: it takes a filter that at most {MOST_SORTED} memories pass"
                )
            found.memories.sort(key=page.key, reverse=page.is_descending)
        skipped = min(page.offset, len(found.memories))
        return _Found(memories=found.memories[skipped:], has_more=found.has_more, skipped=skipped)

    async def _listed(
        self,
        condition: pb.MemoryFilter,
        most: int,
        request: Request,
        *,
        order_by: str = "create_time desc",
        most_characters: float = math.inf,
    ) -> _Found:
        """Return up to `most` memories that pass a filter, and no more pages once they say so much."""
        call = pb.ListMemoriesRequest(filter=condition, order_by=order_by)
        found: list[pb.Memory] = []
        characters = 0
        while True:
            call.page_size = min(_LISTED, most - len(found))
            response = await self._api.call(self._api.memories.ListMemories, call, request)
            found += response.memories
            characters += sum(len(memory.content) for memory in response.memories)
            call.page_token = response.next_page_token
            if not call.page_token or len(found) >= most or characters >= most_characters:
                return _Found(memories=found, has_more=bool(call.page_token))

    async def _bulk_delete(self, request: Request) -> dict[str, Any]:
        """Delete what passes a filter, a bounded number of memories; `has_more` says that there are others."""
        given = mapping(request.payload.get("filter"), "filter")
        condition, applied = _bulk_filter(given)
        call = pb.ForgetMemoriesRequest(selection=pb.MemorySelection(filter=condition), page_size=PORTION)
        # What was deleted is told, also when there is no time for the rest.
        ends = replace(request, deadline=request.deadline - _MARGIN_SECONDS)
        count = 0
        for portion in range(MOST_PORTIONS):
            if request.repeat_id:
                call.request_id = f"{request.repeat_id}-{portion}"
            try:
                response = await self._api.call(self._api.memories.ForgetMemories, call, ends)
            except aio.AioRpcError as error:
                if not portion or error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise
                break
            count += len(response.memory_ids)
            call.page_token = response.next_page_token
            if not call.page_token:
                break
        return {"deleted_count": count, "filter_applied": applied, "has_more": bool(call.page_token)}

    async def _summarize(self, request: Request) -> dict[str, Any]:
        """Tell what the newest memories that pass a filter say, in their own most telling sentences."""
        condition = wire.condition(request.payload, "payload")
        found = await self._listed(condition, _MOST_SUMMARIZED, request, most_characters=MAX_READ_CHARACTERS)
        said = _within(found.memories, MAX_READ_CHARACTERS)
        turns = [Turn(speaker="", text=memory.content) for memory in reversed(said)]
        summary = await asyncio.to_thread(extract, turns)
        if not summary and said:
            # Nothing in it is a sentence.
            summary = said[0].content[:DEFAULT_CHARACTERS]
        span = mapping(request.payload.get("time_range"), "time_range")
        ends = {"start": said[-1], "end": said[0]} if said else {}
        return {
            "summary": summary,
            "memory_count": len(said),
            "time_range": {
                name: timestamp(moment(span[name], f"time_range.{name}"))
                if span.get(name) is not None
                else wire.time_of(ends[name], "create_time")
                if name in ends
                else None
                for name in ("start", "end")
            },
            "has_more": found.has_more or len(said) < len(found.memories),
        }


def _bulk_filter(given: dict[str, Any]) -> tuple[pb.MemoryFilter, dict[str, Any]]:
    """Read what is to be deleted, and how it was understood. A condition that is not known would delete too much."""
    unknown = sorted(given.keys() - _BULK_CONDITIONS)
    if unknown:
        raise invalid(f"filter.{unknown[0][:100]}", "is not known here; nothing was deleted")
    condition = wire.condition(given, "filter")
    applied: dict[str, Any] = {}
    if condition.types:
        name = "memory_type" if len(condition.types) == 1 else "memory_types"
        applied[name] = condition.types[0] if len(condition.types) == 1 else list(condition.types)
    if condition.tags_any:
        applied["tags"] = list(condition.tags_any)
    if given.get("older_than") is not None:
        before = moment(given["older_than"], "filter.older_than")
        if not condition.HasField("end_time") or before < condition.end_time.ToDatetime(tzinfo=UTC):
            condition.end_time.FromDatetime(before)
        applied["older_than"] = timestamp(before)
    span = mapping(given.get("time_range"), "filter.time_range")
    if any(span.get(name) is not None for name in ("start", "end")):
        applied["time_range"] = {
            name: timestamp(moment(span[name], f"filter.time_range.{name}"))
            for name in ("start", "end")
            if span.get(name) is not None
        }
    if not applied:
        raise invalid("filter", "is needed: memory_type, older_than, tags or time_range; nothing was deleted")
    return condition, applied


def _within(memories: list[pb.Memory], characters: int) -> list[pb.Memory]:
    """Return the first ones that say no more than so many characters together, one at least."""
    for count, memory in enumerate(memories):
        characters -= len(memory.content)
        if characters < 0:
            return memories[: max(1, count)]
    return memories
