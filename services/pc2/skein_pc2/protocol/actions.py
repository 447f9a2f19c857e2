"""What the ports share that take an action with fields and answer with a status and a message."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skein_pc2.protocol import fields
from skein_pc2.protocol.dialect import answer_by_type, is_health, is_health_by_type
from skein_pc2.protocol.errors import STORAGE_ERROR, RequestError
from skein_pc2.protocol.frames import Frames, MalformedMessage, Message, repeat_key
from skein_pc2.protocol.concurrency import ConcurrencyLimit
from skein_pc2.protocol.concurrency import RequestContext

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skein_pc2.protocol.health import Health

# A request id that is longer does not come back.
_LONGEST_ECHO = 1000
# Of the name of an unknown action so many characters come back.
_LONGEST_NAME = 100
# What may hold the fields; those beside it count as well.
_HOLDERS = ("data", "payload")


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask(RequestContext):
    """One message that can be understood."""

    # What is asked for, and all that is said about it.
    said: Mapping[str, Any]
    # The same for a message that is sent again with its request id; empty without one.
    repeat: str

    def made_id(self) -> uuid.UUID:
        """Make an id: another each time, but the same for a message that is sent again."""
        return uuid.UUID(self.repeat.removeprefix("pc2-")) if self.repeat else uuid.uuid4()


Action = Callable[[Ask], Awaitable[Message]]


class ActionPort:
    """A port whose messages are an action and its fields."""

    def __init__(self, health: Health, actions: Mapping[str, Action], *, at_once: int) -> None:
        """Work on so many messages at the same time; others wait for their turn, health never does."""
        self._health = health
        self._actions = actions
        self._turns = ConcurrencyLimit(at_once)

    async def answer(self, frames: Frames, *, deadline: float) -> Message:
        try:
            message = frames.parsed()
        except MalformedMessage as malformed:
            return {"status": "error", "message": str(malformed)}
        if is_health(message):
            return self.health_document(str(message["action"]))
        if is_health_by_type(message):
            return answer_by_type(self._health.document())
        echo = _echo(message)
        action = message.get("action")
        known = self._actions.get(action) if isinstance(action, str) else None
        if known is None:
            return {"status": "error", "message": _unknown(action), **echo}
        try:
            ask = _ask(message, deadline)
            answer = await self._turns.do(ask, lambda: known(ask), name=str(action), transient=STORAGE_ERROR)
        except RequestError as no:
            return {"status": "error", "message": told(no), **echo}
        return {"status": "success", **answer, **echo}

    def health_document(self, action: str) -> Message:
        """Return the health document as the clients of this port read it."""
        return self._health.document()

    def refused(self, code: str, text: str) -> Message:
        return {"status": "error", "message": text}


def told(no: RequestError) -> str:
    """Say a refusal in one text: with the fields that are at fault."""
    violations = no.details.get("violations") or []
    unstated = [found for found in violations if found["description"] not in no.message]
    faults = "; ".join(f"{found['field']}: {found['description']}" for found in unstated)
    return f"{no.message} ({faults})" if faults else no.message


def _unknown(action: object) -> str:
    """Name the action that the port does not have, as the original agents did."""
    name = action[:_LONGEST_NAME] if isinstance(action, str) else "none"
    return f"Unknown action: {name}"


def _ask(message: Message, deadline: float) -> Ask:
    said = {name: value for name, value in message.items() if name not in _HOLDERS}
    for holder in _HOLDERS:
        said |= fields.mapping(message.get(holder), holder)
    given = message.get("request_id")
    request_id = given if isinstance(given, str) and given else f"req-{secrets.token_hex(8)}"
    return Ask(request_id=request_id, deadline=deadline, said=said, repeat=_repeat(message))


def _repeat(message: Message) -> str:
    try:
        return repeat_key(message)
    except RecursionError:
        text = "The message is nested too deeply"
        raise RequestError(STORAGE_ERROR, text) from None


def _echo(message: Message) -> Message:
    """Return the request id as it came; one that is no text or number, or very long, is the sender's own business."""
    given = message.get("request_id")
    if isinstance(given, str) and len(given) > _LONGEST_ECHO:
        return {}
    return {"request_id": given} if isinstance(given, str | int | float) else {}
