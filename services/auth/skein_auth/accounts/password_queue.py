"""Turns at work that costs much for each call: bounded in all and for each source, and fair among sources."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein_kit.admission.adaptive_limit import AdaptiveLimit
from skein_kit.admission.fair_queue import CallState, FairQueue, QueuedCall
from skein_kit.errors import Overloaded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


# In a queue that does not get shorter a call waits so long, in a burst three times as long.
_WAIT_SECONDS = 2.0
_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class QueueKey:
    """Where a call stands in the queue: calls with one key share a line."""

    key: str

    @classmethod
    def of_source(cls, source: str) -> QueueKey:
        """Return the place of callers that have proved nothing, by source."""
        return cls(f"source {source}")

    @classmethod
    def of_account(cls, account_id: object) -> QueueKey:
        """Return the place of calls that show a live credential of an account."""
        return cls(f"account {account_id}")

    @classmethod
    def of_devices(cls, account_id: object) -> QueueKey:
        """Return the place of known devices, apart from all strangers; those of one account share a line."""
        return cls(f"devices of {account_id}")


class PasswordQueue:
    """Lets calls work in turns.

    One key has three quarters of the places at work at most. Start-time fair queueing orders the keys, and when no more
    can wait, the newest call of the longest line is refused.
    """

    def __init__(self, *, working: int, waiting: int) -> None:
        """Let `working` calls work at a time and `waiting` calls wait."""
        self._turns = FairQueue(
            AdaptiveLimit(least=working, most=working, target_seconds=_RETRY_SECONDS),
            most_waiting=waiting,
            wait_seconds=_WAIT_SECONDS,
        )

    async def take(self, place: QueueKey) -> Callable[[], None]:
        """Wait for a turn and return what ends it. Raises Overloaded when it does not come."""
        at = time.monotonic()
        turn = self._turns.arrive(place.key, at=at)
        if turn.state is CallState.WAITING:
            await self._waited(turn)
        if turn.state is not CallState.RUNNING:
            raise Overloaded(after=_RETRY_SECONDS)
        return lambda: self._turns.leave(turn, time.monotonic())

    @asynccontextmanager
    async def turn(self, place: QueueKey) -> AsyncIterator[None]:
        """Work in turn while the block runs. Raises Overloaded when the turn does not come."""
        leave = await self.take(place)
        try:
            yield
        finally:
            leave()

    async def _waited(self, turn: QueuedCall) -> None:
        """Wait until a call works or is refused."""
        loop = asyncio.get_running_loop()
        changed = loop.create_future()

        def wake() -> None:
            if not changed.done():
                changed.set_result(None)

        turn.told = wake
        timer = loop.call_later(turn.until - turn.arrived, lambda: self._turns.late(turn, time.monotonic()))
        try:
            await changed
        except asyncio.CancelledError:
            self._turns.leave(turn, time.monotonic())
            raise
        finally:
            timer.cancel()
