"""Bulk deletions that continue after their reply, one after another. Clients do not send them again."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from grpc import aio

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.telemetry import logs
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.protocol.concurrency import RequestContext
from skein_pc2.protocol.errors import RETRYABLE, RequestError, log_reason

# Longest queue of deletions.
MAX_QUEUED_DELETIONS = 1000
_CALL_SECONDS = 30.0
_MIN_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.2, 5.0
_MAX_FAILURES_IN_A_ROW = 20

log = logs.get("pc2")


@dataclass(frozen=True, slots=True)
class _Deletion:
    api: GatewayApi
    request: pb.DeleteMemoriesRequest


class BackgroundDeletions:
    """Continues bulk deletions that ran out of time. A stopped process loses them; a repeated request resumes one."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[_Deletion] = asyncio.Queue(MAX_QUEUED_DELETIONS)

    def submit(self, api: GatewayApi, selection: pb.MemorySelection, *, page_size: int) -> None:
        """Delete a selection as soon as possible. When the queue is full, log a warning and do nothing."""
        request = pb.DeleteMemoriesRequest(selection=selection, page_size=page_size)
        try:
            self._queue.put_nowait(_Deletion(api, request))
        except asyncio.QueueFull:
            log.warning("bulk_delete_stopped", reason="TOO_MANY_WAITING")

    async def run(self) -> None:
        """Run queued deletions until cancelled."""
        while True:
            deletion = await self._queue.get()
            try:
                await self._delete(deletion)
            except (RequestError, aio.AioRpcError) as error:
                log.warning("bulk_delete_stopped", reason=log_reason(error))
            finally:
                self._queue.task_done()

    async def wait_drained(self) -> None:
        """Wait until the queue is empty."""
        await self._queue.join()

    async def _delete(self, deletion: _Deletion) -> None:
        api, request = deletion.api, deletion.request
        loop = asyncio.get_running_loop()
        failures, pause = 0, _MIN_PAUSE_SECONDS
        while True:
            context = RequestContext(request_id="", deadline=loop.time() + _CALL_SECONDS)
            try:
                response = await api.call(api.memories.DeleteMemories, request, context)
            except aio.AioRpcError as error:
                failures += 1
                if error.code() not in RETRYABLE or failures == _MAX_FAILURES_IN_A_ROW:
                    raise
                await asyncio.sleep(pause)
                pause = min(2 * pause, _MAX_PAUSE_SECONDS)
                continue
            failures, pause = 0, _MIN_PAUSE_SECONDS
            request.page_token = response.next_page_token
            if not request.page_token:
                return
