"""The later looks at what was erased, when calls are recorded; the worker's round does what a process left undone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg

from skein_kit import logs
from skein_kit.errors import Refusal
from skein_kit.ids import now
from skein_memory.store.erasures import SETTLE

if TYPE_CHECKING:
    from datetime import datetime

    from skein_memory.store.erasures import ErasureStore

# The clocks of this loop and of the notes may differ by some time.
_SPARE_SECONDS = 1.0
# Between two times that the planner's statistics are made anew.
_REFRESH_SECONDS = 150.0

log = logs.get("memory")


class Finisher:
    """Finishes the erasures of tenants, one tenant after the other."""

    def __init__(self, erasures: ErasureStore) -> None:
        """Finish with this store."""
        self._erasures = erasures
        # What to do when, by the loop's clock: in each queue all wait equally long.
        delays = (SETTLE.total_seconds(), erasures.keep.total_seconds())
        self._due = {delay + _SPARE_SECONDS: asyncio.Queue[tuple[float, UUID]]() for delay in delays}
        # Statistics from before this time may hold something of erased people; None: there are none.
        self._outdated: datetime | None = None
        self._next_refresh = 0.0

    def note(self, tenant_id: UUID) -> None:
        """Finish a tenant's erasures when calls that are at work now have settled."""
        at = asyncio.get_running_loop().time()
        for delay, queue in self._due.items():
            queue.put_nowait((at + delay, tenant_id))

    async def run(self) -> None:
        """Finish what is due, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for queue in self._due.values():
                group.create_task(self._take(queue))
            group.create_task(self._keep_refreshing())

    async def finish(self, tenant_id: UUID) -> None:
        """Finish a tenant's erasures as far as they are due; what fails is logged, and done by a later call."""
        at = now()
        try:
            if await self._erasures.finish(tenant_id, at=at):
                self._outdated = at
            await self._refresh()
        except (Refusal, asyncpg.PostgresError) as error:
            log.warning("erasure_not_finished", tenant_id=str(tenant_id), error=type(error).__name__)

    async def _take(self, queue: asyncio.Queue[tuple[float, UUID]]) -> None:
        while True:
            due, tenant_id = await queue.get()
            await asyncio.sleep(due - asyncio.get_running_loop().time())
            await self.finish(tenant_id)

    async def _keep_refreshing(self) -> None:
        while True:
            await asyncio.sleep(_REFRESH_SECONDS / 3)
            try:
                await self._refresh()
            except (Refusal, asyncpg.PostgresError) as error:
                log.warning("statistics_not_refreshed", error=type(error).__name__)

    async def _refresh(self) -> None:
        """Make outdated statistics anew, for all tenants at once, and not too often."""
        at, before = asyncio.get_running_loop().time(), self._outdated
        if before is None or at < self._next_refresh:
            return
        self._next_refresh = at + _REFRESH_SECONDS
        await self._erasures.refresh_statistics(before=before)
        if self._outdated == before:
            self._outdated = None
