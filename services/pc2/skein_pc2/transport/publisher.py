"""A port that publishes: every subscriber has a queue of its own, so a slow one loses its own messages, each counted.

One ZeroMQ socket for all would not do: where a subscriber is slow, PUB passes it over without a word, and XPUB_NODROP
says so for the first message alone. So each connection gets a PUB socket for itself, whose only subscriber it is; the
bytes are handed on, so what is agreed between the two ends (the version, CURVE) is agreed end to end.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import prometheus_client
import zmq
import zmq.asyncio

from skein_pc2.transport.router import HANDSHAKE_MILLISECONDS

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator

    from skein_pc2.transport.router import PortConfig

# Messages that wait for one subscriber, beside those that the system's own buffers hold.
QUEUED_MESSAGES = 10_000
# Each takes some file descriptors; more are sent away.
MOST_SUBSCRIBERS = 100
# What a subscriber says is what it wants to hear: a few bytes.
_LONGEST_TOPIC = 4096

PUBLISHED = prometheus_client.Counter("skein_pc2_published_total", "Events and heartbeats published.", ["port"])
DROPPED = prometheus_client.Counter(
    "skein_pc2_publications_dropped_total",
    "Published messages that a subscriber was too slow for, counted once for each subscriber.",
    ["port"],
)
SUBSCRIBERS = prometheus_client.Gauge("skein_pc2_subscribers", "Connected subscribers.", ["port"])


class Publisher:
    """What one port publishes."""

    def __init__(self, context: zmq.asyncio.Context, door: PortConfig, *, queued: int = QUEUED_MESSAGES) -> None:
        """Let so many messages wait for each subscriber."""
        self._context = context
        self._door = door
        self._queued = queued
        self._sockets: set[zmq.Socket[bytes]] = set()
        port = str(door.number)
        self._published, self._dropped = PUBLISHED.labels(port), DROPPED.labels(port)
        self._subscribers = SUBSCRIBERS.labels(port)

    @property
    def has_subscribers(self) -> bool:
        """Say whether anybody would hear."""
        return bool(self._sockets)

    @property
    def has_room(self) -> bool:
        """Say whether one more subscriber may come."""
        return len(self._sockets) < MOST_SUBSCRIBERS

    def publish(self, message: str) -> None:
        """Tell all who want to hear it. It never waits: who has too much waiting does not get this one."""
        self._published.inc()
        frame = message.encode()
        for subscriber in self._sockets:
            if not (_sent(subscriber, frame) or _sent_after_all(subscriber, frame)):
                self._dropped.inc()

    @asynccontextmanager
    async def connection(self, path: str) -> AsyncIterator[PublisherConnection]:
        """Publish to one subscriber, which is connected to the Unix socket at `path`, until the block ends."""
        own: zmq.Socket[bytes] = zmq.Socket(self._context, zmq.PUB)
        try:
            own.setsockopt(zmq.LINGER, 0)
            own.setsockopt(zmq.SNDHWM, self._queued)
            # A message that finds no room is told to us.
            own.setsockopt(zmq.XPUB_NODROP, 1)
            own.setsockopt(zmq.MAXMSGSIZE, _LONGEST_TOPIC)
            own.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MILLISECONDS)
            if self._door.certificates is not None:
                self._door.certificates.secure(own)
            own.bind(f"ipc://{path}")
            self._sockets.add(own)
            self._subscribers.inc()
            try:
                yield PublisherConnection(self, own)
            finally:
                self.forget(own)
                self._subscribers.dec()
        finally:
            own.close()

    def forget(self, subscriber: zmq.Socket[bytes]) -> None:
        """Publish to this subscriber no longer."""
        self._sockets.discard(subscriber)


class PublisherConnection:
    """One subscriber of a port."""

    # A subscriber's messages, what it wants to hear, are the socket's own matter.
    serving: asyncio.Task[None] | None = None

    def __init__(self, publisher: Publisher, socket: zmq.Socket[bytes]) -> None:
        self._publisher = publisher
        self._socket = socket

    def delivered(self, size: int) -> None:
        """Do nothing: the messages that wait for a subscriber are counted by its socket."""

    async def finish(self, *, is_peer_gone: bool) -> None:
        """Close; what waits for the subscriber is dropped."""
        self._publisher.forget(self._socket)
        self._socket.close()


def _sent(subscriber: zmq.Socket[bytes], frame: bytes) -> bool:
    try:
        subscriber.send(frame, zmq.NOBLOCK)
    except zmq.ZMQError:
        # There is no room, or no socket any more.
        return False
    return True


def _sent_after_all(subscriber: zmq.Socket[bytes], frame: bytes) -> bool:
    """Look again: a socket in haste does not look whether its queue was read in the last millisecond, unless asked."""
    subscriber.getsockopt(zmq.EVENTS)
    return _sent(subscriber, frame)
