"""Ports whose messages have an action and fields, and whose replies have a status and a message."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from skein_pc2.protocol import fields
from skein_pc2.protocol.concurrency import ConcurrencyLimit, RequestContext
from skein_pc2.protocol.dialect import is_health_request, is_typed_health_request, typed_health_reply
from skein_pc2.protocol.errors import STORAGE_ERROR, RequestError, error_text
from skein_pc2.protocol.frames import Frames, MalformedMessage, Message, repeat_key
from skein_pc2.protocol.health import Health
from skein_pc2.protocol.sender import Sender

# Longest request_id that a reply repeats.
_MAX_REQUEST_ID_CHARACTERS = 1000
# Longest name of an unknown action that a reply repeats.
_MAX_ACTION_CHARACTERS = 100
# Keys of objects that may have the fields, besides the message itself.
_FIELD_OBJECTS = ("data", "payload")


@dataclass(frozen=True, kw_only=True, slots=True)
class ActionRequest(RequestContext):
    """One valid message."""

    # The message's fields, with those of `data` and `payload`.
    fields: Mapping[str, Any]
    # The same for each repeat of the message; empty without a request_id.
    repeat_id: str

    def new_id(self) -> uuid.UUID:
        """Create an id; a repeated message gets the same id."""
        return uuid.UUID(self.repeat_id.removeprefix("pc2-")) if self.repeat_id else uuid.uuid4()


Action = Callable[[ActionRequest], Awaitable[Message]]


class ActionPort:
    """A dialect with one handler for each action."""

    def __init__(self, health: Health, actions: Mapping[str, Action], *, max_concurrency: int) -> None:
        """Run up to `max_concurrency` actions at the same time; others wait. Health is answered at once."""
        self._health = health
        self._actions = actions
        self._limit = ConcurrencyLimit(max_concurrency)

    async def answer(self, frames: Frames, *, deadline: float) -> Message:
        try:
            message = frames.parse()
        except MalformedMessage as error:
            return {"status": "error", "message": str(error)}
        if is_health_request(message):
            return self.health_document(str(message["action"]))
        if is_typed_health_request(message):
            return typed_health_reply(self._health.document())
        echo = _request_id_echo(message)
        action = message.get("action")
        handler = self._actions.get(action) if isinstance(action, str) else None
        if handler is None:
            return {"status": "error", "message": _unknown_action_text(action), **echo}
        try:
            request = _parse_request(message, deadline)
            reply = await self._limit.run(
                request, lambda: handler(request), name=str(action), transient_code=STORAGE_ERROR
            )
        except RequestError as error:
            return {"status": "error", "message": error_text(error), **echo}
        return {"status": "success", **reply, **echo}

    def health_document(self, action: str) -> Message:
        """Return the health document as the clients of this port read it."""
        return self._health.document()

    def error_reply(self, code: str, text: str) -> Message:
        return {"status": "error", "message": text}


def _unknown_action_text(action: object) -> str:
    """Return the original agents' message for an unknown action."""
    name = action[:_MAX_ACTION_CHARACTERS] if isinstance(action, str) else "none"
    return f"Unknown action: {name}"


def _parse_request(message: Message, deadline: float) -> ActionRequest:
    values = {name: value for name, value in message.items() if name not in _FIELD_OBJECTS}
    for object_name in _FIELD_OBJECTS:
        values |= fields.mapping(message.get(object_name), object_name)
    sent_id = message.get("request_id")
    request_id = sent_id if isinstance(sent_id, str) and sent_id else f"req-{secrets.token_hex(8)}"
    return ActionRequest(
        request_id=request_id,
        deadline=deadline,
        fields=values,
        repeat_id=_parse_repeat_id(message),
        sender=Sender.of(message),
    )


def _parse_repeat_id(message: Message) -> str:
    try:
        return repeat_key(message)
    except RecursionError:
        raise RequestError(STORAGE_ERROR, "The message is nested too deeply") from None


def _request_id_echo(message: Message) -> Message:
    """Return the request_id as it was sent, unless it is very long or neither text nor number."""
    sent_id = message.get("request_id")
    if isinstance(sent_id, str) and len(sent_id) > _MAX_REQUEST_ID_CHARACTERS:
        return {}
    return {"request_id": sent_id} if isinstance(sent_id, str | int | float) else {}
