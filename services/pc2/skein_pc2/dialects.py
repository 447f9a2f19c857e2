"""How ports talk: health, and a refusal in the port's own form for all that is not served.

A dialect answers every message. It never raises: what it cannot do it says in words that its clients know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from skein_pc2.messages import Frames, Malformed, Message, timestamp

if TYPE_CHECKING:
    from collections.abc import Callable

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
        return self._health.document()

    def refused(self, code: str, text: str) -> Message:
        return self._health.document()


class StatusPort:
    """A main port that answers its health and refuses the rest."""

    def __init__(self, health: Health, refusal: Callable[[Message, str], Message]) -> None:
        """`refusal` says no in the port's own form: it gets the message (empty when malformed) and the reason."""
        self._health = health
        self._refusal = refusal

    async def answer(self, frames: Frames, *, deadline: float) -> Message:
        try:
            message = frames.parsed()
        except Malformed as malformed:
            return self._refusal({}, str(malformed))
        if is_health(message):
            return self._health.document()
        if "command" in message and "action" not in message:
            return self._command(message)
        return self._refusal(message, "Unknown action")

    def refused(self, code: str, text: str) -> Message:
        return self._refusal({}, text)

    def _command(self, message: Message) -> Message:
        """Answer the dialect that writes its verbs in upper case."""
        if message["command"] != "HEALTH_CHECK":
            return self._refusal(message, f"Unknown command: {message['command']}")
        return {
            "status": "success",
            "agent": self._health.agent,
            "timestamp": timestamp(),
            "uptime_seconds": self._health.uptime(),
            "health": self._health.document(),
            "metrics": {},
            "version": "1.0",
        }


def is_health(message: Message) -> bool:
    """Say whether a message asks for the health document."""
    action = message.get("action")
    return isinstance(action, str) and action in HEALTH_ACTIONS


def reasoning_refusal(message: Message, text: str) -> Message:
    """Refuse as the Unified Memory Reasoning Agent does, in the dialect of the message; both when that is unknown."""
    if "command" in message and "action" not in message:
        return {"status": "ERROR", "message": text}
    return {"status": "error", "reason": text, "message": text}


def session_refusal(message: Message, text: str) -> Message:
    """Refuse as the Session Memory Agent does."""
    refusal: Message = {"status": "error", "message": text}
    if "request_id" in message:
        refusal["request_id"] = message["request_id"]
    return refusal


def service_refusal(_message: Message, text: str) -> Message:
    """Refuse as the Memory Orchestrator Service does."""
    return {"status": "error", "message": text}
