"""Memories in §1's words: add_memory, get_all_memories, update_memories, get_memory_stats."""

from __future__ import annotations

import asyncio
from datetime import UTC
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc
from grpc import aio

from skein.memory.v1 import curation_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein.session.v1 import session_pb2
from skein_pc2 import fields
from skein_pc2.errors import VALIDATION_ERROR, Rejected
from skein_pc2.messages import timestamp
from skein_pc2.reasoning import lists, records, words
from skein_pc2.reasoning.strength import Strength

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from skein_pc2.api import Api
    from skein_pc2.messages import Message
    from skein_pc2.reasoning.keeping import Keeper
    from skein_pc2.reasoning.talk import Action, Ask

# What was said lately is told from so many sessions, the newest, and so many messages of each.
_MOST_SESSIONS, _MOST_MESSAGES = 8, 25
MOST_UPDATED = 200
_DECIMALS = 3
_SHORT_TERM = "short_term"


class Remembering:
    """The actions of §1 that speak of memories."""

    def __init__(self, api: Api, keeper: Keeper) -> None:
        self._api = api
        self._keeper = keeper
        self.actions: dict[str, Action] = {
            "add_memory": self._add,
            "get_all_memories": self._all,
            "update_memories": self._update,
            "get_memory_stats": self._stats,
        }

    async def _add(self, ask: Ask) -> Message:
        memory = records.memory_of(
            ask.message,
            external_id=records.new_id(ask.message),
            importance=words.importance(ask.message.get("priority")),
        )
        return {"status": "success", "message": "Memory added", "memory_id": await self._keeper.keep(ask, memory)}

    async def _all(self, ask: Ask) -> Message:
        """Tell the newest memories, and what was said lately, as the short-term memory that it is."""
        limit, page_token = lists.bounds(ask.message)
        listing = lists.listed(self._api, ask, pb.MemoryFilter(), limit=limit, page_token=page_token)
        if page_token:
            page, said, more_said = await listing, [], False
        else:
            page, (said, more_said) = await asyncio.gather(listing, self._said(ask))
        told = [_memory(memory, ask.at) for memory in page.memories] + said
        told.sort(key=lambda item: str(item["timestamp"]), reverse=True)
        answer: Message = {"status": "success", "memories": told, **page.rest()}
        if more_said:
            answer["truncated"] = True
        return answer

    async def _said(self, ask: Ask) -> tuple[list[dict[str, Any]], bool]:
        """Return the newest messages of the newest sessions, and whether there are more."""
        newest = session_pb2.ListSessionsRequest(page_size=_MOST_SESSIONS)
        listed = await self._api.call(self._api.sessions.ListSessions, newest, ask)
        pages = await asyncio.gather(*(self._messages(ask, session.session_id) for session in listed.sessions))
        said = [_message(message, ask.at) for page in pages for message in page.messages]
        return said, bool(listed.next_page_token) or any(page.next_page_token for page in pages)

    async def _messages(self, ask: Ask, session_id: str) -> session_pb2.ListMessagesResponse:
        request = session_pb2.ListMessagesRequest(session_id=session_id, page_size=_MOST_MESSAGES, newest_first=True)
        try:
            return await self._api.call(self._api.sessions.ListMessages, request, ask)
        except aio.AioRpcError as error:
            # It was deleted, or went to cold storage, meanwhile.
            if error.code() not in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION):
                raise
            return session_pb2.ListMessagesResponse()

    async def _update(self, ask: Ask) -> Message:
        """Change the memories whose ids are known, where they say something else; store the others."""
        items = ask.message.get("memories")
        if not isinstance(items, list):
            raise Rejected(VALIDATION_ERROR, words.MISSING)
        if len(items) > MOST_UPDATED:
            raise fields.invalid("memories", f"are {MOST_UPDATED} at most")
        if not all(isinstance(item, dict) for item in items):
            raise fields.invalid("memories", "are objects")
        named = {name: item for item in items if (name := words.text(item, "id", "memory_id"))}
        others = [item for item in items if not words.text(item, "id", "memory_id")]
        known = await self._known(ask, list(named))
        changed: list[Callable[[], Awaitable[Any]]] = []
        for name, memory in known.items():
            if paths := records.changes(memory, named[name]):
                # Whatever it is by now: this is the word of somebody who has seen it.
                memory.revision = 0
                changed.append(partial(self._keeper.update, ask, memory, paths))
        fresh = [(item, name) for name, item in named.items() if name not in known]
        # What was said stands in its session, where nobody changes it from here.
        fresh += [(item, "") for item in others if not item.get("message_id")]
        drafts = [
            records.memory_of(
                item,
                external_id=name or records.new_id(ask.message, place),
                importance=words.importance(item.get("priority")),
            )
            for place, (item, name) in enumerate(fresh)
        ]
        done = await self._keeper.together(ask, [*changed, *(partial(self._keeper.create, ask, one) for one in drafts)])
        counts = {
            "updated": len(changed) - done[: len(changed)].count(None),
            "stored": done[len(changed) :].count(True),
        }
        left = {"remaining": done.count(None)} if None in done else {}
        return {
            "status": "success",
            **counts,
            "unchanged": len(items) - sum([*counts.values(), *left.values()]),
            **left,
        }

    async def _known(self, ask: Ask, names: list[str]) -> dict[str, pb.Memory]:
        if not names:
            return {}
        found = await self._keeper.several(ask, names)
        return {name: memory for name in names if (memory := found.get(name)) is not None}

    async def _stats(self, ask: Ask) -> Message:
        counted = await self._api.call(self._api.curation.GetStatistics, curation_pb2.GetStatisticsRequest(), ask)
        stats = {
            "total_memories": counted.memory_count,
            "total_links": counted.link_count,
            "by_type": dict(counted.type_counts),
            "by_level": dict(counted.level_counts),
            "tags": {tag.tag: tag.count for tag in counted.tags},
            # How many of the newest the numbers by type, level and tag were counted over.
            "counted_memories": counted.sampled_memory_count,
            "timestamp": timestamp(ask.at),
        }
        return {"status": "success", "stats": stats}


def freshness(created: datetime, at: datetime) -> float:
    """Return how fresh something is: 1 when it is new, and less with each day, as strength is."""
    return round(Strength(last_accessed=created).current(at), _DECIMALS)


def _memory(memory: pb.Memory, at: datetime) -> dict[str, Any]:
    return {
        "id": lists.memory_id(memory),
        "type": memory.type,
        "freshness_score": freshness(lists.created(memory), at),
        "timestamp": lists.created_at(memory),
        "session_id": memory.session_id,
        "content": memory.content,
        "priority": words.priority(memory.importance),
    }


def _message(message: session_pb2.Message, at: datetime) -> dict[str, Any]:
    created = message.create_time.ToDatetime(tzinfo=UTC)
    return {
        "message_id": message.message_id,
        "type": _SHORT_TERM,
        "freshness_score": freshness(created, at),
        "timestamp": timestamp(created),
        "session_id": message.session_id,
        "content": message.content,
    }
