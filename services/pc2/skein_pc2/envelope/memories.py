"""One memory at a time: create, read, update, delete. Messages that arrive at the same time share one call."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import grpc
from google.protobuf.field_mask_pb2 import FieldMask
from grpc import aio

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.errors import reason_of_call
from skein_pc2.envelope import convert as wire
from skein_pc2.envelope.request import Action, Request
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.gateway_api.named_sessions import ensure_session
from skein_pc2.protocol.concurrency import RequestContext
from skein_pc2.protocol.errors import STORAGE_ERROR, RequestError, waits_for_approval

# Fields that an upsert replaces; the memory stays in the session that stored it first.
_REPLACED_FIELDS = ("type", "content", "data", "source_agent", "metadata", "tags", "importance", "expire_time")
Item = TypeVar("Item")
Result = TypeVar("Result")


class Memories:
    """Actions on one memory, which has the id that its assistant chose."""

    def __init__(self, api: GatewayApi) -> None:
        self._api = api
        self._create_batcher = CallBatcher(self._create_one, self._create_many)
        self._read_batcher = CallBatcher(self._read_one, self._read_many)

    def actions(self) -> dict[str, Action]:
        """Return the handlers by the protocol's action names."""
        return {
            "create": self._create,
            "read": self._read,
            "upsert": self._upsert,
            "save": self._save,
            "update": self._update,
            "delete": self._delete,
        }

    async def _create(self, request: Request) -> dict[str, Any]:
        """Create a memory. A repeat with the same request_id returns the first memory."""
        memory = wire.parse_create(request.payload, session_id=request.session_id, at=datetime.now(UTC))
        return await self._create_memory(memory, request)

    async def _save(self, request: Request) -> dict[str, Any]:
        """Create a memory from a message's `data`; its default type is context."""
        memory = wire.parse_save(request.message, request.payload, session_id=request.session_id, at=datetime.now(UTC))
        return await self._create_memory(memory, request)

    async def _create_memory(self, memory: pb.Memory, request: Request) -> dict[str, Any]:
        memory.external_id = request.new_id("mem")
        await ensure_session(self._api, request, memory.session_id)
        try:
            return wire.create_reply(await self._create_batched(memory, request))
        except aio.AioRpcError as error:
            # The id is new without a request_id, so the batch that created it was cut off after its commit.
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise
        try:
            return wire.create_reply(await self._read_batched(memory.external_id, request))
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
        # The memory was created and deleted since, so this request creates another.
        memory.external_id = wire.new_memory_id()
        return wire.create_reply(await self._create_batched(memory, request))

    async def _read(self, request: Request) -> dict[str, Any]:
        record = wire.memory_data(await self._read_batched(wire.parse_memory_id(request.payload), request))
        # The orchestrator's client reads the record itself; the translation service reads `memory`.
        return {**record, "memory": record}

    async def _upsert(self, request: Request) -> dict[str, Any]:
        """Create a memory with the caller's id, or replace that memory as a whole."""
        memory = wire.parse_create(request.payload, session_id=request.session_id, at=datetime.now(UTC))
        memory.external_id = wire.parse_memory_id(request.payload)
        stored = await self._replace(memory, request)
        if stored is None:
            await ensure_session(self._api, request, memory.session_id)
            try:
                stored = await self._create_batched(memory, request)
            except aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                    raise
                stored = await self._undelete(memory, request)
        return {**wire.create_reply(stored), **wire.update_reply(stored)}

    async def _replace(self, memory: pb.Memory, request: Request) -> pb.Memory | None:
        """Replace a memory's fields; None when it does not exist."""
        call = pb.UpdateMemoryRequest(
            defer_embedding=True, memory=memory, update_mask=FieldMask(paths=_REPLACED_FIELDS)
        )
        call.memory.memory_id = memory.external_id
        reply = await self._api.find(self._api.memories.UpdateMemory, call, request)
        return None if reply is None else reply.memory

    async def _undelete(self, memory: pb.Memory, request: Request) -> pb.Memory:
        """Undelete a memory, because its id cannot be used again, and replace its fields."""
        call = pb.UndeleteMemoryRequest(memory_id=memory.external_id)
        await self._api.call(self._api.memories.UndeleteMemory, call, request)
        stored = await self._replace(memory, request)
        if stored is None:
            raise RequestError(STORAGE_ERROR, "The memory was deleted meanwhile; send the message again")
        return stored

    async def _update(self, request: Request) -> dict[str, Any]:
        memory, paths = wire.parse_update(request.payload, datetime.now(UTC))
        call = pb.UpdateMemoryRequest(
            defer_embedding=True, memory=memory, update_mask=FieldMask(paths=paths), request_id=request.repeat_id
        )
        try:
            response = await self._api.call(self._api.memories.UpdateMemory, call, request)
        except aio.AioRpcError as error:
            # A repeated ttl gives a later expire_time, so a repeat differs from the first request.
            if reason_of_call(error) != "REQUEST_ID_REUSED":
                raise
            return wire.update_reply(await self._read_batched(memory.memory_id, request))
        return wire.update_reply(response.memory)

    async def _delete(self, request: Request) -> dict[str, Any]:
        call = pb.DeleteMemoryRequest(memory_id=wire.parse_memory_id(request.payload), request_id=request.repeat_id)
        await self._api.call(self._api.memories.DeleteMemory, call, request)
        return {"memory_id": call.memory_id, "deleted": True}

    async def _create_batched(self, memory: pb.Memory, request: Request) -> pb.Memory:
        stored = await self._create_batcher.submit(memory, request)
        if stored.pending_approval:
            raise waits_for_approval(stored.memory_id)
        return stored

    async def _read_batched(self, memory_id: str, request: Request) -> pb.Memory:
        return await self._read_batcher.submit(memory_id, request)

    async def _create_one(self, memory: pb.Memory, context: RequestContext) -> pb.Memory:
        call = pb.CreateMemoryRequest(defer_embedding=True, memory=memory)
        return (await self._api.call(self._api.memories.CreateMemory, call, context)).memory

    async def _create_many(self, memories: Sequence[pb.Memory], context: RequestContext) -> Sequence[pb.Memory]:
        call = pb.BatchCreateMemoriesRequest(defer_embedding=True, memories=memories)
        return (await self._api.call(self._api.memories.BatchCreateMemories, call, context)).memories

    async def _read_one(self, memory_id: str, context: RequestContext) -> pb.Memory:
        call = pb.GetMemoryRequest(memory_id=memory_id)
        return (await self._api.call(self._api.memories.GetMemory, call, context)).memory

    async def _read_many(self, memory_ids: Sequence[str], context: RequestContext) -> Sequence[pb.Memory | None]:
        call = pb.BatchGetMemoriesRequest(memory_ids=list(dict.fromkeys(memory_ids)))
        response = await self._api.call(self._api.memories.BatchGetMemories, call, context)
        result = {name: memory for memory in response.memories for name in (memory.memory_id, memory.external_id)}
        # A missing memory gets its own call, which raises the service's error.
        return [result.get(memory_id) for memory_id in memory_ids]


