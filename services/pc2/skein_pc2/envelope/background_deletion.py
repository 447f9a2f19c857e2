"""Deletions that outlast the time of their answer, carried on one after another. The client never asks again."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc
from grpc import aio

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.telemetry import logs
from skein_pc2.protocol.errors import RequestError, reason_of_call
from skein_pc2.protocol.concurrency import RequestContext

if TYPE_CHECKING:
    from skein_pc2.gateway_api.client import GatewayApi

# Deletions that wait.
MAX_WAITING = 1000
_CALL_SECONDS = 30.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 5.0
_MAX_FAILURES_IN_A_ROW = 20
_RETRYABLE = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)

log = logs.get("pc2")


@dataclass(frozen=True, slots=True)
class _Deletion:
    api: GatewayApi
    request: pb.ForgetMemoriesRequest


class BackgroundDeletions:
    """Deletes what is left of bulk deletions. They end with the process; sending the deletion again resumes one."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[_Deletion] = asyncio.Queue(MAX_WAITING)

    def submit(self, api: GatewayApi, selection: pb.MemorySelection, *, page_size: int) -> None:
        """Delete what a selection names, as soon as possible. With too many deletions waiting, log and leave it."""
        request = pb.ForgetMemoriesRequest(selection=selection, page_size=page_size)
        try:
            self._waiting.put_nowait(_Deletion(api, request))
        except asyncio.QueueFull:
            log.warning("bulk_delete_stopped", reason="TOO_MANY_WAITING")

    async def run(self) -> None:
        """Carry deletions on until cancelled."""
        while True:
            deletion = await self._waiting.get()
            try:
                await self._delete(deletion)
            except (RequestError, aio.AioRpcError) as error:
                reason = error.code if isinstance(error, RequestError) else reason_of_call(error) or error.code().name
                log.warning("bulk_delete_stopped", reason=reason)
            finally:
                self._waiting.task_done()

    async def drained(self) -> None:
        """Wait until nothing is left to delete."""
        await self._waiting.join()

    async def _delete(self, deletion: _Deletion) -> None:
        api, request = deletion.api, deletion.request
        loop = asyncio.get_running_loop()
        failures, pause = 0, _FIRST_PAUSE_SECONDS
        while True:
            errand = RequestContext(request_id="", deadline=loop.time() + _CALL_SECONDS)
            try:
                response = await api.call(api.memories.ForgetMemories, request, errand)
            except aio.AioRpcError as error:
                failures += 1
                if error.code() not in _RETRYABLE or failures == _MAX_FAILURES_IN_A_ROW:
                    raise
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
                continue
            failures, pause = 0, _FIRST_PAUSE_SECONDS
            request.page_token = response.next_page_token
            if not request.page_token:
                return
