"""Work for a call that its deadline and its cancellation do not stop."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Coroutine
from typing import Any, TypeVar

from skein_kit.calls.call import as_current_call, current_call
from skein_kit.errors import DeadlineExceeded

T = TypeVar("T")


class DetachedCalls:
    """Runs what must end although its caller is gone: the certificate of rows that are purged already."""

    def __init__(self, *, seconds: float) -> None:
        """Give the work `seconds` from its start."""
        self._seconds = seconds
        # The event loop has only weak references to tasks.
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work in the name of the current call, with a deadline of its own. A cancelled caller leaves it running.

        Raises DeadlineExceeded, and what the work raises.
        """
        task = asyncio.create_task(self._run(work))
        self._tasks.add(task)
        task.add_done_callback(self._discard)
        return await asyncio.shield(task)

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        call = current_call()
        try:
            async with asyncio.timeout(self._seconds) as limit:
                if call is None:
                    return await work
                detached_call = copy.copy(call)
                detached_call.deadline = limit.when()
                with as_current_call(detached_call):
                    return await work
        except TimeoutError:
            raise DeadlineExceeded from None

    def _discard(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Read, so that the event loop does not report the error of work without a caller.
            task.exception()
