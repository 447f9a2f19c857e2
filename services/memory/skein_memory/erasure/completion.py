"""Completes erasures after the calls that were in flight; the worker's round completes those of a stopped process."""

from __future__ import annotations

import asyncio
from datetime import datetime
from uuid import UUID

import asyncpg

from skein_kit.errors import RpcError
from skein_kit.ids import now
from skein_kit.telemetry import logs
from skein_memory.erasure.access_log_erasure import ACCESS_LOG_DELAY, AccessLogErasure

# Possible difference between the clocks of this loop and of the erasures.
_SPARE_SECONDS = 1.0
# The least time between two refreshes of the planner's statistics.
_REFRESH_SECONDS = 150.0

log = logs.get("memory")


class ErasureCompleter:
    """Completes the erasures of tenants, one tenant after the other."""

    def __init__(self, erasures: AccessLogErasure) -> None:
        self._erasures = erasures
        # Due times by the loop's clock; all entries of one queue have the same delay.
        delays = (ACCESS_LOG_DELAY.total_seconds(), erasures.retention.total_seconds())
        self._due = {delay + _SPARE_SECONDS: asyncio.Queue[tuple[float, UUID]]() for delay in delays}
        # Planner statistics from before this time may contain values of erased people; None: there are none.
        self._outdated_since: datetime | None = None
        self._next_refresh = 0.0

    def schedule(self, tenant_id: UUID) -> None:
        """Complete a tenant's erasures after the calls that are in flight now have ended."""
        at = asyncio.get_running_loop().time()
        for delay, queue in self._due.items():
            queue.put_nowait((at + delay, tenant_id))

    async def run(self) -> None:
        """Complete due erasures until cancelled."""
        async with asyncio.TaskGroup() as group:
            for queue in self._due.values():
                group.create_task(self._consume(queue))
            group.create_task(self._refresh_forever())

    async def complete(self, tenant_id: UUID) -> None:
        """Complete a tenant's due erasures; a failure is logged, and a later call tries again."""
        at = now()
        try:
            if await self._erasures.finish(tenant_id, at=at):
                self._outdated_since = at
            await self._refresh()
        except (RpcError, asyncpg.PostgresError) as error:
            log.warning("erasure_completion_failed", tenant_id=str(tenant_id), error=type(error).__name__)

    async def _consume(self, queue: asyncio.Queue[tuple[float, UUID]]) -> None:
        while True:
            due, tenant_id = await queue.get()
            await asyncio.sleep(due - asyncio.get_running_loop().time())
            await self.complete(tenant_id)

    async def _refresh_forever(self) -> None:
        while True:
            await asyncio.sleep(_REFRESH_SECONDS / 3)
            try:
                await self._refresh()
            except (RpcError, asyncpg.PostgresError) as error:
                log.warning("statistics_refresh_failed", error=type(error).__name__)

    async def _refresh(self) -> None:
        """Refresh outdated planner statistics for all tenants at once, at a limited rate."""
        at, before = asyncio.get_running_loop().time(), self._outdated_since
        if before is None or at < self._next_refresh:
            return
        self._next_refresh = at + _REFRESH_SECONDS
        await self._erasures.refresh_statistics(before=before)
        if self._outdated_since == before:
            self._outdated_since = None
