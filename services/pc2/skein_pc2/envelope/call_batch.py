"""Doing together what several messages ask for at the same time: one call for them instead of one for each.

Nobody waits for company. While few calls are under way each message has its own; what comes while they are goes
together as soon as one of them is back. So an answer comes as fast as before, and the more there is to do the less
each message costs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from grpc import aio

from skein_pc2.protocol.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from skein_pc2.protocol.concurrency import RequestContext

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _PendingItem(Generic[Item, Result]):
    item: Item
    errand: RequestContext
    done: asyncio.Future[Result | None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class CallBatcher(Generic[Item, Result]):
    """Does one kind of thing for one identity."""

    def __init__(
        self,
        alone: Callable[[Item, RequestContext], Awaitable[Result]],
        together: Callable[[Sequence[Item], RequestContext], Awaitable[Sequence[Result | None]]],
        *,
        under_way: int = 2,
        most: int = 32,
    ) -> None:
        """`together` does up to `most` at once, all or none; None in its answer is for what must be done alone."""
        self._alone = alone
        self._together = together
        self._places = under_way
        self._most = most
        self._waiting: deque[_PendingItem[Item, Result]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    async def do(self, item: Item, errand: RequestContext) -> Result:
        """Do it, alone or with others. Raises what doing it alone raises."""
        if not self._places:
            wish: _PendingItem[Item, Result] = _PendingItem(item, errand)
            self._waiting.append(wish)
            result = await wish.done
            return await self._alone(item, errand) if result is None else result
        self._places -= 1
        try:
            return await self._alone(item, errand)
        finally:
            self._leave()

    def _leave(self) -> None:
        """Give a place to those that wait, or back."""
        wishes: list[_PendingItem[Item, Result]] = []
        while self._waiting and len(wishes) < self._most:
            wish = self._waiting.popleft()
            # Whoever gave up wants nothing any more.
            if not wish.done.done():
                wishes.append(wish)
        if not wishes:
            self._places += 1
            return
        task = asyncio.create_task(self._go(wishes))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _go(self, wishes: Sequence[_PendingItem[Item, Result]]) -> None:
        results: Sequence[Result | None] = [None] * len(wishes)
        try:
            if len(wishes) == 1:
                results = [await self._alone(wishes[0].item, wishes[0].errand)]
            else:
                # As long as the one that has waited longest may wait.
                results = await self._together([wish.item for wish in wishes], wishes[0].errand)
        except (aio.AioRpcError, RequestError) as error:
            if len(wishes) == 1 and not wishes[0].done.done():
                wishes[0].done.set_exception(error)
            # Of several one is at fault, or all: each learns it for itself.
        finally:
            for wish, result in zip(wishes, results, strict=True):
                if not wish.done.done():
                    wish.done.set_result(result)
            self._leave()
