"""A publishing port. Every subscriber has a queue of its own, so a slow one loses only its messages, each counted.

One ZeroMQ socket for all is not enough: PUB silently drops messages of a slow subscriber, and XPUB_NODROP reports
only the first. So each connection has a PUB socket with itself as the only subscriber.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import prometheus_client
import zmq
import zmq.asyncio

from skein_pc2.transport.router import HANDSHAKE_MILLISECONDS, PortConfig

# Queued messages of one subscriber, besides the system's buffers.
MAX_QUEUED_MESSAGES = 10_000
# Each takes some file descriptors; more are rejected.
MAX_SUBSCRIBERS = 100
# Subscribers send topics, which are short.
_MAX_TOPIC_BYTES = 4096

PUBLICATIONS = prometheus_client.Counter(
    "skein_pc2_publications_total", "Events and heartbeats that were published.", ["port"]
)
DROPPED_PUBLICATIONS = prometheus_client.Counter(
    "skein_pc2_publications_dropped_total",
    "Publications dropped because a subscriber was too slow, once for each such subscriber.",
    ["port"],
)
SUBSCRIBERS = prometheus_client.Gauge("skein_pc2_subscribers", "Connected subscribers.", ["port"])


class Publisher:
    """The publisher of one port."""

    def __init__(
        self, context: zmq.asyncio.Context, config: PortConfig, *, max_queued_messages: int = MAX_QUEUED_MESSAGES
    ) -> None:
        """Queue up to `max_queued_messages` messages for each subscriber."""
        self._context = context
        self._config = config
        self._max_queued_messages = max_queued_messages
        self._sockets: set[zmq.Socket[bytes]] = set()
        port = str(config.number)
        self._publication_count, self._drop_count = PUBLICATIONS.labels(port), DROPPED_PUBLICATIONS.labels(port)
        self._subscribers = SUBSCRIBERS.labels(port)

    @property
    def has_subscribers(self) -> bool:
        """Say whether there are subscribers."""
        return bool(self._sockets)

    @property
    def has_room(self) -> bool:
        """Say whether one more subscriber is allowed."""
        return len(self._sockets) < MAX_SUBSCRIBERS

    def publish(self, message: str) -> None:
        """Send a message to all subscribers without waiting; a subscriber with a full queue loses it."""
        self._publication_count.inc()
        frame = message.encode()
        for subscriber in self._sockets:
            if not (_try_send(subscriber, frame) or _retry_send(subscriber, frame)):
                self._drop_count.inc()

    @asynccontextmanager
    async def connection(self, path: str) -> AsyncIterator[PublisherConnection]:
        """Publish to one subscriber, which is connected to the Unix socket at `path`, until the block ends."""
        socket: zmq.Socket[bytes] = zmq.Socket(self._context, zmq.PUB)
        try:
            socket.setsockopt(zmq.LINGER, 0)
            socket.setsockopt(zmq.SNDHWM, self._max_queued_messages)
            # Raise an error when the queue is full.
            socket.setsockopt(zmq.XPUB_NODROP, 1)
            socket.setsockopt(zmq.MAXMSGSIZE, _MAX_TOPIC_BYTES)
            socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MILLISECONDS)
            if self._config.certificates is not None:
                self._config.certificates.secure(socket)
            socket.bind(f"ipc://{path}")
            self._sockets.add(socket)
            self._subscribers.inc()
            try:
                yield PublisherConnection(self, socket)
            finally:
                self.remove(socket)
                self._subscribers.dec()
        finally:
            socket.close()

    def remove(self, subscriber: zmq.Socket[bytes]) -> None:
        """Stop publishing to this subscriber."""
        self._sockets.discard(subscriber)


class PublisherConnection:
    """One subscriber of a port."""

    # The socket handles subscription messages itself.
    serve_task: asyncio.Task[None] | None = None

    def __init__(self, publisher: Publisher, socket: zmq.Socket[bytes]) -> None:
        self._publisher = publisher
        self._socket = socket

    def record_sent(self, size: int) -> None:
        """Do nothing: the socket limits its queue itself."""

    async def drain(self, *, is_peer_gone: bool) -> None:
        """Close the socket and drop its queue."""
        self._publisher.remove(self._socket)
        self._socket.close()


def _try_send(subscriber: zmq.Socket[bytes], frame: bytes) -> bool:
    try:
        subscriber.send(frame, zmq.NOBLOCK)
    except zmq.ZMQError:
        # The queue is full, or the socket is closed.
        return False
    return True


def _retry_send(subscriber: zmq.Socket[bytes], frame: bytes) -> bool:
    """Try again after reading EVENTS, which makes the socket notice reads of the last millisecond."""
    subscriber.getsockopt(zmq.EVENTS)
    return _try_send(subscriber, frame)
