"""Updates that continue after their reply. Clients do not send them again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice

from grpc import aio

from skein_kit.telemetry import logs
from skein_pc2.protocol.concurrency import RequestContext
from skein_pc2.protocol.errors import RETRYABLE, RequestError, log_reason

# Longest queue of updates.
MAX_QUEUED_UPDATES = 10_000
_MAX_CONCURRENT_UPDATES = 8
_CALL_SECONDS = 30.0
_MAX_ATTEMPTS, _PAUSE_SECONDS = 5, 0.5

Update = Callable[[RequestContext], Awaitable[object]]

log = logs.get("pc2")


class BackgroundUpdates:
    """Runs queued updates, a few at a time; a target's later update replaces the earlier. Stopping loses them."""

    def __init__(self) -> None:
        self._queue: dict[str, Update] = {}
        self._has_queued, self._is_idle = asyncio.Event(), asyncio.Event()
        self._has_finished_batch = asyncio.Event()
        self._is_idle.set()
        self._has_finished_batch.set()

    def submit(self, target: str, update: Update) -> None:
        """Update a target as soon as possible. When the queue is full, log a warning and do nothing."""
        if len(self._queue) >= MAX_QUEUED_UPDATES and target not in self._queue:
            log.warning("background_update_stopped", reason="TOO_MANY_WAITING")
            return
        self._queue[target] = update
        self._has_queued.set()
        self._is_idle.clear()

    async def supersede(self, targets: Iterable[str]) -> None:
        """Drop queued updates of targets that are about to be updated, and wait for running ones."""
        for target in targets:
            self._queue.pop(target, None)
        await self._has_finished_batch.wait()

    async def wait_drained(self) -> None:
        """Wait until the queue is empty."""
        await self._is_idle.wait()

    async def run(self) -> None:
        """Run queued updates until cancelled."""
        while True:
            await self._has_queued.wait()
            batch = [self._queue.pop(target) for target in list(islice(self._queue, _MAX_CONCURRENT_UPDATES))]
            self._has_finished_batch.clear()
            try:
                await asyncio.gather(*(self._update(update) for update in batch))
            finally:
                self._has_finished_batch.set()
            if not self._queue:
                self._has_queued.clear()
                self._is_idle.set()

    async def _update(self, update: Update) -> None:
        loop = asyncio.get_running_loop()
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            try:
                await update(RequestContext(request_id="", deadline=loop.time() + _CALL_SECONDS))
            except (RequestError, aio.AioRpcError) as error:
                is_retryable = isinstance(error, aio.AioRpcError) and error.code() in RETRYABLE
                if is_retryable and attempt < _MAX_ATTEMPTS:
                    await asyncio.sleep(_PAUSE_SECONDS)
                    continue
                log.warning("background_update_stopped", reason=log_reason(error))
            return
