"""SYNC_MEMORIES: memories from another system, applied where they are newer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import grpc
from grpc import aio

from skein.memory.v1 import memory_pb2 as pb
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.protocol import fields
from skein_pc2.protocol.errors import INVALID_REQUEST, RequestError, waits_for_approval
from skein_pc2.reasoning.records import convert as records
from skein_pc2.reasoning.records import record_values
from skein_pc2.reasoning.records.agent_request import AgentRequest
from skein_pc2.reasoning.records.memory_store import MemoryStore
from skein_pc2.reasoning.records.strength import Strength

MAX_MEMORIES = 500
_MAX_ID_CHARACTERS = 255
_MAX_ATTEMPTS = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoteMemory:
    """One memory as another system sends it."""

    memory_id: str
    values: Mapping[str, Any]
    strength: Strength
    # The memory has a time of its last use.
    has_last_use_time: bool
    create_time: datetime | None


class Synchronizer:
    """Applies newer memories."""

    def __init__(self, api: GatewayApi, store: MemoryStore) -> None:
        self._api = api
        self._memories = store

    async def synchronize(self, request: AgentRequest) -> tuple[int, int]:
        """Apply newer memories; return the numbers of applied memories and of those without enough time.

        A repeat continues with the remaining memories, because applied memories are not written again.
        """
        remote_memories = parse_remotes(request.message.get("memories"), request)
        existing_memories = await self._memories.get_many(request, list(remote_memories))
        new_memories = [
            _new_memory(remote, request.at) for name, remote in remote_memories.items() if name not in existing_memories
        ]
        create_results = await self._store(request, new_memories) if new_memories else []
        calls = [
            partial(self._apply, request, remote_memories[name], existing_memories[name])
            for name in remote_memories
            if name in existing_memories
        ]
        results = [*create_results, *await self._memories.call_all(request, calls)]
        return results.count(True), results.count(None)

    async def _store(self, request: AgentRequest, new_memories: list[pb.Memory]) -> list[bool | None]:
        """Create missing memories; deleted ones stay deleted."""
        try:
            response = await self._api.call(
                self._api.memories.BatchCreateMemories,
                pb.BatchCreateMemoriesRequest(defer_embedding=True, memories=new_memories),
                request,
            )
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise
            return await self._memories.call_all(
                request, [partial(self._memories.create, request, memory) for memory in new_memories]
            )
        for stored in response.memories:
            if stored.pending_approval:
                raise waits_for_approval(stored.memory_id)
        return [True] * len(new_memories)

    async def _apply(self, request: AgentRequest, remote: RemoteMemory, memory: pb.Memory) -> bool:
        for _ in range(_MAX_ATTEMPTS):
            strength = records.strength_of(memory, memory.update_time.ToDatetime(tzinfo=request.at.tzinfo))
            new_strength = strength.merge(remote.strength)
            if new_strength is None:
                return False
            is_unchanged = new_strength == strength or (
                not remote.has_last_use_time and new_strength.value == strength.value
            )
            metadata = pb.Memory(metadata=memory.metadata).metadata
            changes = records.apply_changes(memory, records.with_text_content(remote.values))
            records.store_sent_fields(memory, remote.values)
            if not changes and memory.metadata == metadata and is_unchanged:
                return True
            records.set_strength(memory, new_strength)
            records.set_sync_time(memory, request.at)
            try:
                await self._memories.update(
                    request, memory, ["content", "title", "type", "importance", "tags", "metadata"]
                )
            except aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.ABORTED:
                    raise
                memory = await self._memories.get(request, remote.memory_id)
            else:
                return True
        return False


def parse_remotes(items: object, request: AgentRequest) -> dict[str, RemoteMemory]:
    """Read the sent memories; of duplicates the newer one counts. Raises RequestError."""
    if not isinstance(items, list) or not items:
        raise RequestError(INVALID_REQUEST, "No memories provided")
    if len(items) > MAX_MEMORIES:
        raise fields.invalid("memories", f"are {MAX_MEMORIES} at most")
    remote_memories: dict[str, RemoteMemory] = {}
    for position, item in enumerate(items):
        remote = _parse_remote(item, f"memories[{position}]", records.new_id(request.message, position), request.at)
        previous = remote_memories.get(remote.memory_id)
        if previous is None or previous.strength.last_accessed <= remote.strength.last_accessed:
            remote_memories[remote.memory_id] = remote
    return remote_memories


def _parse_remote(item: object, field: str, new_id: str, at: datetime) -> RemoteMemory:
    values = fields.mapping(item, field)
    if not values:
        raise fields.invalid(field, "says nothing")
    name = record_values.text(values, "id", "memory_id") or new_id
    if len(name) > _MAX_ID_CHARACTERS:
        raise fields.invalid(f"{field}.id", f"has {_MAX_ID_CHARACTERS} characters at most")
    record_values.required_text(records.with_text_content(values), "content", missing=f"{field}.content is needed")
    create_time = values.get("created_at")
    return RemoteMemory(
        memory_id=name,
        values=values,
        strength=records.parse_strength(values, at),
        has_last_use_time=bool(values.get("last_accessed") or create_time),
        create_time=None if create_time is None else min(at, fields.read_time(create_time, f"{field}.created_at")),
    )


def _new_memory(remote: RemoteMemory, at: datetime) -> pb.Memory:
    memory = records.parse_memory(
        records.with_text_content(remote.values),
        external_id=remote.memory_id,
        importance=record_values.parse_importance(remote.values.get("priority")),
    )
    records.store_sent_fields(memory, remote.values)
    records.set_strength(memory, remote.strength)
    records.set_sync_time(memory, at)
    if remote.create_time is not None:
        memory.create_time.FromDatetime(remote.create_time)
    return memory
