"""The health document that every port of the protocol answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from skein_pc2.protocol.frames import Message, timestamp


class Health:
    """The health of one agent."""

    def __init__(self, agent: str, is_ready: Callable[[], bool]) -> None:
        """`agent` is the name of the agent whose port this is."""
        self.agent = agent
        self.is_ready = is_ready
        self._start_time = time.monotonic()

    async def current_document(self) -> Message:
        """Return the document, with numbers that need a call."""
        return self.document()

    def document(self) -> Message:
        """Return the document as of now."""
        ready = self.is_ready()
        uptime = self.uptime()
        return {
            "status": "ok",
            "ready": ready,
            "initialized": ready,
            "message": f"{self.agent} is healthy" if ready else f"{self.agent} is starting",
            "timestamp": timestamp(),
            "uptime": uptime,
            "uptime_seconds": uptime,
            "active_threads": threading.active_count(),
            "agent": self.agent,
            "health_status": "healthy" if ready else "starting",
            "health_checks": {"initialized": ready},
            "health_details": {},
        }

    def uptime(self) -> float:
        """Return the seconds since the start."""
        return round(time.monotonic() - self._start_time, 3)
