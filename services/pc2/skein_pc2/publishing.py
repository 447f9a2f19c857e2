"""A port that publishes: every subscriber has a queue of its own, so a slow one loses its own messages, each counted.

One ZeroMQ socket for all would not do: where a subscriber is slow, PUB passes it over without a word, and XPUB_NODROP
says so for the first message alone. So each connection gets a PUB socket for itself, whose only subscriber it is; the
bytes are handed on, so what is agreed between the two ends (the version, CURVE) is agreed end to end.

A port may answer requests as well: then the first bytes of a connection, in which its peer names its type of socket,
are read here, and the connection is handed to the publisher's socket or to the one that answers.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import prometheus_client
import zmq
import zmq.asyncio

from skein_kit import logs
from skein_pc2.router import HANDSHAKE_MILLISECONDS, PortInUse
from skein_pc2.transport import zmtp
from skein_pc2.transport.unix_sockets import socket_folder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from skein_pc2.router import Door

# Messages that wait for one subscriber, beside those that the system's own buffers hold.
QUEUED_MESSAGES = 10_000
# Each takes some file descriptors; more are sent away.
MOST_SUBSCRIBERS = 100
# Connections of a port, subscribers and others, and those from one address.
MAX_CONNECTIONS, MAX_CONNECTIONS_PER_ADDRESS = 400, 200
# Types of sockets that listen, and that ask.
_SUBSCRIBING, _REQUESTING = frozenset({"SUB", "XSUB"}), frozenset({"REQ", "DEALER"})
# What a subscriber says is what it wants to hear: a few bytes.
_LONGEST_TOPIC = 4096
_PORTION = 64 * 1024

PUBLISHED = prometheus_client.Counter("skein_pc2_published_total", "Messages published.", ["port"])
DROPPED = prometheus_client.Counter(
    "skein_pc2_publications_dropped_total", "Messages that a subscriber was too slow for.", ["port"]
)
SUBSCRIBERS = prometheus_client.Gauge("skein_pc2_subscribers", "Connected subscribers.", ["port"])

log = logs.get("pc2")


class Publisher:
    """One port that publishes."""

    def __init__(self, context: zmq.asyncio.Context, door: Door, *, queued: int, requests: str = "") -> None:
        """Let so many messages wait for each subscriber.

        `requests` is the path of the Unix socket that answers requests; "" for a port that only publishes.
        """
        self._context = context
        self._door = door
        self._queued = queued
        self._requests = requests
        self._addresses: Counter[str] = Counter()
        self._sockets: set[zmq.Socket[bytes]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        port = str(door.number)
        self._published, self._dropped = PUBLISHED.labels(port), DROPPED.labels(port)
        self._subscribers = SUBSCRIBERS.labels(port)
        self.address = ""
        # False while nobody can come.
        self.is_listening = False

    @property
    def has_subscribers(self) -> bool:
        """Say whether anybody would hear."""
        return bool(self._sockets)

    def publish(self, message: str) -> None:
        """Tell all who want to hear it. It never waits: who has too much waiting does not get this one."""
        self._published.inc()
        frame = message.encode()
        for subscriber in self._sockets:
            if not (_sent(subscriber, frame) or _sent_after_all(subscriber, frame)):
                self._dropped.inc()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Let subscribers come until the block ends. Raises PortInUse."""
        family = socket.AF_INET6 if ":" in self._door.host else socket.AF_INET
        # What ZeroMQ calls all addresses.
        host = None if self._door.host == "*" else self._door.host
        try:
            server = await asyncio.start_server(self._welcome, host, self._door.port, family=family)
        except OSError as error:
            raise PortInUse(str(error)) from None
        host, port = server.sockets[0].getsockname()[:2]
        self.address = f"[{host}]:{port}" if family == socket.AF_INET6 else f"{host}:{port}"
        self.is_listening = True
        try:
            yield
        finally:
            self.is_listening = False
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            return
        address = writer.get_extra_info("peername", ("",))[0]
        self._tasks.add(task)
        self._addresses[address] += 1
        try:
            if self._has_room(address) and self._door.admits(address):
                _notice_who_is_gone(writer)
                await self._serve(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, zmtp.NotZmtp):
            # The peer is gone, or it is none of the protocol's.
            pass
        except Exception:
            log.exception("fault", port=self._door.number)
        finally:
            self._tasks.discard(task)
            self._addresses[address] -= 1
            if not self._addresses[address]:
                del self._addresses[address]
            writer.transport.abort()

    def _has_room(self, address: str) -> bool:
        return len(self._tasks) <= MAX_CONNECTIONS and self._addresses[address] <= MAX_CONNECTIONS_PER_ADDRESS

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connect a peer with the socket that is for its type, until either end is gone."""
        if not self._requests:
            await self._subscribe(reader, writer, opening=b"")
            return
        async with asyncio.timeout(HANDSHAKE_MILLISECONDS / 1000):
            writer.write(zmtp.GREETING)
            greeting = await zmtp.read_greeting(reader)
            ready, kind = await zmtp.read_ready(reader)
        if kind in _SUBSCRIBING:
            await self._subscribe(reader, writer, opening=greeting + ready)
        elif kind in _REQUESTING:
            await _splice(reader, writer, self._requests, opening=greeting + ready)

    async def _subscribe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, opening: bytes) -> None:
        """Give a connection a publishing socket of its own until either end is gone."""
        if len(self._sockets) >= MOST_SUBSCRIBERS:
            return
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
            self._sockets.add(own)
            self._subscribers.inc()
            try:
                # Where this process alone may go.
                with socket_folder() as folder:
                    own.bind(f"ipc://{folder}/own")
                    await _splice(reader, writer, f"{folder}/own", opening=opening)
            finally:
                self._sockets.discard(own)
                self._subscribers.dec()
        finally:
            own.close()


@asynccontextmanager
async def publishing(
    context: zmq.asyncio.Context, door: Door, *, queued: int = QUEUED_MESSAGES, requests: str = ""
) -> AsyncIterator[Publisher]:
    """Publish on a port until the block ends; requests go to the Unix socket `requests`. Raises PortInUse."""
    publisher = Publisher(context, door, queued=queued, requests=requests)
    async with publisher.open():
        yield publisher


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


async def _splice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, *, opening: bytes) -> None:
    """Connect a peer with the Unix socket at `path` until either end is gone.

    `opening` is what the peer has said already. It was greeted then, so the greeting of the socket is left out.
    """
    inner_reader, inner_writer = await asyncio.open_unix_connection(path)
    try:
        if opening:
            inner_writer.write(opening)
            await inner_reader.readexactly(zmtp.GREETING_BYTES)
        await _either(_pump(reader, inner_writer), _pump(inner_reader, writer))
    finally:
        inner_writer.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Hand on what comes, no faster than it is taken."""
    while data := await reader.read(_PORTION):
        writer.write(data)
        await writer.drain()


async def _either(*ways: Coroutine[None, None, None]) -> None:
    """Go both ways until one ends."""
    tasks = [asyncio.create_task(way) for way in ways]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _notice_who_is_gone(writer: asyncio.StreamWriter) -> None:
    """Have the system ask whether a silent peer is still there: one that lost its power does not say good-bye."""
    plain: socket.socket = writer.get_extra_info("socket")
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
