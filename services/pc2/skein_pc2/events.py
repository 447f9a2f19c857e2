"""Changes of a tenant's memory by any caller, published in the order of the event log.

One stream of the log serves all ports of an API key. It begins now and resumes after an interruption, so subscribers
miss nothing and get nothing twice. A restart loses the position: clients that must not miss any read StreamChanges.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import UTC
from typing import Any, cast

from grpc import aio

from skein.memory.v1 import history_pb2 as pb
from skein.memory.v1 import memory_pb2
from skein_kit.telemetry import logs
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.protocol.concurrency import RequestContext
from skein_pc2.protocol.errors import RequestError, to_request_error
from skein_pc2.protocol.frames import timestamp
from skein_pc2.transport.publisher import Publisher

# Topics of the protocol by event types of the log.
_ADDED, _UPDATED, _DELETED = "memory_added", "memory_updated", "memory_deleted"
TOPICS = {
    "memory_created": _ADDED,
    "memory_restored": _ADDED,
    "memory_updated": _UPDATED,
    "memory_archived": _UPDATED,
    "memory_promoted": _UPDATED,
    "memory_demoted": _UPDATED,
    "memory_reinforced": _UPDATED,
    "memory_decayed": _UPDATED,
    "memory_merged": _UPDATED,
    "memory_consolidated": _UPDATED,
    "memory_deleted": _DELETED,
    "memory_purged": _DELETED,
}
# Changes whose memories' names are read by one call.
_MAX_BATCH_CHANGES = 50
# Queued changes; the stream waits when the queue is full.
_MAX_QUEUED_CHANGES = 1000
# The stream sends something every 15 seconds, if only a heartbeat.
_STREAM_TIMEOUT_SECONDS = 60.0
_CALL_SECONDS = 5.0
_MIN_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.2, 5.0
# Failures in a row until a warning, about six seconds: a starting cluster causes one or two.
_FAILURES_BEFORE_WARNING = 6
_MAX_CACHED_NAMES = 10_000

log = logs.get("pc2")


class EventPublisher:
    """Publishes the changes of one API key's tenant."""

    def __init__(self, api: GatewayApi, publishers: Sequence[Publisher]) -> None:
        self._api = api
        self._publishers = publishers
        # Position of the change published last.
        self._position = ""
        self._memory_names = _MemoryNames(api)

    async def run(self) -> None:
        """Publish changes from now on, until cancelled."""
        pause, failures = _MIN_PAUSE_SECONDS, 0
        while True:
            last_position = self._position
            try:
                await self._stream()
            except RequestError:
                # There is no API key yet; the health document shows it.
                pass
            except (aio.AioRpcError, TimeoutError) as error:
                reason = _error_reason(error)
                if reason == "POSITION_INVALID":
                    # The database was restored, so the position is of another log.
                    self._position = last_position = ""
                failures += 1
                if failures == _FAILURES_BEFORE_WARNING:
                    log.warning("events_interrupted", reason=reason)
            if self._position != last_position:
                pause, failures = _MIN_PAUSE_SECONDS, 0
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)

    async def _stream(self) -> None:
        """Publish the changes of one stream."""
        queue: asyncio.Queue[pb.StreamChangesResponse | None] = asyncio.Queue(_MAX_QUEUED_CHANGES)
        read_task = asyncio.create_task(self._queue_responses(queue))
        try:
            while True:
                async with asyncio.timeout(_STREAM_TIMEOUT_SECONDS):
                    responses = [await queue.get()]
                while not queue.empty() and len(responses) < _MAX_BATCH_CHANGES:
                    responses.append(queue.get_nowait())
                await self._publish([response for response in responses if response is not None])
                if responses[-1] is None:
                    await read_task
                    return
        finally:
            read_task.cancel()
            await asyncio.gather(read_task, return_exceptions=True)

    async def _queue_responses(self, queue: asyncio.Queue[pb.StreamChangesResponse | None]) -> None:
        """Queue the stream's responses, then None."""
        change_filter = pb.ChangeFilter(event_types=TOPICS)
        request = pb.StreamChangesRequest(position=self._position, filter=change_filter)
        try:
            call = self._api.history.StreamChanges(request, metadata=self._api.metadata(""))
            # Channels of a host return generators.
            async with aclosing(cast("AsyncGenerator[pb.StreamChangesResponse, None]", call)) as responses:
                async for response in responses:
                    await queue.put(response)
        except (RequestError, aio.AioRpcError):
            await queue.put(None)
            raise
        await queue.put(None)

    async def _publish(self, responses: Sequence[pb.StreamChangesResponse]) -> None:
        changes = [response.change for response in responses if response.HasField("change")]
        publishers = [publisher for publisher in self._publishers if publisher.has_subscribers]
        if changes and publishers:
            names = await self._memory_names.of([change.entity_id for change in changes])
            for change in changes:
                event: dict[str, Any] = {
                    "memory_id": names.get(change.entity_id, change.entity_id),
                    "event_type": change.event_type,
                    "timestamp": timestamp(change.create_time.ToDatetime(tzinfo=UTC)),
                    "position": change.position,
                }
                message = f"{TOPICS[change.event_type]} {json.dumps(event)}"
                for publisher in publishers:
                    publisher.publish(message)
        if responses:
            self._position = responses[-1].position


class _MemoryNames:
    """Names of memories on the ports: external ids where memories have them."""

    def __init__(self, api: GatewayApi) -> None:
        self._api = api
        self._names_by_id: OrderedDict[str, str] = OrderedDict()

    async def of(self, memory_ids: Sequence[str]) -> dict[str, str]:
        """Return names by memory ids; a purged memory may have none."""
        missing_ids = sorted({id_ for id_ in memory_ids if id_ not in self._names_by_id})
        if missing_ids:
            where = f"memory_id IN ({', '.join(json.dumps(id_) for id_ in missing_ids)})"
            request = memory_pb2.ListMemoriesRequest(
                page_size=len(missing_ids),
                filter=memory_pb2.MemoryFilter(where=where),
                show_archived=True,
                show_deleted=True,
            )
            context = RequestContext(request_id="", deadline=asyncio.get_running_loop().time() + _CALL_SECONDS)
            while True:
                page = await self._api.call(self._api.memories.ListMemories, request, context)
                self._names_by_id |= {
                    memory.memory_id: memory.external_id or memory.memory_id for memory in page.memories
                }
                request.page_token = page.next_page_token
                if not page.next_page_token:
                    break
        names = {id_: self._names_by_id[id_] for id_ in memory_ids if id_ in self._names_by_id}
        for id_ in names:
            self._names_by_id.move_to_end(id_)
        while len(self._names_by_id) > _MAX_CACHED_NAMES:
            self._names_by_id.popitem(last=False)
        return names


def _error_reason(error: aio.AioRpcError | TimeoutError) -> str:
    if isinstance(error, TimeoutError):
        return "silence"
    return str(to_request_error(error, transient_code="").details.get("reason") or error.code().name)
