"""Memories that assistants store, look up, reinforce and delete, each by one or two of the public RPCs."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.field_mask_pb2 import FieldMask
from grpc import aio

from skein.memory.v1 import memory_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein_kit.filters.expression import quoted
from skein_pc2.gateway_api import named_sessions
from skein_pc2.protocol import fields
from skein_pc2.protocol.errors import INVALID_REQUEST, MEMORY_NOT_FOUND, RATE_LIMIT_EXCEEDED, RequestError
from skein_pc2.reasoning.records import convert as records
from skein_pc2.reasoning.records import record_values
from skein_pc2.reasoning.records import memory_lists
from skein_pc2.reasoning.records.strength import FORGOTTEN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from skein_pc2.gateway_api.client import GatewayApi
    from skein_pc2.protocol.concurrency import RequestContext
    from skein_pc2.reasoning.records.agent_request import Ask
    from skein_pc2.reasoning.records.strength import Strength

NO_QUERY = "No query parameters provided"

_MOST_KEYWORDS, _MOST_IDS, _MOST_HITS = 50, 500, 100
_MOST_QUERY_CHARACTERS = 10_000
# Memories whose idleness ends with one query, the first of those it found: each is written once a day at most.
_MOST_USED = 20
_TRIES = 20
_PAUSE_SECONDS = 0.01
# Calls of one message that are under way at the same time.
_AT_ONCE = 8
# What is kept back of the time, to finish and to answer in.
_MARGIN_SECONDS = 0.6
# Operations that a memory remembers to have been done to it.
_MOST_OPERATIONS = 16


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a query found, best or newest first."""

    memories: list[pb.Memory] = field(default_factory=list)
    # There may be more.
    is_cut: bool = False


