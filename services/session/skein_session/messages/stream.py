"""Streams of new messages: one poll of the database for all streams of a tenant, in each space.

A poll reads the last sequence number of each session. A stream that is behind reads the messages itself, at the pace
of its caller.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias
from uuid import UUID

from skein.session.v1 import session_pb2 as pb
from skein_kit import message_rows
from skein_kit.calls.call import as_background_call, current_space_ids
from skein_kit.errors import DatabaseUnavailable, RpcError
from skein_kit.telemetry import logs
from skein_session.errors import SessionArchived, SessionNotFound
from skein_session.messages.store import MessageStore, StreamPosition

MIN_POLL_SECONDS = 0.05
# Pause between two polls of a tenant whose sessions have subscribers and no new messages.
MAX_POLL_SECONDS = 1.0
_POLL_TIMEOUT_SECONDS = 10.0
# Failed polls in a row after which the streams fail.
_MAX_FAILURES = 10

log = logs.get("session")

# A tenant, and the spaces of it that a call reaches.
_Reach: TypeAlias = "tuple[UUID, tuple[UUID, ...] | None]"


class StreamSubscriber:
    """One stream, and the latest position of its session."""

    def __init__(self, session_id: str, position: StreamPosition) -> None:
        self.session_id = session_id
        # None once the session is deleted.
        self.position: StreamPosition | None = position
        self.error: RpcError | None = None
        self._update_event = asyncio.Event()

    def update(self, position: StreamPosition | None) -> bool:
        """Store the position of a poll, None for a deleted session; return whether it changed."""
        if position == self.position:
            return False
        self.position = position
        self._update_event.set()
        return True

    def fail(self, error: RpcError) -> None:
        """Let the stream raise an error."""
        self.error = error
        self._update_event.set()

    async def wait_for_update(self, seconds: float) -> bool:
        """Wait for an update or an error; return False after `seconds` without."""
        try:
            async with asyncio.timeout(seconds):
                await self._update_event.wait()
        except TimeoutError:
            return False
        self._update_event.clear()
        return True


class StreamHub:
    """The streams of a process, with one polling task per tenant and space."""

    def __init__(self, store: MessageStore, *, heartbeat_seconds: float, max_poll_seconds: float) -> None:
        """Poll at intervals that double up to `max_poll_seconds` while no session changes."""
        self._store = store
        self._heartbeat_seconds = heartbeat_seconds
        self._max_poll_seconds = max_poll_seconds
        # By tenant, and the spaces that the calls reach.
        self._subscribers: dict[_Reach, set[StreamSubscriber]] = {}
        self._polls: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[StreamHub]:
        """Cancel the polling tasks at the end of the block."""
        try:
            yield self
        finally:
            polls = [*self._polls]
            for task in polls:
                task.cancel()
            await asyncio.gather(*polls, return_exceptions=True)

    async def stream(
        self, tenant_id: UUID, session_id: str, after: int | None
    ) -> AsyncGenerator[pb.StreamMessagesResponse]:
        """Yield the messages of a session after a sequence number; `after` None begins with new messages.

        A response without a message comes first and as heartbeat. Each response has the sequence number to resume
        from. The stream ends when the session has ended and all messages are sent. Raises SessionNotFound and
        SessionArchived.
        """
        position = (await self._store.read_stream_positions(tenant_id, [session_id])).get(session_id)
        if position is None:
            raise SessionNotFound(session_id=session_id)
        if position.is_archived:
            raise SessionArchived(session_id=session_id)
        sequence = position.last_sequence if after is None else after
        reach = (tenant_id, current_space_ids())
        subscriber = self._subscribe(reach, StreamSubscriber(session_id, position))
        try:
            yield pb.StreamMessagesResponse(sequence=sequence)
            while True:
                # Before the messages are read, because a session that has ended by then gets no others.
                position = subscriber.position
                if position is None:
                    raise SessionNotFound(session_id=session_id)
                while sequence < position.last_sequence:
                    rows, read_sequence = await self._store.read_stream_messages(tenant_id, session_id, sequence)
                    for row in rows:
                        yield pb.StreamMessagesResponse(message=message_rows.message(row), sequence=row["sequence"])
                    # Without progress the remaining messages are deleted.
                    sequence = read_sequence if read_sequence > sequence else position.last_sequence
                if position.is_ended:
                    yield pb.StreamMessagesResponse(sequence=sequence, is_over=True)
                    return
                while not await subscriber.wait_for_update(self._heartbeat_seconds):
                    yield pb.StreamMessagesResponse(sequence=sequence)
                if subscriber.error is not None:
                    raise subscriber.error
        finally:
            self._subscribers.get(reach, set()).discard(subscriber)

    def _subscribe(self, reach: _Reach, subscriber: StreamSubscriber) -> StreamSubscriber:
        subscribers = self._subscribers.get(reach)
        if subscribers is None:
            subscribers = self._subscribers[reach] = set()
            # An empty context, because the task outlives the call that starts it.
            task = asyncio.create_task(self._poll(reach, subscribers), context=contextvars.Context())
            self._polls.add(task)
            task.add_done_callback(self._polls.discard)
        subscribers.add(subscriber)
        return subscriber

    async def _poll(self, reach: _Reach, subscribers: set[StreamSubscriber]) -> None:
        interval, failures = MIN_POLL_SECONDS, 0
        tenant_id, space_ids = reach
        while True:
            await asyncio.sleep(interval)
            if not subscribers:
                del self._subscribers[reach]
                return
            interval = min(2 * interval, self._max_poll_seconds)
            session_ids = {subscriber.session_id for subscriber in subscribers}
            try:
                with as_background_call(space_ids):
                    async with asyncio.timeout(_POLL_TIMEOUT_SECONDS):
                        positions = await self._store.read_stream_positions(tenant_id, session_ids)
            except Exception as error:  # noqa: BLE001 - the next poll may succeed after any error.
                failures += 1
                log.warning("message_poll_failed", error=type(error).__name__, failures=failures)
                if failures >= _MAX_FAILURES:
                    for subscriber in subscribers:
                        subscriber.fail(error if isinstance(error, RpcError) else DatabaseUnavailable())
                continue
            failures = 0
            updates = [
                subscriber.update(positions.get(subscriber.session_id))
                for subscriber in subscribers
                # Streams that began during the poll wait for the next one.
                if subscriber.session_id in session_ids
            ]
            if any(updates):
                interval = MIN_POLL_SECONDS
