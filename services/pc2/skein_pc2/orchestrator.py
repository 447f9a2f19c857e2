"""The Memory Orchestrator's dialect: an envelope with an action, answered by public RPCs."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import grpc
from grpc import aio

from skein.memory.v1 import memory_pb2
from skein_pc2 import wire
from skein_pc2.dialects import is_health
from skein_pc2.errors import INVALID_REQUEST, MEMORY_NOT_FOUND, SEARCH_ERROR, STORAGE_ERROR, Rejected
from skein_pc2.messages import Frames, Malformed, Message, timestamp
from skein_pc2.work import Errand, Turns

if TYPE_CHECKING:
    from skein_pc2.api import Api
    from skein_pc2.health import Health

SEARCH = "search"
# Documented actions that come later than the ones below.
_NOT_SERVED = frozenset({"update", "delete", "batch_read", "create_session", "end_session", "bulk_delete", "summarize"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Request(Errand):
    """One message that can be understood."""

    action: str
    payload: dict[str, Any]
    message: Message

    @property
    def is_repeatable(self) -> bool:
        """Say whether its sender gave it an id, by which it may send it again."""
        return bool(self.message.get("request_id"))


class Orchestrator:
    """Answers `create`, `read` and `search`."""

    def __init__(self, api: Api, health: Health, *, at_once: int) -> None:
        """Work on so many requests at the same time; others wait for their turn, health never does."""
        self._api = api
        self._health = health
        self._turns = Turns(at_once)
        self._actions: dict[str, Callable[[Request], Awaitable[dict[str, Any]]]] = {
            "create": self._create,
            "read": self._read,
            SEARCH: self._search,
        }

    async def answer(self, frames: Frames, *, deadline: float) -> Message:
        try:
            message = frames.parsed()
        except Malformed as malformed:
            return self.refused(INVALID_REQUEST, str(malformed))
        if is_health(message):
            return self._health.document()
        given = message.get("request_id")
        envelope: Message = {
            "action": message.get("action", ""),
            "request_id": given if given is not None else f"req-{secrets.token_hex(8)}",
        }
        try:
            request = _request(message, str(envelope["request_id"]), deadline)
            data = await self._done(request)
        except Rejected as no:
            error = {"code": no.code, "message": no.message, "details": no.details}
            return {"status": "error", **envelope, "error": error, "timestamp": timestamp()}
        return {"status": "success", **envelope, "data": data, "timestamp": timestamp()}

    def refused(self, code: str, text: str) -> Message:
        return {
            "status": "error",
            "action": "",
            "request_id": f"req-{secrets.token_hex(8)}",
            "error": {"code": code, "message": text, "details": {}},
            "timestamp": timestamp(),
        }

    async def _done(self, request: Request) -> dict[str, Any]:
        action = self._actions.get(request.action)
        if action is None:
            text = f"The action {request.action} is not served"
            if request.action not in _NOT_SERVED:
                text = f"Unknown action: {request.action}"
            raise Rejected(INVALID_REQUEST, text)
        transient = SEARCH_ERROR if request.action == SEARCH else STORAGE_ERROR
        return await self._turns.do(request, lambda: action(request), name=request.action, transient=transient)

    async def _create(self, request: Request) -> dict[str, Any]:
        """Store a memory; a request that is sent again with its id finds the memory that it stored before."""
        memory = wire.memory(request.payload, session_id=request.message.get("session_id"), at=datetime.now(UTC))
        if not request.is_repeatable:
            memory.external_id = wire.new_memory_id()
            return wire.created(await self._stored(memory, request))
        memory.external_id = wire.repeatable_memory_id(request.message)
        try:
            return wire.created(await self._stored(memory, request))
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise
        try:
            return wire.created(await self._found(memory.external_id, request))
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
        # It was stored and deleted since: this is a new wish.
        memory.external_id = wire.new_memory_id()
        return wire.created(await self._stored(memory, request))

    async def _read(self, request: Request) -> dict[str, Any]:
        memory = await self._found(wire.memory_id(request.payload), request)
        if wire.is_expired(memory, datetime.now(UTC)):
            text = "The memory has expired"
            raise Rejected(MEMORY_NOT_FOUND, text)
        return wire.data(memory)

    async def _search(self, request: Request) -> dict[str, Any]:
        search = wire.Search(request.payload)
        response = await self._api.call(self._api.index.Recall, search.request(), request)
        if search.type == wire.SEMANTIC and response.dense_unavailable:
            text = "The model that understands meaning does not answer; search by keyword or try again soon"
            raise Rejected(SEARCH_ERROR, text)
        results = search.results(response)
        dimensions = await self._api.dimensions(response.model, request)
        return {
            "results": results,
            "total_count": len(results),
            "search_metadata": {
                "search_type": search.type,
                "embedding_model": response.model,
                "query_embedding_dimension": dimensions,
            },
        }

    async def _stored(self, memory: memory_pb2.Memory, request: Request) -> memory_pb2.Memory:
        response = await self._api.call(
            self._api.memories.CreateMemory, memory_pb2.CreateMemoryRequest(memory=memory), request
        )
        return response.memory

    async def _found(self, memory_id: str, request: Request) -> memory_pb2.Memory:
        response = await self._api.call(
            self._api.memories.GetMemory, memory_pb2.GetMemoryRequest(memory_id=memory_id), request
        )
        return response.memory


def _request(message: Message, request_id: str, deadline: float) -> Request:
    action = message.get("action")
    if not isinstance(action, str) or not action:
        text = "The message has no action"
        raise Rejected(INVALID_REQUEST, text)
    payload = message.get("payload", {})
    if not isinstance(payload, dict):
        text = "The payload is not a JSON object"
        raise Rejected(INVALID_REQUEST, text)
    return Request(action=action, request_id=request_id, payload=payload, message=message, deadline=deadline)
