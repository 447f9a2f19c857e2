"""What one message of the orchestrator's dialect asks."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from skein_pc2.protocol.errors import INVALID_REQUEST, RequestError
from skein_pc2.protocol.fields import text
from skein_pc2.protocol.frames import repeat_key
from skein_pc2.protocol.concurrency import RequestContext

if TYPE_CHECKING:
    from skein_pc2.protocol.frames import Message

Action = Callable[["Request"], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class Request(RequestContext):
    """One message that can be understood."""

    action: str
    payload: dict[str, Any]
    message: Message

    @classmethod
    def of(cls, message: Message, *, request_id: str, deadline: float) -> Request:
        """Read the envelope of a message. Raises Rejected."""
        action = message.get("action")
        if not isinstance(action, str) or not action:
            words = "The message has no action"
            raise RequestError(INVALID_REQUEST, words)
        payload = message.get("payload", {})
        if not isinstance(payload, dict):
            words = "The payload is not a JSON object"
            raise RequestError(INVALID_REQUEST, words)
        return cls(action=action, request_id=request_id, payload=payload, message=message, deadline=deadline)

    @cached_property
    def repeat_id(self) -> str:
        """The request_id of the RPCs that this message leads to; empty when it may not be sent again."""
        return repeat_key(self.message)

    @property
    def session_id(self) -> str:
        """The session that the message names, beside its payload or in it; empty for none. Raises Rejected."""
        return text(self.message, "session_id") or text(self.payload, "session_id")

    def scope(self) -> str:
        """Return the session that a list, a search or a deletion keeps to. Raises Rejected without one."""
        session_id = self.session_id
        if not session_id:
            words = f"{self.action} keeps to one session: the message needs its session_id"
            raise RequestError(INVALID_REQUEST, words)
        return session_id

    def new_id(self, prefix: str) -> str:
        """Make an id of the protocol's form; the same one for a message that is sent again."""
        if not self.repeat_id:
            return f"{prefix}-{secrets.token_hex(8)}"
        return f"{prefix}-{hashlib.sha256(self.repeat_id.encode('ascii')).hexdigest()[:16]}"
