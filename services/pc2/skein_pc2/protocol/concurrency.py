"""Doing what a message asks, in time and in turn, whatever goes wrong: the part that all dialects share."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from grpc import aio

from skein_kit.telemetry import logs
from skein_pc2.protocol.errors import INTERNAL_ERROR, RATE_LIMIT_EXCEEDED, STORAGE_ERROR, RequestError, to_request_error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

Result = TypeVar("Result")

log = logs.get("pc2")


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestContext:
    """For whom the calls are made that answer one message, and until when."""

    # What its sender calls the message; logs of all services carry it.
    request_id: str
    # A time of the event loop's clock.
    deadline: float

    def seconds(self) -> float:
        """Return the time left for a call."""
        return max(0.001, self.deadline - asyncio.get_running_loop().time())


@dataclass(frozen=True, slots=True)
class ConcurrencyLimit:
    """Lets so many messages of a port be worked on at the same time; others wait for their turn."""

    at_once: int
    _free: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_free", asyncio.Semaphore(self.at_once))

    async def do(
        self,
        errand: RequestContext,
        action: Callable[[], Awaitable[Result]],
        *,
        name: str,
        transient: str = STORAGE_ERROR,
    ) -> Result:
        """Do it before the deadline. Raises Rejected, and nothing else.

        `transient` is the code that tells of services that are away or late; `name` is the action's, for the log.
        """
        working = False
        try:
            async with asyncio.timeout_at(errand.deadline), self._free:
                working = True
                return await action()
        except aio.AioRpcError as error:
            raise to_request_error(error, transient=transient) from None
        except TimeoutError:
            if working:
                text = "Skein did not answer in time; try again soon"
                raise RequestError(transient, text) from None
            text = "Too many requests are waiting; try again soon"
            raise RequestError(RATE_LIMIT_EXCEEDED, text) from None
        except RequestError:
            raise
        except Exception:
            log.exception("fault", action=name, request_id=errand.request_id)
            text = "Skein failed; the request id finds the reason in the logs"
            raise RequestError(INTERNAL_ERROR, text) from None


class KeyedLock:
    """Lets one at a time through by each name, in the order in which they came."""

    def __init__(self) -> None:
        # The lock of each name, and how many hold or want it.
        self._places: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def place(self, name: str) -> AsyncIterator[None]:
        """Wait until those that came before are done."""
        lock, count = self._places.get(name, (asyncio.Lock(), 0))
        self._places[name] = lock, count + 1
        try:
            async with lock:
                yield
        finally:
            lock, count = self._places.pop(name)
            if count > 1:
                self._places[name] = lock, count - 1
