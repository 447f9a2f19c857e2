"""How ports talk, and health, which all of them answer.

A dialect answers every message. It never raises: what it cannot do it says in words that its clients know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from skein_pc2.messages import Frames, Message

if TYPE_CHECKING:
    from skein_pc2.health import Health

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
        return await self._health.current_document()

    def refused(self, code: str, text: str) -> Message:
        return self._health.document()


def is_health(message: Message) -> bool:
    """Say whether a message asks for the health document."""
    action = message.get("action")
    return isinstance(action, str) and action in HEALTH_ACTIONS
