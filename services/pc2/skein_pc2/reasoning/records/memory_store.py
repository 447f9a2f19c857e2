"""Reads and writes of port 5596's memories, by public RPCs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.field_mask_pb2 import FieldMask
from grpc import aio

from skein.memory.v1 import memory_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein_kit.filters.expression import quote
from skein_pc2.gateway_api import named_sessions
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.protocol import fields
from skein_pc2.protocol.concurrency import RequestContext
from skein_pc2.protocol.errors import INVALID_REQUEST, MEMORY_NOT_FOUND, RATE_LIMIT_EXCEEDED, RequestError
from skein_pc2.reasoning.records import convert as records
from skein_pc2.reasoning.records import memory_lists, record_values
from skein_pc2.reasoning.records.agent_request import AgentRequest
from skein_pc2.reasoning.records.strength import FORGOTTEN_STRENGTH, Strength

NO_QUERY = "No query parameters provided"

_MAX_KEYWORDS, _MAX_IDS, _MAX_HITS = 50, 500, 100
_MAX_QUERY_CHARACTERS = 10_000
# First hits of a query whose last use is updated, each at most once a day.
_MAX_USED_MEMORIES = 20
_MAX_ATTEMPTS = 20
_MAX_PAUSE_SECONDS = 0.01
# Concurrent calls of one message.
_MAX_CONCURRENT_CALLS = 8
# Time reserved for the end of calls and the reply.
_MARGIN_SECONDS = 0.6
# Number of operations that a memory stores, newest last.
_MAX_OPERATIONS = 16


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Memories for a query, best or newest first."""

    memories: list[pb.Memory] = field(default_factory=list)
    # There may be more.
    is_truncated: bool = False


