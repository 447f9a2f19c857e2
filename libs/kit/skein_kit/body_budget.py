"""Memory for the bodies of requests that are on their way: so much for all, and half of that for one source.

A body takes its room before its first byte is read, because its size is known only when it is whole. Who finds no room
waits. A body that takes its time then yields its room, so that callers who send slowly keep out no others.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from skein_kit.errors import Overloaded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Hashable, Iterable

MEBIBYTE = 1024 * 1024
# Of the room: what the bodies of one source may take.
_SHARE = 2
# Of those who may wait: how many of one source.
_WAITING_SHARE = 4
# Callers whose body yielded come back after so many seconds.
_AWAY_SECONDS = 1.0


class _Holder(NamedTuple):
    source: Hashable
    since: float


class _Waiter(NamedTuple):
    source: Hashable
    size: int
    granted: asyncio.Future[None]


class BodyBudget:
    """The room of one process for one kind of callers."""

    def __init__(self, most_bytes: int, *, patience_seconds: float, most_waiting: int = 256) -> None:
        """A body keeps its room for `patience_seconds` at least, and longer while it keeps out no other.

        Of each of `most_waiting` bodies that wait the transport holds the first 64 KiB or so. A quarter of them may be
        of one source.
        """
        self._most = most_bytes
        self._most_waiting = most_waiting
        self._most_waiting_of_source = max(1, most_waiting // _WAITING_SHARE)
        self._patience = patience_seconds
        self._used = 0
        self._used_by: Counter[Hashable] = Counter()
        self._bodies: dict[asyncio.Timeout, _Holder] = {}
        self._waiting: deque[_Waiter] = deque()

    @property
    def used_bytes(self) -> int:
        """Return what is taken now."""
        return self._used

    @asynccontextmanager
    async def room(self, source: Hashable, size: int) -> AsyncIterator[None]:
        """Wait for the room of a body and hold it for the block. Raises Overloaded.

        It does so when too many wait, and when the body had to yield its room.
        """
        await self._take(source, size)
        try:
            async with asyncio.timeout(None) as limit:
                self._bodies[limit] = _Holder(source, asyncio.get_running_loop().time())
                self._press(self._waiting)
                yield
        except TimeoutError:
            if limit.expired():
                raise Overloaded(after=_AWAY_SECONDS) from None
            raise
        finally:
            self._bodies.pop(limit, None)
            self._give_back(source, size)

    async def _take(self, source: Hashable, size: int) -> None:
        if self._has_room(source, size):
            self._count(source, size)
            return
        if len(self._waiting) >= self._most_waiting or self._waiting_of(source) >= self._most_waiting_of_source:
            raise Overloaded(after=_AWAY_SECONDS)
        waiter = _Waiter(source, size, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        self._press([waiter])
        try:
            await waiter.granted
        except asyncio.CancelledError:
            if waiter.granted.done() and not waiter.granted.cancelled():
                self._give_back(source, size)
            else:
                # Room that came back before this task could run has removed the waiter already.
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
                self._grant()
            raise

    def _waiting_of(self, source: Hashable) -> int:
        return sum(waiter.source == source for waiter in self._waiting)

    def _has_room(self, source: Hashable, size: int) -> bool:
        """Say whether a body fits; the first one of a source always fits into the source's share."""
        used = self._used_by.get(source, 0)
        return self._used + size <= self._most and (not used or used + size <= self._most // _SHARE)

    def _count(self, source: Hashable, size: int) -> None:
        self._used += size
        self._used_by[source] += size
        if not self._used_by[source]:
            del self._used_by[source]

    def _give_back(self, source: Hashable, size: int) -> None:
        self._count(source, -size)
        self._grant()

    def _grant(self) -> None:
        """Give room to those who wait and now fit."""
        for waiter in list(self._waiting):
            if waiter.granted.done():
                # It was cancelled, and its task has not run since.
                self._waiting.remove(waiter)
            elif self._has_room(waiter.source, waiter.size):
                self._waiting.remove(waiter)
                self._count(waiter.source, waiter.size)
                waiter.granted.set_result(None)

    def _press(self, waiting: Iterable[_Waiter]) -> None:
        """Have the bodies that keep these out yield their room once their time is over.

        While there is room for a body it is only those of its own source that keep it out.
        """
        sources: set[Hashable] = set()
        is_full = False
        for waiter in waiting:
            sources.add(waiter.source)
            is_full = is_full or self._used + waiter.size > self._most
        if not sources:
            return
        now = asyncio.get_running_loop().time()
        for limit, holder in self._bodies.items():
            if limit.when() is None and not limit.expired() and (is_full or holder.source in sources):
                limit.reschedule(max(now, holder.since + self._patience))


# Of callers who have not said who they are, and of those who have.
ANONYMOUS_BODIES = BodyBudget(40 * MEBIBYTE, patience_seconds=2.0)
KNOWN_BODIES = BodyBudget(256 * MEBIBYTE, patience_seconds=10.0, most_waiting=4_096)
