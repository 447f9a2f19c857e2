"""Dialects of ports, and the health requests that all ports answer.

A dialect answers every message and never raises: it replies with errors in its clients' format.
"""

from __future__ import annotations

from typing import Protocol

from skein_pc2.protocol.frames import Frames, MalformedMessage, Message
from skein_pc2.protocol.health import Health

# Actions that request the health document.
HEALTH_ACTIONS = frozenset({"health_check", "ping", "health"})


class Dialect(Protocol):
    """How one port answers."""

    async def answer(self, frames: Frames, *, deadline: float) -> Message:
        """Answer a message before a deadline on the event loop's clock."""

    def error_reply(self, code: str, text: str) -> Message:
        """Return the reply to a message that was not read; `code` is one of the envelope dialect's."""


class HealthPort:
    """A health port, which answers every message with the health document."""

    def __init__(self, health: Health) -> None:
        self._health = health

    async def answer(self, frames: Frames, *, deadline: float) -> Message:
        document = await self._health.current_document()
        try:
            return typed_health_reply(document) if is_typed_health_request(frames.parse()) else document
        except MalformedMessage:
            return document

    def error_reply(self, code: str, text: str) -> Message:
        return self._health.document()


def is_health_request(message: Message) -> bool:
    """Say whether a message requests the health document."""
    action = message.get("action")
    return isinstance(action, str) and action in HEALTH_ACTIONS


def is_typed_health_request(message: Message) -> bool:
    """Say whether a message without an action requests the health document by its `request_type`."""
    return message.get("action") is None and is_health_request({"action": message.get("request_type")})


def typed_health_reply(document: Message) -> Message:
    """Return the health document for clients that send `request_type`, which expect the status "success"."""
    return {**document, "status": "success"}
