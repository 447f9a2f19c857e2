"""Background tasks: endless work of a service, and the log of their failures. Knows no service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from skein_kit.telemetry import logs

# Pause between a failure and the next attempt: doubled each time, and reset after a long run without a failure.
FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 30.0
# The part of asyncio's messages before they quote objects.
_MAX_MESSAGE_WORDS = 3

_log = logs.get("skein")


async def run_forever(
    work: Callable[[], Awaitable[None]],
    *,
    name: str,
    first_pause: float = FIRST_PAUSE_SECONDS,
    max_pause: float = MAX_PAUSE_SECONDS,
) -> None:
    """Run endless work until cancelled; log a failure, and start again after a pause."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    pause = first_pause
    while True:
        start_time = loop.time()
        try:
            await work()
            _log.error("background_work_ended", work=name, pause_seconds=pause)
        except (Exception, asyncio.CancelledError) as error:
            # A future that the work awaited may have been cancelled, not the work itself.
            if isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling()):
                raise
            _log.exception("background_work_failed", work=name, pause_seconds=pause)
        if loop.time() - start_time > max_pause:
            pause = first_pause
        await asyncio.sleep(pause)
        pause = min(2 * pause, max_pause)


@asynccontextmanager
async def background_tasks(**work_functions: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Run endless work while the block runs; the keywords name it in the logs."""
    tasks = [asyncio.create_task(run_forever(work, name=name), name=name) for name, work in work_functions.items()]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def log_unhandled_exceptions() -> Iterator[None]:
    """Log failures of tasks that no code awaits, without their messages, while the block runs.

    asyncio's own handler prints the exception and related objects, which may quote content of callers.
    """
    loop = asyncio.get_running_loop()
    previous_handler = loop.get_exception_handler()
    loop.set_exception_handler(_log_unhandled)
    try:
        yield
    finally:
        loop.set_exception_handler(previous_handler)


def _log_unhandled(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    task = context.get("task") or context.get("future")
    coroutine = task.get_coro() if isinstance(task, asyncio.Task) else None
    _log.error(
        "background_error",
        what=" ".join(str(context.get("message", "")).split()[:_MAX_MESSAGE_WORDS]),
        work=getattr(coroutine, "__qualname__", ""),
        exc_info=error if isinstance(error, BaseException) else None,
    )
