"""The envelope dialect: finds the action of a message and wraps its result."""

from __future__ import annotations

import secrets
from typing import Any

from skein_pc2.envelope import memories, memory_lists, search, sessions
from skein_pc2.envelope.background_deletion import BackgroundDeletions
from skein_pc2.envelope.request import Action, Request
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.protocol.concurrency import ConcurrencyLimit
from skein_pc2.protocol.dialect import is_health_request, is_typed_health_request, typed_health_reply
from skein_pc2.protocol.errors import INVALID_REQUEST, SEARCH_ERROR, STORAGE_ERROR, RequestError
from skein_pc2.protocol.frames import Frames, MalformedMessage, Message, timestamp
from skein_pc2.protocol.health import Health

SEARCH = "search"


class Orchestrator:
    """Answers every action of the Memory Orchestrator."""

    def __init__(
        self, api: GatewayApi, health: Health, deletions: BackgroundDeletions, *, max_concurrency: int
    ) -> None:
        """Run up to `max_concurrency` actions at the same time; others wait. Health is answered at once."""
        self._health = health
        self._limit = ConcurrencyLimit(max_concurrency)
        self._actions: dict[str, Action] = {
            **memories.Memories(api).actions(),
            **memory_lists.MemoryLists(api, deletions).actions(),
            **sessions.SessionActions(api).actions(),
            SEARCH: search.SearchAction(api).search,
        }

    async def answer(self, frames: Frames, *, deadline: float) -> Message:
        try:
            message = frames.parse()
        except MalformedMessage as error:
            return self.error_reply(INVALID_REQUEST, str(error))
        if is_health_request(message):
            return self._health.document()
        if is_typed_health_request(message):
            return typed_health_reply(self._health.document())
        sent_id = message.get("request_id")
        envelope: Message = {
            "action": message.get("action", ""),
            "request_id": sent_id if sent_id is not None else f"req-{secrets.token_hex(8)}",
        }
        try:
            request = Request.of(message, request_id=str(envelope["request_id"]), deadline=deadline)
            data = await self._run_action(request)
        except RequestError as error:
            reply_error = {"code": error.code, "message": error.message, "details": error.details}
            return {"status": "error", **envelope, "error": reply_error, "timestamp": timestamp()}
        return {"status": "success", **envelope, "data": data, "timestamp": timestamp()}

    def error_reply(self, code: str, text: str) -> Message:
        return {
            "status": "error",
            "action": "",
            "request_id": f"req-{secrets.token_hex(8)}",
            "error": {"code": code, "message": text, "details": {}},
            "timestamp": timestamp(),
        }

    async def _run_action(self, request: Request) -> dict[str, Any]:
        action = self._actions.get(request.action)
        if action is None:
            raise RequestError(INVALID_REQUEST, f"Unknown action: {request.action}")
        transient_code = SEARCH_ERROR if request.action == SEARCH else STORAGE_ERROR
        return await self._limit.run(
            request, lambda: action(request), name=request.action, transient_code=transient_code
        )