class MemoryStore:
    """Memories of one API key's tenant."""

    def __init__(self, api: GatewayApi) -> None:
        self._api = api

    async def create_once(self, request: AgentRequest, memory: pb.Memory) -> str:
        """Create a memory unless its id exists, and return the id."""
        await self.create(request, memory)
        return memory.external_id

    async def create(self, context: RequestContext, memory: pb.Memory) -> bool:
        """Create a memory, and its session if needed; return whether the id was free.

        The id of a deleted memory is not free.
        """
        await named_sessions.ensure_session(self._api, context, memory.session_id)
        try:
            await self._api.call(
                self._api.memories.CreateMemory, pb.CreateMemoryRequest(defer_embedding=True, memory=memory), context
            )
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise
            return False
        return True

    async def get(self, request: AgentRequest, memory_id: str) -> pb.Memory:
        """Read a memory. Raises RequestError when it is missing or deleted."""
        try:
            result = await self._api.call(
                self._api.memories.GetMemory, pb.GetMemoryRequest(memory_id=memory_id), request
            )
        except aio.AioRpcError as error:
            raise _to_error(error, memory_id) from None
        return result.memory

    async def get_many(self, request: AgentRequest, names: Sequence[str]) -> dict[str, pb.Memory]:
        """Read memories, by both of their ids, without missing ones."""
        result: dict[str, pb.Memory] = {}
        pending = list(names)
        while pending:
            response = await self._api.call(
                self._api.memories.BatchGetMemories, pb.BatchGetMemoriesRequest(memory_ids=pending), request
            )
            result |= {name: memory for memory in response.memories for name in (memory.memory_id, memory.external_id)}
            pending = list(response.unread_ids)
        return result

    async def delete(self, request: AgentRequest, memory_id: str, *, operation: str = "") -> None:
        """Delete a memory. A repeat of the same operation has no effect."""
        call = pb.DeleteMemoryRequest(memory_id=memory_id, request_id=operation)
        try:
            await self._api.call(self._api.memories.DeleteMemory, call, request)
        except aio.AioRpcError as error:
            raise _to_error(error, memory_id) from None

    async def update(self, context: RequestContext, memory: pb.Memory, paths: Sequence[str]) -> pb.Memory:
        """Update fields of a memory at its revision. Raises AioRpcError."""
        call = pb.UpdateMemoryRequest(defer_embedding=True, memory=memory, update_mask=FieldMask(paths=paths))
        return (await self._api.call(self._api.memories.UpdateMemory, call, context)).memory

    async def reinforce(self, request: AgentRequest, memory_id: str, *, operation: str = "") -> float:
        """Reinforce a memory once for each operation; return its strength."""
        for _ in range(_MAX_ATTEMPTS):
            memory = await self.get(request, memory_id)
            strength = records.strength_of(memory, request.at)
            if operation and operation in records.operations(memory):
                return strength.value_at(request.at)
            strength = strength.after_reinforcement(request.at)
            records.set_strength(memory, strength)
            if operation:
                records.set_operations(memory, [*records.operations(memory), operation][-_MAX_OPERATIONS:])
            try:
                await self.update(request, memory, ["metadata"])
            except aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.ABORTED:
                    raise _to_error(error, memory_id) from None
                # Concurrent reinforcements all count.
                await asyncio.sleep(random.uniform(0, _MAX_PAUSE_SECONDS))  # noqa: S311 - only spreads the retries.
            else:
                return strength.value_at(request.at)
        raise RequestError(
            RATE_LIMIT_EXCEEDED,
            f"Memory {record_values.truncate_name(memory_id)} is being changed by many others; try again soon",
        )

    async def find(self, request: AgentRequest, query: Mapping[str, Any]) -> SearchResult:
        """Find memories by id, else ids, else keywords, else source."""
        if query.get("id"):
            result = await self._find_by_id(request, record_values.required_text(query, "id"), query)
        elif query.get("ids"):
            result = await self._find_by_ids(request, fields.texts(query["ids"], "ids"))
        elif query.get("keywords"):
            result = self._filter_by_strength(await self._find_by_keywords(request, query), request, query)
        elif query.get("source"):
            result = self._filter_by_strength(
                await self._find_by_source(request, record_values.required_text(query, "source")), request, query
            )
        else:
            raise RequestError(INVALID_REQUEST, NO_QUERY)
        await self._record_use(request, result.memories)
        return result

    async def call_all(self, request: AgentRequest, calls: Sequence[Callable[[], Awaitable[Any]]]) -> list[Any]:
        """Run calls, some at a time; None is the result of a call without enough time.

        A call without a result may still have had its effect.
        """
        semaphore = asyncio.Semaphore(_MAX_CONCURRENT_CALLS)

        async def run_call(call: Callable[[], Awaitable[Any]]) -> Any:
            async with semaphore:
                if request.remaining_seconds() <= _MARGIN_SECONDS:
                    return None
                try:
                    async with asyncio.timeout_at(request.deadline - _MARGIN_SECONDS / 2):
                        return await call()
                except TimeoutError:
                    return None
                except aio.AioRpcError as error:
                    if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                        raise
                    return None

        return await asyncio.gather(*(run_call(call) for call in calls))

    async def _find_by_id(self, request: AgentRequest, name: str, query: Mapping[str, Any]) -> SearchResult:
        """Find one memory. Raises RequestError when it is missing, or forgotten without `include_forgotten`."""
        memory = await self.get(request, name)
        if (
            records.strength_of(memory, request.at).is_forgotten(request.at)
            and query.get("include_forgotten") is not True
        ):
            raise RequestError(MEMORY_NOT_FOUND, f"Memory {record_values.truncate_name(name)} is forgotten")
        return SearchResult([memory])

    async def _find_by_ids(self, request: AgentRequest, names: Sequence[str]) -> SearchResult:
        selected_ids = names[:_MAX_IDS]
        response = await self._api.call(
            self._api.memories.BatchGetMemories, pb.BatchGetMemoriesRequest(memory_ids=selected_ids), request
        )
        return SearchResult(list(response.memories), bool(response.unread_ids) or len(selected_ids) < len(names))

    async def _find_by_keywords(self, request: AgentRequest, query: Mapping[str, Any]) -> SearchResult:
        keywords = fields.texts(query["keywords"], "keywords")
        if len(keywords) > _MAX_KEYWORDS:
            raise fields.invalid("keywords", f"are {_MAX_KEYWORDS} at most")
        text = " ".join(keywords)
        if len(text) > _MAX_QUERY_CHARACTERS:
            raise fields.invalid("keywords", f"have {_MAX_QUERY_CHARACTERS} characters at most")
        if "\0" in text:
            raise fields.invalid("keywords", "hold a NUL character")
        source = record_values.text(query, "source")
        name = quote(source)
        call = recall_pb2.RecallRequest(
            query=text,
            limit=_MAX_HITS,
            kinds=[recall_pb2.ITEM_KIND_MEMORY],
            filter=pb.MemoryFilter(where=f"source = {name} OR source_agent = {name}" if source else ""),
            mode=recall_pb2.SEARCH_MODE_KEYWORD,
            show_superseded=True,
            show_duplicates=True,
        )
        response = await self._api.call(self._api.index.Recall, call, request)
        is_truncated = len(response.hits) == _MAX_HITS or response.filter_truncated
        return SearchResult([hit.memory for hit in response.hits], is_truncated)

    async def _find_by_source(self, request: AgentRequest, source: str) -> SearchResult:
        """Find memories by source or source agent, newest first."""
        name = quote(source)
        pages = await asyncio.gather(
            memory_lists.list_memories(self._api, request, pb.MemoryFilter(where=f"source = {name}")),
            memory_lists.list_memories(self._api, request, pb.MemoryFilter(where=f"source_agent = {name}")),
        )
        result = {memory.memory_id: memory for page in pages for memory in page.memories}
        newest = sorted(result.values(), key=memory_lists.create_time_of, reverse=True)
        is_truncated = any(page.next_page_token for page in pages) or len(newest) > memory_lists.DEFAULT_LIMIT
        return SearchResult(newest[: memory_lists.DEFAULT_LIMIT], is_truncated)

    def _filter_by_strength(
        self, result: SearchResult, request: AgentRequest, query: Mapping[str, Any]
    ) -> SearchResult:
        """Exclude memories below `min_strength`, and forgotten ones without `include_forgotten`."""
        min_strength = query.get("min_strength", 0)
        if not isinstance(min_strength, int | float) or isinstance(min_strength, bool):
            raise fields.invalid("min_strength", "is a number")
        if query.get("include_forgotten") is not True:
            min_strength = max(min_strength, FORGOTTEN_STRENGTH)
        elif min_strength <= FORGOTTEN_STRENGTH:
            # Clients always send the threshold, even when they want memories below it.
            min_strength = 0
        return SearchResult(
            [
                memory
                for memory in result.memories
                if records.strength_of(memory, request.at).value_at(request.at) >= min_strength
            ],
            result.is_truncated,
        )

    async def _record_use(self, request: AgentRequest, memories: Sequence[pb.Memory]) -> None:
        """Store the present strength of memories, which ends their idle time.

        Failures are ignored: the query's reply does not depend on it.
        """
        idle = []
        for memory in memories:
            if records.has_strength(memory) and records.strength_of(memory, request.at).idle_periods(request.at):
                updated_memory = pb.Memory()
                updated_memory.CopyFrom(memory)
                records.set_strength(updated_memory, records.strength_of(memory, request.at).after_use(request.at))
                idle.append(updated_memory)
        await asyncio.gather(
            *(self.update(request, memory, ["metadata"]) for memory in idle[:_MAX_USED_MEMORIES]),
            return_exceptions=True,
        )


def strengths(memories: Sequence[pb.Memory], request: AgentRequest) -> list[Strength]:
    """Return the strength of each memory that has one."""
    return [records.strength_of(memory, request.at) for memory in memories if records.has_strength(memory)]


def _missing_error(memory_id: str) -> RequestError:
    return RequestError(MEMORY_NOT_FOUND, f"Memory {record_values.truncate_name(memory_id)} not found")


def _to_error(error: aio.AioRpcError, memory_id: str) -> Exception:
    return _missing_error(memory_id) if error.code() is grpc.StatusCode.NOT_FOUND else error
