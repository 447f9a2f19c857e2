"""Requests of port 5596, run before their deadline, with errors in the form of their dialect."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.protocol.concurrency import ConcurrencyLimit, RequestContext
from skein_pc2.protocol.errors import RequestError, error_text
from skein_pc2.protocol.frames import Message
from skein_pc2.protocol.sender import Sender
from skein_pc2.reasoning.records import record_values

UNKNOWN_ACTION = "Unknown action"


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentRequest(RequestContext):
    """One valid message."""

    message: Message
    # When the message arrived.
    at: datetime


Action = Callable[[AgentRequest], Awaitable[Message]]
ErrorReply = Callable[[str], Message]


def action_name(message: Mapping[str, Any]) -> str:
    """Return a message's action; "" for none."""
    action = message.get("action")
    return action if isinstance(action, str) else ""


def lower_case_error(text: str) -> Message:
    """Return an error under the three names by which clients of this port read it."""
    return {"status": "error", "reason": text, "message": text, "error": text}


@dataclass(frozen=True, slots=True)
class RequestRunner:
    """Runs actions within a limit of concurrency and replies to each."""

    api: GatewayApi
    limit: ConcurrencyLimit

    async def answer(
        self, message: Message, action: Action, error_reply: ErrorReply, *, name: str, deadline: float
    ) -> Message:
        """Return the action's reply, or `error_reply` of the error when it fails or is late."""
        try:
            sent_id = message.get("request_id") or message.get("op_id") or secrets.token_hex(8)
            request = AgentRequest(
                request_id=record_values.truncate_name(sent_id),
                deadline=deadline,
                message=message,
                sender=Sender.of(message),
                at=datetime.now(UTC),
            )
            return await self.limit.run(request, lambda: action(request), name=name)
        except RequestError as error:
            return error_reply(error_text(error, " "))
