"""The second look at what was erased, half a minute later; the worker's round does what a process left undone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg

from skein_kit import logs
from skein_kit.errors import Refusal
from skein_kit.ids import now
from skein_memory.store.erasures import SETTLE

if TYPE_CHECKING:
    from uuid import UUID

    from skein_memory.store.erasures import ErasureStore

# The clocks of this loop and of the notes may differ by some time.
_SPARE_SECONDS = 1.0

log = logs.get("memory")


class Finisher:
    """Finishes the erasures of tenants, one tenant after the other."""

    def __init__(self, erasures: ErasureStore) -> None:
        """Finish with this store."""
        self._erasures = erasures
        # When to finish which tenant, by the loop's clock.
        self._due: asyncio.Queue[tuple[float, UUID]] = asyncio.Queue()

    def note(self, tenant_id: UUID) -> None:
        """Finish a tenant's erasures when calls that are at work now have settled."""
        due = asyncio.get_running_loop().time() + SETTLE.total_seconds() + _SPARE_SECONDS
        self._due.put_nowait((due, tenant_id))

    async def run(self) -> None:
        """Finish what is due, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due, tenant_id = await self._due.get()
            await asyncio.sleep(due - loop.time())
            try:
                await self._erasures.finish(tenant_id, at=now())
            except (Refusal, asyncpg.PostgresError) as error:
                log.warning("erasure_not_finished", tenant_id=str(tenant_id), error=type(error).__name__)
