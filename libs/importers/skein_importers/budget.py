"""The budget of an import: records that the tenant's job IMPORT grants, and the progress that it shows."""

from __future__ import annotations

import asyncio
import uuid

from skein.tenancy.v1 import jobs_pb2
from skein_client.client import Client

# Pause after a grant that names no time.
_PAUSE_SECONDS = 1.0
_sleep = asyncio.sleep


class ImportBudget:
    """Takes records from the tenant's limits, and waits while imports are paused or limited."""

    def __init__(self, api: Client) -> None:
        self._api = api
        self._lock = asyncio.Lock()
        self._granted_count = 0
        # Records written since the last call.
        self._done_count = 0

    async def take(self, count: int) -> None:
        """Wait until `count` records may be written."""
        async with self._lock:
            while self._granted_count < count:
                response = await self._advance(
                    jobs_pb2.AdvanceImportRequest(requested_count=count - self._granted_count)
                )
                self._granted_count += response.granted_count
                if self._granted_count < count:
                    await _sleep(response.retry_delay.ToTimedelta().total_seconds() or _PAUSE_SECONDS)
            self._granted_count -= count

    def add_done(self, count: int) -> None:
        """Count written records; the next call reports them."""
        self._done_count += count

    async def finish(self) -> None:
        """Report the end of the import."""
        await self._advance(jobs_pb2.AdvanceImportRequest(finished=True))

    async def _advance(self, request: jobs_pb2.AdvanceImportRequest) -> jobs_pb2.AdvanceImportResponse:
        request.request_id = uuid.uuid4().hex
        request.done_count, self._done_count = self._done_count, 0
        return await self._api.tenancy.AdvanceImport(request)
