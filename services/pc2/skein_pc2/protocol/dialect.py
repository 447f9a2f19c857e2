"""How ports talk, and health, which all of them answer.

A dialect answers every message. It never raises: what it cannot do it says in words that its clients know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from skein_pc2.protocol.frames import Frames, MalformedMessage, Message

if TYPE_CHECKING:
    from skein_pc2.protocol.health import Health

# What asks a main port for its health.
HEALTH_ACTIONS = frozenset({"health_check", "ping", "health"})


class Dialect(Protocol):
    """How one port talks."""

    async def answer(self, frames: Frames, *, deadline: float) -> Message:
        """Answer before a time of the event loop's clock."""

    def refused(self, code: str, text: str) -> Message:
        """Refuse a message without looking into it; `code` is one of the orchestrator's."""


class HealthPort:
    """A health port: whatever comes, the answer is the document."""

    def __init__(self, health: Health) -> None:
        self._health = health

    async def answer(self, frames: Frames, *, deadline: float) -> Message:
        document = await self._health.current_document()
        try:
            return answer_by_type(document) if is_health_by_type(frames.parsed()) else document
        except MalformedMessage:
            return document

    def refused(self, code: str, text: str) -> Message:
        return self._health.document()


def is_health(message: Message) -> bool:
    """Say whether a message asks for the health document."""
    action = message.get("action")
    return isinstance(action, str) and action in HEALTH_ACTIONS


def is_health_by_type(message: Message) -> bool:
    """Say whether a message without an action asks for the health document by its `request_type`."""
    return message.get("action") is None and is_health({"action": message.get("request_type")})


def answer_by_type(document: Message) -> Message:
    """Write a health document for clients that ask by `request_type`: they look for the status "success"."""
    return {**document, "status": "success"}
