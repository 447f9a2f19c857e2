"""SYNC_MEMORIES: what another system knows of memories, taken over where it is the newer word."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc
from grpc import aio

from skein.memory.v1 import memory_pb2 as pb
from skein_pc2.protocol import fields
from skein_pc2.protocol.errors import INVALID_REQUEST, RequestError
from skein_pc2.reasoning.records import convert as records
from skein_pc2.reasoning.records import record_values as words

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from skein_pc2.gateway_api.client import GatewayApi
    from skein_pc2.reasoning.records.agent_request import Ask
    from skein_pc2.reasoning.records.memory_store import MemoryStore
    from skein_pc2.reasoning.records.strength import Strength

MOST_MEMORIES = 500
_MOST_ID_CHARACTERS = 255
_TRIES = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoteMemory:
    """What another system says of one memory."""

    memory_id: str
    values: Mapping[str, Any]
    strength: Strength
    # It says when the memory was used.
    is_dated: bool
    created: datetime | None


class Synchronizer:
    """Takes over what is newer."""

    def __init__(self, api: GatewayApi, keeper: MemoryStore) -> None:
        self._api = api
        self._keeper = keeper

    async def synchronize(self, ask: Ask) -> tuple[int, int]:
        """Take over what is newer; return how many memories that were, and how many there was no time for.

        Whoever sends the same again goes on with those: what is taken over already costs next to nothing.
        """
        said = read(ask.message.get("memories"), ask)
        known = await self._keeper.several(ask, list(said))
        fresh = [_new(word, ask.at) for name, word in said.items() if name not in known]
        stored = await self._store(ask, fresh) if fresh else []
        calls = [partial(self._take_over, ask, said[name], known[name]) for name in said if name in known]
        done = [*stored, *await self._keeper.together(ask, calls)]
        return done.count(True), done.count(None)

    async def _store(self, ask: Ask, fresh: list[pb.Memory]) -> list[bool | None]:
        """Store memories that are not there; what was deleted here stays deleted."""
        try:
            await self._api.call(
                self._api.memories.BatchCreateMemories,
                pb.BatchCreateMemoriesRequest(defer_embedding=True, memories=fresh),
                ask,
            )
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise
            return await self._keeper.together(ask, [partial(self._keeper.create, ask, memory) for memory in fresh])
        return [True] * len(fresh)

    async def _take_over(self, ask: Ask, word: RemoteMemory, memory: pb.Memory) -> bool:
        for _ in range(_TRIES):
            strength = records.strength_of(memory, memory.update_time.ToDatetime(tzinfo=ask.at.tzinfo))
            newer = strength.synchronized(word.strength)
            if newer is None:
                return False
            is_same = newer == strength or (not word.is_dated and newer.value == strength.value)
            metadata = pb.Memory(metadata=memory.metadata).metadata
            changes = records.changes(memory, records.with_text(word.values))
            records.keep_sent_fields(memory, word.values)
            if not changes and memory.metadata == metadata and is_same:
                return True
            records.set_strength(memory, newer)
            records.set_synchronized(memory, ask.at)
            try:
                await self._keeper.update(ask, memory, ["content", "title", "type", "importance", "tags", "metadata"])
            except aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.ABORTED:
                    raise
                memory = await self._keeper.get(ask, word.memory_id)
            else:
                return True
        return False


def read(items: object, ask: Ask) -> dict[str, RemoteMemory]:
    """Read what is said of memories; of what is said twice of one, the newer word. Raises Rejected."""
    if not isinstance(items, list) or not items:
        text = "No memories provided"
        raise RequestError(INVALID_REQUEST, text)
    if len(items) > MOST_MEMORIES:
        raise fields.invalid("memories", f"are {MOST_MEMORIES} at most")
    said: dict[str, RemoteMemory] = {}
    for place, item in enumerate(items):
        word = _word(item, f"memories[{place}]", records.new_id(ask.message, place), ask.at)
        known = said.get(word.memory_id)
        if known is None or known.strength.last_accessed <= word.strength.last_accessed:
            said[word.memory_id] = word
    return said


def _word(item: object, field: str, new_id: str, at: datetime) -> RemoteMemory:
    values = fields.mapping(item, field)
    if not values:
        raise fields.invalid(field, "says nothing")
    name = words.text(values, "id", "memory_id") or new_id
    if len(name) > _MOST_ID_CHARACTERS:
        raise fields.invalid(f"{field}.id", f"has {_MOST_ID_CHARACTERS} characters at most")
    words.needed(records.with_text(values), "content", missing=f"{field}.content is needed")
    created = values.get("created_at")
    return RemoteMemory(
        memory_id=name,
        values=values,
        strength=records.given_strength(values, at),
        is_dated=bool(values.get("last_accessed") or created),
        created=None if created is None else min(at, fields.read_time(created, f"{field}.created_at")),
    )


def _new(word: RemoteMemory, at: datetime) -> pb.Memory:
    memory = records.memory_of(
        records.with_text(word.values),
        external_id=word.memory_id,
        importance=words.importance(word.values.get("priority")),
    )
    records.keep_sent_fields(memory, word.values)
    records.set_strength(memory, word.strength)
    records.set_synchronized(memory, at)
    if word.created is not None:
        memory.create_time.FromDatetime(word.created)
    return memory
