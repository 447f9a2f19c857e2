"""One request of the envelope dialect."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from skein_pc2.protocol.concurrency import RequestContext
from skein_pc2.protocol.errors import INVALID_REQUEST, RequestError
from skein_pc2.protocol.fields import text
from skein_pc2.protocol.frames import Message, repeat_key
from skein_pc2.protocol.sender import Sender

Action = Callable[["Request"], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class Request(RequestContext):
    """One valid message."""

    action: str
    payload: dict[str, Any]
    message: Message

    @classmethod
    def of(cls, message: Message, *, request_id: str, deadline: float) -> Request:
        """Read the envelope of a message. Raises RequestError."""
        action = message.get("action")
        if not isinstance(action, str) or not action:
            raise RequestError(INVALID_REQUEST, "The message has no action")
        payload = message.get("payload", {})
        if not isinstance(payload, dict):
            raise RequestError(INVALID_REQUEST, "The payload is not a JSON object")
        return cls(
            action=action,
            request_id=request_id,
            payload=payload,
            message=message,
            deadline=deadline,
            sender=Sender.of(message),
        )

    @cached_property
    def repeat_id(self) -> str:
        """The request_id of this message's RPCs; empty when a repeat must not be recognized."""
        return repeat_key(self.message)

    @property
    def session_id(self) -> str:
        """The session_id of the message or of its payload; empty for none. Raises RequestError."""
        return text(self.message, "session_id") or text(self.payload, "session_id")

    def required_session_id(self) -> str:
        """Return the session of a list, search or deletion. Raises RequestError without one."""
        session_id = self.session_id
        if not session_id:
            raise RequestError(INVALID_REQUEST, f"{self.action} keeps to one session: the message needs its session_id")
        return session_id

    def new_id(self, prefix: str) -> str:
        """Create an id of the protocol's form; a repeated message gets the same id."""
        if not self.repeat_id:
            return f"{prefix}-{secrets.token_hex(8)}"
        return f"{prefix}-{hashlib.sha256(self.repeat_id.encode('ascii')).hexdigest()[:16]}"