@dataclass(frozen=True, slots=True)
class _PendingItem(Generic[Item, Result]):
    item: Item
    context: RequestContext
    future: asyncio.Future[Result | None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class CallBatcher(Generic[Item, Result]):
    """Batches one kind of call of one API key.

    A message never waits for others. While few calls are in flight, each message has its own call. Later messages are
    queued, and the queue becomes one call as soon as a call returns. So replies stay fast, and load makes messages
    cheaper.
    """

    def __init__(
        self,
        call_one: Callable[[Item, RequestContext], Awaitable[Result]],
        call_many: Callable[[Sequence[Item], RequestContext], Awaitable[Sequence[Result | None]]],
        *,
        max_calls: int = 2,
        max_items: int = 32,
    ) -> None:
        """Run up to `max_calls` calls at the same time, each for one item or for a batch.

        `call_many` handles up to `max_items` items, all or none. It returns None for an item that needs its own call.
        """
        self._call_one = call_one
        self._call_many = call_many
        self._free_slots = max_calls
        self._max_items = max_items
        self._queue: deque[_PendingItem[Item, Result]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, item: Item, context: RequestContext) -> Result:
        """Return the item's result, from a call of its own or from a batch. Raises what `call_one` raises."""
        if not self._free_slots:
            pending: _PendingItem[Item, Result] = _PendingItem(item, context)
            self._queue.append(pending)
            result = await pending.future
            return await self._call_one(item, context) if result is None else result
        self._free_slots -= 1
        try:
            return await self._call_one(item, context)
        finally:
            self._release()

    def _release(self) -> None:
        """Start a batch of the queued items of one agent, or free the slot."""
        batch: list[_PendingItem[Item, Result]] = []
        others: list[_PendingItem[Item, Result]] = []
        while self._queue and len(batch) < self._max_items:
            pending = self._queue.popleft()
            # A cancelled caller needs no result.
            if pending.future.done():
                continue
            # A call claims one agent, by which memories wait for approval and are rated.
            same_agent = not batch or pending.context.sender.agent_id == batch[0].context.sender.agent_id
            (batch if same_agent else others).append(pending)
        self._queue.extendleft(reversed(others))
        if not batch:
            self._free_slots += 1
            return
        task = asyncio.create_task(self._run_batch(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_batch(self, batch: Sequence[_PendingItem[Item, Result]]) -> None:
        results: Sequence[Result | None] = [None] * len(batch)
        try:
            if len(batch) == 1:
                results = [await self._call_one(batch[0].item, batch[0].context)]
            else:
                # The batch has the deadline of its oldest item.
                results = await self._call_many([pending.item for pending in batch], batch[0].context)
        except (aio.AioRpcError, RequestError) as error:
            if len(batch) == 1 and not batch[0].future.done():
                batch[0].future.set_exception(error)
            # One item of several may be invalid, so each gets its own call.
        finally:
            for pending, result in zip(batch, results, strict=True):
                if not pending.future.done():
                    pending.future.set_result(result)
            self._release()
