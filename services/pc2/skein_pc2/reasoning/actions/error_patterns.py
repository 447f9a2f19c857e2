"""Error patterns: which solution goes with which error message. Expressions are RE2's, which match in linear time."""

from __future__ import annotations

import asyncio
import hashlib
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import grpc
import re2
from google.protobuf.field_mask_pb2 import FieldMask
from grpc import aio

from skein.memory.v1 import memory_pb2 as pb
from skein_pc2.protocol import fields
from skein_pc2.protocol.errors import VALIDATION_ERROR, RequestError
from skein_pc2.reasoning.records import record_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skein_pc2.gateway_api.client import GatewayApi
    from skein_pc2.protocol.frames import Message
    from skein_pc2.reasoning.records.agent_request import Action
    from skein_pc2.reasoning.records.agent_request import Ask

# The type of the memories that keep patterns.
TYPE = "error_pattern"
MOST_PATTERN_CHARACTERS = 1000
# Of an error message, so much is looked at: what it is stands at its beginning.
MOST_MESSAGE_CHARACTERS = 20_000
# Of a tenant's patterns, the newest.
MOST_PATTERNS = 1000
_PAGE = 250
# What one expression may take, compiled and while it matches.
_MEMORY = 256 * 1024
_COMPILED = 256
# Below, matching is quicker than another thread.
_CHARACTERS_AT_ONCE = 20_000
# What is kept back of the time, to answer in.
_MARGIN_SECONDS = 0.5


class PatternInvalid(Exception):
    """RE2 does not take an expression; the text says why."""


class Patterns:
    """add_error_pattern, get_error_solution."""

    def __init__(self, api: GatewayApi) -> None:
        self._api = api
        self.actions: dict[str, Action] = {"add_error_pattern": self._add, "get_error_solution": self._solution}

    async def _add(self, ask: Ask) -> Message:
        """Keep a pattern; one that is kept already gets the new solution."""
        memory = pattern_memory(
            record_values.needed(ask.message, "error_type"),
            record_values.needed(ask.message, "pattern"),
            record_values.text(ask.message, "solution"),
        )
        try:
            await self._api.call(
                self._api.memories.CreateMemory, pb.CreateMemoryRequest(defer_embedding=True, memory=memory), ask
            )
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise
            await self._replace(ask, memory)
        return {"status": "ok"}

    async def _replace(self, ask: Ask, memory: pb.Memory) -> None:
        memory.memory_id = memory.external_id
        update = pb.UpdateMemoryRequest(
            defer_embedding=True, memory=memory, update_mask=FieldMask(paths=["data", "content"])
        )
        try:
            await self._api.call(self._api.memories.UpdateMemory, update, ask)
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            # It was deleted since.
            restore = pb.RestoreMemoryRequest(memory_id=memory.external_id)
            await self._api.call(self._api.memories.RestoreMemory, restore, ask)
            await self._api.call(self._api.memories.UpdateMemory, update, ask)

    async def _solution(self, ask: Ask) -> Message:
        """Return the solution of the newest pattern that the message matches and that has one."""
        text = record_values.needed(ask.message, "error_message")[:MOST_MESSAGE_CHARACTERS]
        error_type = record_values.text(ask.message, "error_type")
        request = pb.ListMemoriesRequest(filter=pb.MemoryFilter(types=[TYPE]), page_size=_PAGE)
        seen = 0
        while True:
            page = await self._api.call(self._api.memories.ListMemories, request, ask)
            known = [pair for memory in page.memories if (pair := pattern_of(memory, error_type)) is not None]
            until = time.monotonic() + ask.seconds() - _MARGIN_SECONDS
            if sum(len(pattern) + len(text) for pattern, _ in known) <= _CHARACTERS_AT_ONCE:
                solution = first_match(known, text, until=until)
            else:
                solution = await asyncio.to_thread(first_match, known, text, until=until)
            seen += max(_PAGE // 10, len(page.memories))
            request.page_token = page.next_page_token
            if solution is not None or not request.page_token or seen >= MOST_PATTERNS:
                break
        answer: Message = {"status": "ok", "solution": solution}
        if solution is None and request.page_token:
            answer["truncated"] = True
        return answer


def pattern_memory(error_type: str, pattern: str, solution: str) -> pb.Memory:
    """Make the memory that keeps a pattern, whose id is made of both names. Raises Rejected."""
    if len(pattern) > MOST_PATTERN_CHARACTERS:
        raise fields.invalid("pattern", f"has {MOST_PATTERN_CHARACTERS} characters at most")
    try:
        compiled(pattern)
    except PatternInvalid as invalid:
        text = f"pattern is no expression that can be matched in linear time: {invalid}"
        raise RequestError(VALIDATION_ERROR, text, field="pattern") from None
    name = hashlib.sha256(record_values.to_compact_json([error_type, pattern]).encode()).hexdigest()[:32]
    data: dict[str, Any] = {"error_type": error_type, "pattern": pattern, "solution": solution or None}
    return pb.Memory(
        external_id=f"err_{name}",
        type=TYPE,
        content=f"{error_type}: {solution or pattern}",
        data=record_values.struct(data, "pattern"),
        source_agent=record_values.AGENT,
    )


def pattern_of(memory: pb.Memory, error_type: str = "") -> tuple[str, str] | None:
    """Return the pattern and the solution that a memory keeps; None when it keeps none of that type of error."""
    kept = record_values.plain(memory.data)
    pattern, solution = kept.get("pattern"), kept.get("solution")
    if not isinstance(pattern, str) or not isinstance(solution, str) or not pattern or not solution:
        return None
    if error_type and kept.get("error_type") != error_type:
        return None
    return pattern, solution


def first_match(known: Sequence[tuple[str, str]], text: str, *, until: float) -> str | None:
    """Return the solution of the first pattern that is found in a text, before a time of the monotonic clock."""
    for pattern, solution in known:
        if time.monotonic() > until:
            break
        try:
            if len(pattern) <= MOST_PATTERN_CHARACTERS and compiled(pattern).search(text) is not None:
                return solution
        except PatternInvalid:
            # A typed client may have stored anything.
            continue
    return None


@lru_cache(maxsize=_COMPILED)
def compiled(pattern: str) -> Any:
    """Compile an expression. Raises PatternInvalid."""
    options = re2.Options()
    options.max_mem = _MEMORY
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0] if error.args else ""
        raise PatternInvalid(why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)) from None
