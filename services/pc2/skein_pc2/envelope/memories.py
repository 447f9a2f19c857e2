"""One memory at a time: create, read, update, delete."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.field_mask_pb2 import FieldMask
from grpc import aio

from skein.memory.v1 import memory_pb2 as pb
from skein_pc2.envelope import convert as wire
from skein_pc2.envelope.call_batch import CallBatcher
from skein_pc2.gateway_api.named_sessions import ensure_session
from skein_pc2.protocol.errors import STORAGE_ERROR, RequestError, reason_of_call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skein_pc2.envelope.request import Action, Request
    from skein_pc2.gateway_api.client import GatewayApi
    from skein_pc2.protocol.concurrency import RequestContext


# What an upsert says anew; the session, in which the memory was stored first, stays.
_REPLACED = ("type", "content", "data", "source_agent", "metadata", "tags", "importance", "expire_time")


class Memories:
    """Keeps memories under the ids that assistants know them by."""

    def __init__(self, api: GatewayApi) -> None:
        self._api = api
        self._storing = CallBatcher(self._store, self._store_all)
        self._finding = CallBatcher(self._find, self._find_all)

    def actions(self) -> dict[str, Action]:
        """Return what it does, by the names of the protocol."""
        return {
            "create": self._create,
            "read": self._read,
            "upsert": self._upsert,
            "save": self._save,
            "update": self._update,
            "delete": self._delete,
        }

    async def _create(self, request: Request) -> dict[str, Any]:
        """Store a memory; a request that is sent again with its id finds the memory that it stored before."""
        memory = wire.memory(request.payload, session_id=request.session_id, at=datetime.now(UTC))
        return await self._create_memory(memory, request)

    async def _save(self, request: Request) -> dict[str, Any]:
        """Store the `data` that a message brings; its type is context unless it says another."""
        memory = wire.parse_save(request.message, request.payload, session_id=request.session_id, at=datetime.now(UTC))
        return await self._create_memory(memory, request)

    async def _create_memory(self, memory: pb.Memory, request: Request) -> dict[str, Any]:
        memory.external_id = request.new_id("mem")
        await ensure_session(self._api, request, memory.session_id)
        try:
            return wire.create_reply(await self._stored(memory, request))
        except aio.AioRpcError as error:
            # Without a request id the id is a new one: the call that stored it among others was not seen to end.
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise
        try:
            return wire.create_reply(await self._found(memory.external_id, request))
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
        # It was stored and deleted since: this is a new wish.
        memory.external_id = wire.new_memory_id()
        return wire.create_reply(await self._stored(memory, request))

    async def _read(self, request: Request) -> dict[str, Any]:
        record = wire.memory_data(await self._found(wire.memory_id(request.payload), request))
        # The orchestrator's own client reads the record itself, the translation service `memory`.
        return {**record, "memory": record}

    async def _upsert(self, request: Request) -> dict[str, Any]:
        """Store a memory under the id that its caller chose; what was stored under it before is replaced whole."""
        memory = wire.memory(request.payload, session_id=request.session_id, at=datetime.now(UTC))
        memory.external_id = wire.memory_id(request.payload)
        stored = await self._replaced(memory, request)
        if stored is None:
            await ensure_session(self._api, request, memory.session_id)
            try:
                stored = await self._stored(memory, request)
            except aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                    raise
                stored = await self._restored(memory, request)
        return {**wire.create_reply(stored), **wire.update_reply(stored)}

    async def _replaced(self, memory: pb.Memory, request: Request) -> pb.Memory | None:
        """Replace what a memory says; None when there is no memory of its id."""
        call = pb.UpdateMemoryRequest(defer_embedding=True, memory=memory, update_mask=FieldMask(paths=_REPLACED))
        call.memory.memory_id = memory.external_id
        try:
            return (await self._api.call(self._api.memories.UpdateMemory, call, request)).memory
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
        return None

    async def _restored(self, memory: pb.Memory, request: Request) -> pb.Memory:
        """Bring a deleted memory back, whose id stays taken, and replace what it says."""
        call = pb.RestoreMemoryRequest(memory_id=memory.external_id)
        await self._api.call(self._api.memories.RestoreMemory, call, request)
        replaced = await self._replaced(memory, request)
        if replaced is None:
            text = "The memory was deleted meanwhile; send the message again"
            raise RequestError(STORAGE_ERROR, text)
        return replaced

    async def _update(self, request: Request) -> dict[str, Any]:
        memory, changed = wire.update(request.payload, datetime.now(UTC))
        call = pb.UpdateMemoryRequest(
            defer_embedding=True, memory=memory, update_mask=FieldMask(paths=changed), request_id=request.repeat_id
        )
        try:
            response = await self._api.call(self._api.memories.UpdateMemory, call, request)
        except aio.AioRpcError as error:
            # Its id stands for all that the message says, but a ttl ends later the second time: it was done before.
            if reason_of_call(error) != "REQUEST_ID_REUSED":
                raise
            return wire.update_reply(await self._found(memory.memory_id, request))
        return wire.update_reply(response.memory)

    async def _delete(self, request: Request) -> dict[str, Any]:
        call = pb.DeleteMemoryRequest(memory_id=wire.memory_id(request.payload), request_id=request.repeat_id)
        await self._api.call(self._api.memories.DeleteMemory, call, request)
        return {"memory_id": call.memory_id, "deleted": True}

    async def _stored(self, memory: pb.Memory, request: Request) -> pb.Memory:
        return await self._storing.do(memory, request)

    async def _found(self, memory_id: str, request: Request) -> pb.Memory:
        return await self._finding.do(memory_id, request)

    async def _store(self, memory: pb.Memory, errand: RequestContext) -> pb.Memory:
        call = pb.CreateMemoryRequest(defer_embedding=True, memory=memory)
        return (await self._api.call(self._api.memories.CreateMemory, call, errand)).memory

    async def _store_all(self, memories: Sequence[pb.Memory], errand: RequestContext) -> Sequence[pb.Memory]:
        call = pb.BatchCreateMemoriesRequest(defer_embedding=True, memories=memories)
        return (await self._api.call(self._api.memories.BatchCreateMemories, call, errand)).memories

    async def _find(self, memory_id: str, errand: RequestContext) -> pb.Memory:
        call = pb.GetMemoryRequest(memory_id=memory_id)
        return (await self._api.call(self._api.memories.GetMemory, call, errand)).memory

    async def _find_all(self, memory_ids: Sequence[str], errand: RequestContext) -> Sequence[pb.Memory | None]:
        call = pb.BatchGetMemoriesRequest(memory_ids=list(dict.fromkeys(memory_ids)))
        response = await self._api.call(self._api.memories.BatchGetMemories, call, errand)
        found = {name: memory for memory in response.memories for name in (memory.memory_id, memory.external_id)}
        # What is not there is asked for alone, and refused in the service's own words.
        return [found.get(memory_id) for memory_id in memory_ids]
