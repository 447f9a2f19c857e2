"""Deadlines, concurrency and order of requests, for all dialects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from grpc import aio

from skein_kit.telemetry import logs
from skein_pc2.protocol.errors import INTERNAL_ERROR, RATE_LIMIT_EXCEEDED, STORAGE_ERROR, RequestError, to_request_error
from skein_pc2.protocol.sender import UNKNOWN, Sender

Result = TypeVar("Result")

log = logs.get("pc2")


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestContext:
    """The request id and deadline of the calls that answer one message."""

    # The sender's id of the message; logs of all services carry it.
    request_id: str
    # A time of the event loop's clock.
    deadline: float
    # For the access log.
    sender: Sender = UNKNOWN

    def remaining_seconds(self) -> float:
        """Return the seconds until the deadline, at least 0.001."""
        return max(0.001, self.deadline - asyncio.get_running_loop().time())


@dataclass(frozen=True, slots=True)
class ConcurrencyLimit:
    """Runs up to `max_concurrency` actions of a port at the same time; others wait."""

    max_concurrency: int
    _semaphore: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_semaphore", asyncio.Semaphore(self.max_concurrency))

    async def run(
        self,
        context: RequestContext,
        action: Callable[[], Awaitable[Result]],
        *,
        name: str,
        transient_code: str = STORAGE_ERROR,
    ) -> Result:
        """Run an action before the deadline. Raises RequestError and no other exception.

        `transient_code` is the error code for unavailable or late services; `name` is the action's name for logs.
        """
        is_running = False
        try:
            async with asyncio.timeout_at(context.deadline), self._semaphore:
                is_running = True
                return await action()
        except aio.AioRpcError as error:
            raise to_request_error(error, transient_code=transient_code) from None
        except TimeoutError:
            if is_running:
                raise RequestError(transient_code, "Skein did not answer in time; try again soon") from None
            raise RequestError(RATE_LIMIT_EXCEEDED, "Too many requests are waiting; try again soon") from None
        except RequestError:
            raise
        except Exception:
            log.exception("internal_error", action=name, request_id=context.request_id)
            raise RequestError(INTERNAL_ERROR, "Skein failed; find the reason in the logs by the request id") from None


class KeyedLock:
    """One lock for each name, acquired in the order of arrival."""

    def __init__(self) -> None:
        # Each name's lock, and the number of its holders and waiters.
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncIterator[None]:
        """Hold the name's lock until the block ends."""
        lock, count = self._locks.get(name, (asyncio.Lock(), 0))
        self._locks[name] = lock, count + 1
        try:
            async with lock:
                yield
        finally:
            lock, count = self._locks.pop(name)
            if count > 1:
                self._locks[name] = lock, count - 1