class MemoryStore:
    """Stores and finds memories."""

    def __init__(self, api: GatewayApi) -> None:
        self._api = api

    async def keep(self, ask: Ask, memory: pb.Memory) -> str:
        """Store a memory and return its id; one that is stored under its id already stays as it is."""
        await self.create(ask, memory)
        return memory.external_id

    async def create(self, errand: RequestContext, memory: pb.Memory) -> bool:
        """Store a memory, in a session that is there from now on; say whether its id was free.

        The id of a memory that was deleted is not: what was deleted does not come back that way.
        """
        await named_sessions.ensure_session(self._api, errand, memory.session_id)
        try:
            await self._api.call(
                self._api.memories.CreateMemory, pb.CreateMemoryRequest(defer_embedding=True, memory=memory), errand
            )
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise
            return False
        return True

    async def get(self, ask: Ask, memory_id: str) -> pb.Memory:
        """Read a memory. Raises Rejected when there is none, or none any more."""
        try:
            found = await self._api.call(self._api.memories.GetMemory, pb.GetMemoryRequest(memory_id=memory_id), ask)
        except aio.AioRpcError as error:
            raise _not_found(error, memory_id) from None
        return found.memory

    async def several(self, ask: Ask, names: Sequence[str]) -> dict[str, pb.Memory]:
        """Read memories by the ids that they are asked for by; those that there are not are missing."""
        found: dict[str, pb.Memory] = {}
        left = list(names)
        while left:
            response = await self._api.call(
                self._api.memories.BatchGetMemories, pb.BatchGetMemoriesRequest(memory_ids=left), ask
            )
            found |= {name: memory for memory in response.memories for name in (memory.memory_id, memory.external_id)}
            left = list(response.deferred)
        return found

    async def delete(self, ask: Ask, memory_id: str, *, operation: str = "") -> None:
        """Hide a memory from every read; RestoreMemory brings it back. The same operation deletes only once."""
        request = pb.DeleteMemoryRequest(memory_id=memory_id, request_id=operation)
        try:
            await self._api.call(self._api.memories.DeleteMemory, request, ask)
        except aio.AioRpcError as error:
            raise _not_found(error, memory_id) from None

    async def update(self, errand: RequestContext, memory: pb.Memory, paths: Sequence[str]) -> pb.Memory:
        """Change fields of a memory, if its revision is still the current one. Raises AioRpcError."""
        request = pb.UpdateMemoryRequest(defer_embedding=True, memory=memory, update_mask=FieldMask(paths=paths))
        return (await self._api.call(self._api.memories.UpdateMemory, request, errand)).memory

    async def reinforce(self, ask: Ask, memory_id: str, *, operation: str = "") -> float:
        """Make a memory stronger and return how strong it is; not a second time by the same operation."""
        for _ in range(_TRIES):
            memory = await self.get(ask, memory_id)
            strength = records.strength_of(memory, ask.at)
            if operation and operation in records.operations(memory):
                return strength.current(ask.at)
            strength = strength.reinforced(ask.at)
            records.set_strength(memory, strength)
            if operation:
                records.set_operations(memory, [*records.operations(memory), operation][-_MOST_OPERATIONS:])
            try:
                await self.update(ask, memory, ["metadata"])
            except aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.ABORTED:
                    raise _not_found(error, memory_id) from None
                # Others reinforce it as well: each of them counts.
                await asyncio.sleep(random.uniform(0, _PAUSE_SECONDS))  # noqa: S311 - so that they do not meet again.
            else:
                return strength.current(ask.at)
        text = f"Memory {record_values.truncate_name(memory_id)} is being changed by many others; try again soon"
        raise RequestError(RATE_LIMIT_EXCEEDED, text)

    async def find(self, ask: Ask, query: Mapping[str, Any]) -> SearchResult:
        """Answer a query: by id, else ids, else keywords, else source."""
        if query.get("id"):
            found = await self._by_id(ask, record_values.needed(query, "id"), query)
        elif query.get("ids"):
            found = await self._by_ids(ask, fields.texts(query["ids"], "ids"))
        elif query.get("keywords"):
            found = self._strong(await self._by_keywords(ask, query), ask, query)
        elif query.get("source"):
            found = self._strong(await self._by_source(ask, record_values.needed(query, "source")), ask, query)
        else:
            raise RequestError(INVALID_REQUEST, NO_QUERY)
        await self._use(ask, found.memories)
        return found

    async def together(self, ask: Ask, calls: Sequence[Callable[[], Awaitable[Any]]]) -> list[Any]:
        """Wait for calls, some of them at the same time; None stands for those that there was not time enough for.

        A call that was begun may have had its effect all the same.
        """
        free = asyncio.Semaphore(_AT_ONCE)

        async def one(call: Callable[[], Awaitable[Any]]) -> Any:
            async with free:
                if ask.seconds() <= _MARGIN_SECONDS:
                    return None
                try:
                    async with asyncio.timeout_at(ask.deadline - _MARGIN_SECONDS / 2):
                        return await call()
                except TimeoutError:
                    return None
                except aio.AioRpcError as error:
                    if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                        raise
                    return None

        return await asyncio.gather(*(one(call) for call in calls))

    async def _by_id(self, ask: Ask, name: str, query: Mapping[str, Any]) -> SearchResult:
        """Find one memory. Raises Rejected when it does not exist, or is forgotten and not asked for nevertheless."""
        memory = await self.get(ask, name)
        if records.strength_of(memory, ask.at).is_forgotten(ask.at) and query.get("include_forgotten") is not True:
            text = f"Memory {record_values.truncate_name(name)} is forgotten"
            raise RequestError(MEMORY_NOT_FOUND, text)
        return SearchResult([memory])

    async def _by_ids(self, ask: Ask, names: Sequence[str]) -> SearchResult:
        wanted = names[:_MOST_IDS]
        response = await self._api.call(
            self._api.memories.BatchGetMemories, pb.BatchGetMemoriesRequest(memory_ids=wanted), ask
        )
        return SearchResult(list(response.memories), bool(response.deferred) or len(wanted) < len(names))

    async def _by_keywords(self, ask: Ask, query: Mapping[str, Any]) -> SearchResult:
        keywords = fields.texts(query["keywords"], "keywords")
        if len(keywords) > _MOST_KEYWORDS:
            raise fields.invalid("keywords", f"are {_MOST_KEYWORDS} at most")
        text = " ".join(keywords)
        if len(text) > _MOST_QUERY_CHARACTERS:
            raise fields.invalid("keywords", f"have {_MOST_QUERY_CHARACTERS} characters at most")
        if "\0" in text:
            raise fields.invalid("keywords", "hold a NUL character")
        source = record_values.text(query, "source")
        name = quoted(source)
        request = recall_pb2.RecallRequest(
            query=text,
            limit=_MOST_HITS,
            kinds=[recall_pb2.ITEM_KIND_MEMORY],
            filter=pb.MemoryFilter(where=f"source = {name} OR source_agent = {name}" if source else ""),
            mode=recall_pb2.SEARCH_MODE_KEYWORD,
            show_superseded=True,
        )
        response = await self._api.call(self._api.index.Recall, request, ask)
        is_cut = len(response.hits) == _MOST_HITS or response.filter_truncated
        return SearchResult([hit.memory for hit in response.hits], is_cut)

    async def _by_source(self, ask: Ask, source: str) -> SearchResult:
        """Find what has a source, or the agent of that name, newest first."""
        name = quoted(source)
        pages = await asyncio.gather(
            memory_lists.listed(self._api, ask, pb.MemoryFilter(where=f"source = {name}")),
            memory_lists.listed(self._api, ask, pb.MemoryFilter(where=f"source_agent = {name}")),
        )
        found = {memory.memory_id: memory for page in pages for memory in page.memories}
        newest = sorted(found.values(), key=memory_lists.created, reverse=True)
        is_cut = any(page.next_page_token for page in pages) or len(newest) > memory_lists.DEFAULT_LIMIT
        return SearchResult(newest[: memory_lists.DEFAULT_LIMIT], is_cut)

    def _strong(self, found: SearchResult, ask: Ask, query: Mapping[str, Any]) -> SearchResult:
        """Leave out what is weaker than wanted and, unless it is asked for, what is forgotten."""
        least = query.get("min_strength", 0)
        if not isinstance(least, int | float) or isinstance(least, bool):
            raise fields.invalid("min_strength", "is a number")
        if query.get("include_forgotten") is not True:
            least = max(least, FORGOTTEN)
        elif least <= FORGOTTEN:
            # Clients send the threshold as a matter of course, also when they ask for what is below it.
            least = 0
        return SearchResult(
            [memory for memory in found.memories if records.strength_of(memory, ask.at).current(ask.at) >= least],
            found.is_cut,
        )

    async def _use(self, ask: Ask, memories: Sequence[pb.Memory]) -> None:
        """End the idleness of memories that were found: what is left of their strength is what they have from now on.

        That is a courtesy: whoever changes one at the same time, or may not write, has the answer nevertheless.
        """
        idle = []
        for memory in memories:
            if records.is_own(memory) and records.strength_of(memory, ask.at).idle_periods(ask.at):
                changed = pb.Memory()
                changed.CopyFrom(memory)
                records.set_strength(changed, records.strength_of(memory, ask.at).used(ask.at))
                idle.append(changed)
        await asyncio.gather(
            *(self.update(ask, memory, ["metadata"]) for memory in idle[:_MOST_USED]), return_exceptions=True
        )


def strengths(memories: Sequence[pb.Memory], ask: Ask) -> list[Strength]:
    """Return the strength of each memory that has one."""
    return [records.strength_of(memory, ask.at) for memory in memories if records.is_own(memory)]


def _missing(memory_id: str) -> RequestError:
    return RequestError(MEMORY_NOT_FOUND, f"Memory {record_values.truncate_name(memory_id)} not found")


def _not_found(error: aio.AioRpcError, memory_id: str) -> Exception:
    return _missing(memory_id) if error.code() is grpc.StatusCode.NOT_FOUND else error
