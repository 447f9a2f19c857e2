"""Streams of the event log: one poll of the database serves all subscribers of a tenant who see the same
spaces.

A subscriber reads by itself until it has caught up, then joins the tail. Its queue is bounded: a
subscriber that reads too slowly is disconnected, and resumes from its position.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from uuid import UUID

from prometheus_client import Histogram

from skein_kit.calls.call import current_space_ids
from skein_kit.errors import DatabaseUnavailable, RpcError
from skein_kit.ids import now
from skein_kit.telemetry import logs
from skein_memory.errors import StreamTooSlow
from skein_memory.events.model import Change, EventFilter, Position
from skein_memory.events.store import EventStore

MIN_POLL_SECONDS = 0.05
# Longest pause between two polls of the event log of a tenant with subscribers.
MAX_PAUSE_SECONDS = 1.0
# Unread changes of a subscriber, some 1 MB; its stream ends when there are more, and it reads the log instead.
MAX_UNREAD_CHANGES = 1000
# Changes read at once.
_BATCH_SIZE = 500
# Seconds after which a poll is cancelled.
_POLL_TIMEOUT_SECONDS = 10.0
# The time for a full subscriber to read, granted once: a burst does not disconnect a subscriber that reads.
_SLOW_SUBSCRIBER_SECONDS = 1.0
# Failed polls in a row after which subscribers get the error.
_FAILURES = 10

NOTIFICATION_DELAY = Histogram(
    "skein_change_notification_delay_seconds",
    "Time from a change until its notification, by stream or webhook.",
    ["channel"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0),
)

log = logs.get("memory")


class Subscriber:
    """One subscriber, and its queue of changes."""

    def __init__(self, feed: TenantFeed, event_filter: EventFilter, after: Position, capacity: int) -> None:
        """Queue matching changes after a position, up to `capacity` at a time."""
        self._feed = feed
        self._filter = event_filter
        self._after = after
        self._capacity = capacity
        self._changes: deque[Change] = deque()
        self._arrival = asyncio.Event()
        self._has_capacity = asyncio.Event()
        self.error: RpcError | None = None
        # Set once the queue is closed: it overflowed, or the subscriber left.
        self.is_too_slow = self.is_gone = False

    async def wait_for_capacity(self, count: int) -> None:
        """Wait until so many changes fit into the queue, or the subscriber is gone."""
        while not self.is_gone and len(self._changes) + count > self._capacity:
            self._has_capacity.clear()
            await self._has_capacity.wait()

    def put(self, change: Change) -> None:
        """Queue a matching change; when the queue is full, stop queueing for good."""
        if self.is_gone or change.position <= self._after or not self._filter.matches(change):
            return
        if len(self._changes) >= self._capacity:
            self.is_too_slow = self.is_gone = True
            self._changes.clear()
        else:
            self._changes.append(change)
        self._arrival.set()

    def close(self) -> None:
        """End the subscription."""
        self._feed.subscribers.discard(self)
        self.is_gone = True
        self._has_capacity.set()

    def fail(self, error: RpcError) -> None:
        """End the subscription with an error."""
        self.error = error
        self._arrival.set()

    async def wait(self, seconds: float) -> None:
        """Wait until a change is queued, at most `seconds`."""
        if self._changes or self.is_too_slow or self.error is not None:
            return
        self._arrival.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._arrival.wait()
        except TimeoutError:
            return

    def take(self) -> Change | None:
        """Return the next change; None when there is none."""
        if not self._changes:
            return None
        self._has_capacity.set()
        return self._changes.popleft()

    @property
    def position(self) -> Position:
        """Return the position up to which all changes were taken, once the queue is empty."""
        return max(self._after, self._feed.position)


# A tenant, and the spaces whose events are read; None: it has no others than the default one.
FeedKey = tuple["UUID", "tuple[UUID, ...] | None"]


class TenantFeed:
    """The end of one tenant's log, as some spaces show it, and its subscribers."""

    def __init__(self, key: FeedKey, position: Position) -> None:
        """Begin after a position."""
        self.key = key
        self.position = position
        self.subscribers: set[Subscriber] = set()


