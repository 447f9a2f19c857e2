"""The memory budget of request bodies: a limit for all bodies, and half of it for the bodies of one source.

A body reserves its maximum size before its first byte is read, because its size is known only when it is complete.
A body without room waits for a limited time. It preempts bodies that are still arriving after their time, so
that slow senders do not block other callers. A complete body keeps its actual size reserved until its holder releases
the reservation; no other body preempts it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable, Iterable
from contextlib import asynccontextmanager
from typing import NamedTuple, Self

from skein_kit.errors import Overloaded

MEBIBYTE = 1024 * 1024
# One source may reserve this fraction of the budget.
_SHARE = 2
# One source may have this fraction of the waiting bodies.
_WAITING_SHARE = 4
# Pause before a retry that refused callers get.
_RETRY_AFTER_SECONDS = 1.0


class _BodyState(NamedTuple):
    source: Hashable
    since: float


class _Waiter(NamedTuple):
    source: Hashable
    size: int
    grant: asyncio.Future[None]


class Reservation:
    """Bytes of a budget that a complete body keeps until they are released."""

    def __init__(self, budget: BodyMemory, source: Hashable, size: int) -> None:
        """Own `size` bytes that the budget already counts."""
        self._budget = budget
        self._source = source
        self._size = size

    def __enter__(self) -> Self:
        """Keep the bytes until the block ends."""
        return self

    def __exit__(self, *_: object) -> None:
        """Release the bytes."""
        self.release()

    def release(self) -> None:
        """Return the bytes to the budget; later calls have no effect."""
        size, self._size = self._size, 0
        if size:
            self._budget._release(self._source, size)  # noqa: SLF001 - the two classes are one unit.


class IncomingBody:
    """The reservation of a body that is still arriving."""

    def __init__(self, budget: BodyMemory, source: Hashable, size: int) -> None:
        """Own `size` bytes that the budget already counts."""
        self._budget = budget
        self._source = source
        self._size = size

    def transfer(self, size: int) -> Reservation:
        """Reserve `size` bytes, at most all, beyond the end of the block; the block releases the rest."""
        transferred = min(size, self._size)
        self._size -= transferred
        return Reservation(self._budget, self._source, transferred)

    def release(self) -> None:
        """Return the bytes that are not kept."""
        size, self._size = self._size, 0
        self._budget._release(self._source, size)  # noqa: SLF001 - the two classes are one unit.


class BodyMemory:
    """The budget of one process for one kind of caller."""

    def __init__(
        self, max_bytes: int, *, preempt_after_seconds: float, wait_seconds: float = 30.0, max_waiting: int = 256
    ) -> None:
        """Let a body arrive for `preempt_after_seconds` at least, and longer while it blocks no other body.

        A body waits at most `wait_seconds` for room, so that bodies and admission queues never wait for each other
        without end. The transport holds about the first 64 KiB of each of `max_waiting` bodies. One source may have a
        quarter of them.
        """
        self._max_bytes = max_bytes
        self._max_waiting = max_waiting
        self._max_waiting_per_source = max(1, max_waiting // _WAITING_SHARE)
        self._preempt_after_seconds = preempt_after_seconds
        self._wait_seconds = wait_seconds
        self._used = 0
        self._used_by: Counter[Hashable] = Counter()
        self._bodies: dict[asyncio.Timeout, _BodyState] = {}
        self._waiting: deque[_Waiter] = deque()

    @property
    def used_bytes(self) -> int:
        """Return the bytes that are reserved now."""
        return self._used

    @asynccontextmanager
    async def reserve(self, source: Hashable, size: int) -> AsyncIterator[IncomingBody]:
        """Wait for room, and reserve it while the block reads a body.

        Raises Overloaded when too many bodies wait, when the wait takes too long, and when another body preempts this
        one.
        """
        await self._acquire(source, size)
        incoming = IncomingBody(self, source, size)
        try:
            async with asyncio.timeout(None) as limit:
                self._bodies[limit] = _BodyState(source, asyncio.get_running_loop().time())
                self._preempt_for(self._waiting)
                yield incoming
        except TimeoutError:
            if limit.expired():
                raise Overloaded(retry_after=_RETRY_AFTER_SECONDS) from None
            raise
        finally:
            self._bodies.pop(limit, None)
            incoming.release()

    async def _acquire(self, source: Hashable, size: int) -> None:
        if self._has_room(source, size):
            self._count(source, size)
            return
        if len(self._waiting) >= self._max_waiting or self._count_waiting(source) >= self._max_waiting_per_source:
            raise Overloaded(retry_after=_RETRY_AFTER_SECONDS)
        waiter = _Waiter(source, size, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        self._preempt_for([waiter])
        try:
            async with asyncio.timeout(self._wait_seconds) as limit:
                await waiter.grant
        except BaseException as error:
            if waiter.grant.done() and not waiter.grant.cancelled():
                self._release(source, size)
            else:
                # A release before this task could run has removed the waiter already.
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
                self._grant_waiting()
            if isinstance(error, TimeoutError) and limit.expired():
                raise Overloaded(retry_after=_RETRY_AFTER_SECONDS) from None
            raise

    def _count_waiting(self, source: Hashable) -> int:
        return sum(waiter.source == source for waiter in self._waiting)

    def _has_room(self, source: Hashable, size: int) -> bool:
        """Return whether a body fits; the first one of a source always fits into the source's share."""
        used = self._used_by.get(source, 0)
        return self._used + size <= self._max_bytes and (not used or used + size <= self._max_bytes // _SHARE)

    def _count(self, source: Hashable, size: int) -> None:
        self._used += size
        self._used_by[source] += size
        if not self._used_by[source]:
            del self._used_by[source]

    def _release(self, source: Hashable, size: int) -> None:
        self._count(source, -size)
        self._grant_waiting()

    def _grant_waiting(self) -> None:
        """Reserve room for the waiting bodies that now fit."""
        for waiter in list(self._waiting):
            if waiter.grant.done():
                # The waiter is cancelled, and its task has not run since.
                self._waiting.remove(waiter)
            elif self._has_room(waiter.source, waiter.size):
                self._waiting.remove(waiter)
                self._count(waiter.source, waiter.size)
                waiter.grant.set_result(None)

    def _preempt_for(self, waiting: Iterable[_Waiter]) -> None:
        """Set a time limit for the arriving bodies that block these.

        While the budget has room, only bodies of the same source block a body.
        """
        sources: set[Hashable] = set()
        is_full = False
        for waiter in waiting:
            sources.add(waiter.source)
            is_full = is_full or self._used + waiter.size > self._max_bytes
        if not sources:
            return
        now = asyncio.get_running_loop().time()
        for limit, state in self._bodies.items():
            if limit.when() is None and not limit.expired() and (is_full or state.source in sources):
                limit.reschedule(max(now, state.since + self._preempt_after_seconds))


# The budgets of callers without a verified identity, and of callers with one.
ANONYMOUS_BODIES = BodyMemory(40 * MEBIBYTE, preempt_after_seconds=2.0, wait_seconds=6.0)
AUTHENTICATED_BODIES = BodyMemory(256 * MEBIBYTE, preempt_after_seconds=10.0, wait_seconds=30.0, max_waiting=4_096)
# The same for calls between the cluster's services. A body at the edge may wait for calls that need these budgets.
# One budget for both could deadlock in a process that runs several services.
INTERNAL_ANONYMOUS_BODIES = BodyMemory(40 * MEBIBYTE, preempt_after_seconds=2.0, wait_seconds=6.0)
INTERNAL_AUTHENTICATED_BODIES = BodyMemory(
    256 * MEBIBYTE, preempt_after_seconds=10.0, wait_seconds=30.0, max_waiting=4_096
)
