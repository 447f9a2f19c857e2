"""How one message of port 5596 is answered: in turn, in time, with every refusal in the words of its dialect."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from skein_pc2.protocol.errors import RequestError
from skein_pc2.protocol.frames import Message
from skein_pc2.protocol.concurrency import ConcurrencyLimit
from skein_pc2.protocol.concurrency import RequestContext
from skein_pc2.reasoning.records import record_values

if TYPE_CHECKING:
    from skein_pc2.gateway_api.client import GatewayApi

UNKNOWN_ACTION = "Unknown action"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask(RequestContext):
    """One message that can be understood."""

    message: Message
    # When it came.
    at: datetime


Action = Callable[[Ask], Awaitable[Message]]
Refusal = Callable[[str], Message]


def verb(message: Mapping[str, Any]) -> str:
    """Return what a message wants, which is "" when it does not say so in a text."""
    action = message.get("action")
    return action if isinstance(action, str) else ""


def lower_case(text: str) -> Message:
    """Refuse under the three names that clients of this port read a refusal by."""
    return {"status": "error", "reason": text, "message": text, "error": text}


@dataclass(frozen=True, slots=True)
class RequestRunner:
    """Does what a message asks and answers it, whatever happens."""

    api: GatewayApi
    turns: ConcurrencyLimit

    async def answer(
        self, message: Message, action: Action, refusal: Refusal, *, name: str, deadline: float
    ) -> Message:
        """Answer a message with what `action` answers before the deadline, else with a refusal."""
        try:
            given = message.get("request_id") or message.get("op_id") or secrets.token_hex(8)
            ask = Ask(request_id=record_values.truncate_name(given), deadline=deadline, message=message, at=datetime.now(UTC))
            return await self.turns.do(ask, lambda: action(ask), name=name)
        except RequestError as no:
            return refusal(record_values.said(no))