class EventStream:
    """The subscribers of a process."""

    def __init__(
        self, store: EventStore, *, heartbeat_seconds: float, longest_pause_seconds: float, capacity: int
    ) -> None:
        """Poll the log after each pause, which grows up to the longest while there are no changes."""
        self._store = store
        self._heartbeat = heartbeat_seconds
        self._longest_pause = longest_pause_seconds
        self._capacity = capacity
        self._batch_size = max(1, min(_BATCH_SIZE, capacity // 2))
        self._feeds: dict[FeedKey, TenantFeed] = {}
        self._polls: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[EventStream]:
        """Poll while the block runs."""
        try:
            yield self
        finally:
            polls = [*self._polls]
            for task in polls:
                task.cancel()
            await asyncio.gather(*polls, return_exceptions=True)

    async def watch(
        self, tenant_id: UUID, position: Position | None, event_filter: EventFilter
    ) -> AsyncGenerator[tuple[Change | None, Position]]:
        """Yield changes, each with the position to resume from; at once, and while there are none, yield None.

        `position` None begins now. Raises PositionInvalid and StreamTooSlow.
        """
        last_position = position or await self._store.horizon(tenant_id)
        batch = await self._store.read_after(tenant_id, last_position, _BATCH_SIZE)
        yield None, last_position
        while True:
            for change in batch.changes:
                last_position = change.position
                if event_filter.matches(change):
                    yield change, last_position
            last_position = batch.position
            subscriber = self._subscribe(tenant_id, last_position, event_filter) if batch.is_all else None
            if subscriber is not None:
                break
            batch = await self._store.read_after(tenant_id, last_position, _BATCH_SIZE)
        try:
            async with aclosing(self._stream(subscriber, last_position)) as changes:
                async for item in changes:
                    yield item
        finally:
            subscriber.close()

    async def _stream(
        self, subscriber: Subscriber, position: Position
    ) -> AsyncGenerator[tuple[Change | None, Position]]:
        loop = asyncio.get_running_loop()
        due = loop.time() + self._heartbeat
        while True:
            await subscriber.wait(due - loop.time())
            # Changes that were taken before the overflow keep their order.
            if subscriber.is_too_slow:
                raise StreamTooSlow(position=position)
            if subscriber.error is not None:
                raise subscriber.error
            change = subscriber.take()
            if change is not None:
                position = change.position
                yield change, position
            elif loop.time() >= due:
                position = subscriber.position
                yield None, position
            else:
                continue
            due = loop.time() + self._heartbeat

    def _subscribe(self, tenant_id: UUID, position: Position, event_filter: EventFilter) -> Subscriber | None:
        """Wait at the tail of a tenant, after a position; None when the tail is further ahead."""
        key = (tenant_id, current_space_ids())
        feed = self._feeds.get(key)
        if feed is None:
            feed = self._feeds[key] = TenantFeed(key, position)
            # One poll serves all subscribers and outlives the first call, so it has a context of its own.
            task = asyncio.create_task(self._poll(feed), context=contextvars.Context())
            self._polls.add(task)
            task.add_done_callback(self._polls.discard)
        elif feed.position > position:
            return None
        subscriber = Subscriber(feed, event_filter, position, self._capacity)
        feed.subscribers.add(subscriber)
        return subscriber

    async def _poll(self, feed: TenantFeed) -> None:
        tenant_id, space_ids = feed.key
        store = self._store.for_spaces(space_ids)
        pause, failures = MIN_POLL_SECONDS, 0
        while True:
            await asyncio.sleep(pause)
            if not feed.subscribers:
                del self._feeds[feed.key]
                return
            pause = min(2 * pause, self._longest_pause)
            try:
                async with asyncio.timeout(_POLL_TIMEOUT_SECONDS):
                    batch = await store.read_after(tenant_id, feed.position, self._batch_size)
            except Exception as error:  # noqa: BLE001 - the next poll tries again.
                failures += 1
                log.warning("change_poll_failed", error=type(error).__name__, failures=failures)
                if failures >= _FAILURES:
                    for subscriber in feed.subscribers:
                        subscriber.fail(error if isinstance(error, RpcError) else DatabaseUnavailable())
                continue
            failures = 0
            await _wait_for_subscribers(feed, len(batch.changes))
            for change in batch.changes:
                NOTIFICATION_DELAY.labels("stream").observe(max(0.0, (now() - change.create_time).total_seconds()))
                for subscriber in feed.subscribers:
                    subscriber.put(change)
            feed.position = batch.position
            if batch.changes:
                pause = MIN_POLL_SECONDS if batch.is_all else 0


async def _wait_for_subscribers(feed: TenantFeed, count: int) -> None:
    """Wait until all subscribers have capacity for so many changes, at most _SLOW_SUBSCRIBER_SECONDS."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_SLOW_SUBSCRIBER_SECONDS):
            for subscriber in [*feed.subscribers]:
                await subscriber.wait_for_capacity(count)
