"""Error patterns and their solutions. Patterns are RE2 expressions, which match in linear time."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import grpc
import re2
from google.protobuf.field_mask_pb2 import FieldMask
from grpc import aio

from skein.memory.v1 import memory_pb2 as pb
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.protocol import fields
from skein_pc2.protocol.errors import VALIDATION_ERROR, RequestError
from skein_pc2.protocol.frames import Message
from skein_pc2.reasoning.records import record_values
from skein_pc2.reasoning.records.agent_request import Action, AgentRequest

# Type of memories that hold patterns.
TYPE = "error_pattern"
MAX_PATTERN_CHARACTERS = 1000
# Searched characters of an error message, which begins with its type.
MAX_MESSAGE_CHARACTERS = 20_000
# Searched patterns of a tenant, newest first.
MAX_PATTERNS = 1000
_PAGE_SIZE = 250
# Memory of one expression in bytes, and number of compiled expressions.
_MAX_EXPRESSION_BYTES = 256 * 1024
_MAX_CACHED_EXPRESSIONS = 256
# Below, matching is faster than a thread switch.
_MAX_INLINE_CHARACTERS = 20_000
# Time reserved for the reply.
_MARGIN_SECONDS = 0.5


class PatternInvalid(Exception):
    """RE2 rejects an expression; the text is the reason."""


class ErrorPatterns:
    """add_error_pattern, get_error_solution."""

    def __init__(self, api: GatewayApi) -> None:
        self._api = api
        self.actions: dict[str, Action] = {"add_error_pattern": self._add, "get_error_solution": self._get_solution}

    async def _add(self, request: AgentRequest) -> Message:
        """Store a pattern, or replace its solution."""
        memory = pattern_memory(
            record_values.required_text(request.message, "error_type"),
            record_values.required_text(request.message, "pattern"),
            record_values.text(request.message, "solution"),
        )
        try:
            await self._api.call(
                self._api.memories.CreateMemory, pb.CreateMemoryRequest(defer_embedding=True, memory=memory), request
            )
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise
            await self._replace(request, memory)
        return {"status": "ok"}

    async def _replace(self, request: AgentRequest, memory: pb.Memory) -> None:
        memory.memory_id = memory.external_id
        update = pb.UpdateMemoryRequest(
            defer_embedding=True, memory=memory, update_mask=FieldMask(paths=["data", "content"])
        )
        if await self._api.find(self._api.memories.UpdateMemory, update, request) is None:
            # The memory was deleted since.
            undelete = pb.UndeleteMemoryRequest(memory_id=memory.external_id)
            await self._api.call(self._api.memories.UndeleteMemory, undelete, request)
            await self._api.call(self._api.memories.UpdateMemory, update, request)

    async def _get_solution(self, request: AgentRequest) -> Message:
        """Return the solution of the newest matching pattern that has one."""
        text = record_values.required_text(request.message, "error_message")[:MAX_MESSAGE_CHARACTERS]
        error_type = record_values.text(request.message, "error_type")
        call = pb.ListMemoriesRequest(filter=pb.MemoryFilter(types=[TYPE]), page_size=_PAGE_SIZE)
        searched_count = 0
        while True:
            page = await self._api.call(self._api.memories.ListMemories, call, request)
            patterns = [pair for memory in page.memories if (pair := pattern_of(memory, error_type)) is not None]
            deadline = time.monotonic() + request.remaining_seconds() - _MARGIN_SECONDS
            if sum(len(pattern) + len(text) for pattern, _ in patterns) <= _MAX_INLINE_CHARACTERS:
                solution = first_match(patterns, text, deadline=deadline)
            else:
                solution = await asyncio.to_thread(first_match, patterns, text, deadline=deadline)
            searched_count += max(_PAGE_SIZE // 10, len(page.memories))
            call.page_token = page.next_page_token
            if solution is not None or not call.page_token or searched_count >= MAX_PATTERNS:
                break
        reply: Message = {"status": "ok", "solution": solution}
        if solution is None and call.page_token:
            reply["truncated"] = True
        return reply


def pattern_memory(error_type: str, pattern: str, solution: str) -> pb.Memory:
    """Return the memory of a pattern; its id is a hash of both arguments. Raises RequestError."""
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise fields.invalid("pattern", f"has {MAX_PATTERN_CHARACTERS} characters at most")
    try:
        compile_pattern(pattern)
    except PatternInvalid as invalid:
        raise RequestError(
            VALIDATION_ERROR, f"pattern is no expression that can be matched in linear time: {invalid}", field="pattern"
        ) from None
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
    """Return a memory's pattern and solution; None without both, or for another error type."""
    data = record_values.struct_to_json(memory.data)
    pattern, solution = data.get("pattern"), data.get("solution")
    if not isinstance(pattern, str) or not isinstance(solution, str) or not pattern or not solution:
        return None
    if error_type and data.get("error_type") != error_type:
        return None
    return pattern, solution


def first_match(patterns: Sequence[tuple[str, str]], text: str, *, deadline: float) -> str | None:
    """Return the solution of the first pattern found in a text; stop at `deadline` of the monotonic clock."""
    for pattern, solution in patterns:
        if time.monotonic() > deadline:
            break
        try:
            if len(pattern) <= MAX_PATTERN_CHARACTERS and compile_pattern(pattern).search(text) is not None:
                return solution
        except PatternInvalid:
            # Typed clients may store invalid patterns.
            continue
    return None


@lru_cache(maxsize=_MAX_CACHED_EXPRESSIONS)
def compile_pattern(pattern: str) -> Any:
    """Compile an expression. Raises PatternInvalid."""
    options = re2.Options()
    options.max_mem = _MAX_EXPRESSION_BYTES
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        raise PatternInvalid(reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)) from None
