"""A queue for expensive work: bounded in all and for each source, and fair among sources."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein_kit.admission.adaptive_limit import AdaptiveLimit
from skein_kit.admission.fair_queue import CallState, FairQueue, QueuedCall
from skein_kit.errors import Overloaded

if TYPE_CHECKING:
    from collections.abc import Callable


# Longest wait in a queue that does not get shorter; in a burst, three times as long.
_WAIT_SECONDS = 2.0
_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class QueueKey:
    """The key of a call in the queue: calls with one key share a line."""

    key: str

    @classmethod
    def of_source(cls, source: str) -> QueueKey:
        """Return the key of unauthenticated callers, by source."""
        return cls(f"source {source}")

    @classmethod
    def of_account(cls, account_id: object) -> QueueKey:
        """Return the key of calls with a live credential of an account."""
        return cls(f"account {account_id}")

    @classmethod
    def of_devices(cls, account_id: object) -> QueueKey:
        """Return the key of an account's known devices, apart from strangers."""
        return cls(f"devices of {account_id}")


class PasswordQueue:
    """Admits calls by start-time fair queueing.

    One key has at most three quarters of the slots. When the queue is full, the newest call of the longest line is
    refused.
    """

    def __init__(self, *, working: int, waiting: int) -> None:
        """Admit `working` calls at a time and let `waiting` calls wait."""
        self._queue = FairQueue(
            AdaptiveLimit(minimum=working, maximum=working, target_seconds=_RETRY_SECONDS),
            max_waiting=waiting,
            wait_seconds=_WAIT_SECONDS,
        )

    async def take(self, queue_key: QueueKey) -> Callable[[], None]:
        """Wait for a slot and return the function that releases it. Raises Overloaded."""
        at = time.monotonic()
        call = self._queue.enqueue(queue_key.key, at=at)
        if call.state is CallState.WAITING:
            await self._wait(call)
        if call.state is not CallState.RUNNING:
            raise Overloaded(retry_after=_RETRY_SECONDS)
        return lambda: self._queue.finish(call, time.monotonic())

    async def _wait(self, call: QueuedCall) -> None:
        """Wait until a call is admitted or refused."""
        loop = asyncio.get_running_loop()
        changed = loop.create_future()

        def wake() -> None:
            if not changed.done():
                changed.set_result(None)

        call.on_change = wake
        timer = loop.call_later(call.wait_until - call.arrived, lambda: self._queue.time_out(call, time.monotonic()))
        try:
            await changed
        except asyncio.CancelledError:
            self._queue.finish(call, time.monotonic())
            raise
        finally:
            timer.cancel()
