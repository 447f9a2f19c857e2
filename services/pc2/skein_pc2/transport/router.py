"""A port that answers every message from REQ and DEALER sockets, in the framing of the message."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import prometheus_client
import zmq
import zmq.asyncio
from prometheus_client import Histogram

from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import LATENCY_BUCKETS
from skein_pc2.protocol.dialect import Dialect
from skein_pc2.protocol.errors import INTERNAL_ERROR, INVALID_REQUEST, RATE_LIMIT_EXCEEDED, STORAGE_ERROR
from skein_pc2.protocol.frames import Frames, Message
from skein_pc2.protocol.sender import connected_from
from skein_pc2.settings import Network
from skein_pc2.transport.curve import CurveCertificates

# Most clients wait for three seconds. A REQ socket that timed out cannot be used again.
REPLY_SECONDS = 2.7
# The envelope dialect's clients wait for five.
LONG_REPLY_SECONDS = 4.0
# Extra time for a dialect that misses its deadline.
GRACE_SECONDS = 0.2
# Frames up to this size are rejected with a reply; beyond, libzmq drops the peer.
_MAX_FRAME_BYTES = 16 * 1024 * 1024
# A message has one body frame after routing frames: one per proxy, and an empty one.
_MAX_FRAMES = 16
# A connection without a handshake by then is closed.
HANDSHAKE_MILLISECONDS = 10_000
# Queued messages from a peer, and replies to a peer that does not read; more are dropped.
_MAX_QUEUED_MESSAGES = 1000
# Bytes of replies that a peer has not read; more are dropped.
_MAX_UNREAD_BYTES = 64 * 1024 * 1024
_LINGER_MILLISECONDS = 500
# The address of most peers.
_LOOPBACK = "127.0.0.1"
# Bytes of all unanswered messages of a port.
_MAX_PENDING_BYTES = 64 * 1024 * 1024
# One peer may fill the queue's capacity divided by this.
_PEER_QUEUE_DIVISOR = 4

# The peer's queue is full, or the peer is gone.
_UNSENT_ERRORS = (zmq.EAGAIN, zmq.EHOSTUNREACH)
# A frame's head: flags and a length, of one byte up to the first size and of eight beyond (ZMTP 3.1).
_MAX_SHORT_FRAME_BYTES, _SHORT_HEAD_BYTES, _LONG_HEAD_BYTES = 255, 2, 9

REPLIES = prometheus_client.Counter(
    "skein_pc2_messages_total", "Messages of voice assistants that were answered, by status.", ["port", "status"]
)
REPLY_TIME = Histogram(
    "skein_pc2_message_duration_seconds", "Time from a message to its answer.", ["port"], buckets=LATENCY_BUCKETS
)

log = logs.get("pc2")


class PortInUse(Exception):
    """Another process listens on the port."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PortConfig:
    """Where a port listens, and which peers may connect."""

    # The port's number in the protocol; `port` may differ.
    number: int
    host: str
    # 0 takes a free one.
    port: int
    # Networks whose peers may connect; this machine always may.
    networks: Sequence[Network]
    # Deadline of replies, in seconds.
    reply_seconds: float = REPLY_SECONDS
    # Set: only clients with a certificate may connect, encrypted.
    certificates: CurveCertificates | None = None

    def allows(self, address: str) -> bool:
        """Say whether a peer may connect."""
        if address == _LOOPBACK:
            return True
        try:
            peer = ipaddress.ip_address(address)
        except ValueError:
            return False
        if isinstance(peer, ipaddress.IPv6Address) and peer.ipv4_mapped is not None:
            peer = peer.ipv4_mapped
        return peer.is_loopback or any(peer in network for network in self.networks)


@dataclass(slots=True)
class _PendingLoad:
    """Count and bytes of unanswered messages."""

    messages: int = 0
    bytes: int = 0

    def add(self, messages: int, size: int) -> None:
        self.messages += messages
        self.bytes += size

    def has_room(self, size: int, max_messages: int, max_bytes: int) -> bool:
        """Say whether one more message of `size` bytes fits both limits; a single message may have any size."""
        return self.messages < max_messages and (not self.messages or self.bytes + size <= max_bytes)


class Router:
    """Answers the requests of one port in one dialect.

    Each connection has its own ROUTER socket. Peers choose their identities, so two peers of one socket could choose
    the same identity and get each other's replies.
    """

    def __init__(
        self, context: zmq.asyncio.Context, config: PortConfig, dialect: Dialect, *, max_queued_messages: int
    ) -> None:
        self._context = context
        self._config = config
        self._dialect = dialect
        self._max_queued_messages = max_queued_messages
        # Running replies: the event loop keeps only weak references.
        self._tasks: set[asyncio.Task[None]] = set()
        self._port_load = _PendingLoad()
        self._timer = REPLY_TIME.labels(str(config.number))

    @asynccontextmanager
    async def connection(self, path: str, address: str) -> AsyncIterator[RouterConnection]:
        """Answer the peer at `address`, connected to the Unix socket at `path`, until the block ends."""
        socket = self._context.socket(zmq.ROUTER)
        task: asyncio.Task[None] | None = None
        try:
            socket.setsockopt(zmq.LINGER, _LINGER_MILLISECONDS)
            socket.setsockopt(zmq.MAXMSGSIZE, _MAX_FRAME_BYTES)
            socket.setsockopt(zmq.RCVHWM, _MAX_QUEUED_MESSAGES)
            socket.setsockopt(zmq.SNDHWM, _MAX_QUEUED_MESSAGES)
            # Raise an error for replies that cannot be queued.
            socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
            socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MILLISECONDS)
            if self._config.certificates is not None:
                self._config.certificates.secure(socket)
            socket.bind(f"ipc://{path}")
            connection = RouterConnection(self, socket, address)
            task = asyncio.create_task(connection.serve())
            connection.serve_task = task
            yield connection
        finally:
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            socket.close()

    async def accept(self, connection: RouterConnection, parts: Sequence[zmq.Frame]) -> None:
        """Start the reply to a message, or reject the message without parsing it."""
        try:
            await self._dispatch(connection, parts)
        except Exception:
            # This message gets no reply; the next ones do.
            log.exception("internal_error", port=self._config.number)

    async def wait_for_replies(self, connection: RouterConnection) -> None:
        """Wait for the pending replies to one peer."""
        if connection.tasks:
            await asyncio.wait(connection.tasks, timeout=self._config.reply_seconds + GRACE_SECONDS)

    async def _dispatch(self, connection: RouterConnection, parts: Sequence[zmq.Frame]) -> None:
        deadline = asyncio.get_running_loop().time() + self._config.reply_seconds
        frames = Frames.of([part.bytes for part in parts[:_MAX_FRAMES]])
        if len(parts) > _MAX_FRAMES:
            error_reply = self._dialect.error_reply(INVALID_REQUEST, "The message has too many frames")
            await self._send(connection, frames, error_reply)
        elif self._is_full(connection, frames.size()):
            error_reply = self._dialect.error_reply(
                RATE_LIMIT_EXCEEDED, "Too many requests are waiting; try again soon"
            )
            await self._send(connection, frames, error_reply)
        else:
            self._start(connection, frames, deadline)

    def _is_full(self, connection: RouterConnection, size: int) -> bool:
        """Say whether the queue, or the peer's share of it, is full."""
        share = max(1, self._max_queued_messages // _PEER_QUEUE_DIVISOR)
        return not (
            self._port_load.has_room(size, self._max_queued_messages, _MAX_PENDING_BYTES)
            and connection.load.has_room(size, share, _MAX_PENDING_BYTES // _PEER_QUEUE_DIVISOR)
        )

    def _start(self, connection: RouterConnection, frames: Frames, deadline: float) -> None:
        size, loads = frames.size(), (self._port_load, connection.load)
        task = asyncio.create_task(self._answer(connection, frames, deadline))
        for load in loads:
            load.add(1, size)

        def on_done(finished_task: asyncio.Task[None]) -> None:
            self._tasks.discard(finished_task)
            connection.tasks.discard(finished_task)
            for load in loads:
                load.add(-1, -size)

        self._tasks.add(task)
        connection.tasks.add(task)
        task.add_done_callback(on_done)

    async def _answer(self, connection: RouterConnection, frames: Frames, deadline: float) -> None:
        start_time = time.perf_counter()
        try:
            with connected_from(connection.address):
                async with asyncio.timeout_at(deadline + GRACE_SECONDS):
                    reply = await self._dialect.answer(frames, deadline=deadline)
            await self._send(connection, frames, reply)
        except TimeoutError:
            error_reply = self._dialect.error_reply(STORAGE_ERROR, "Skein did not answer in time; try again soon")
            await self._send(connection, frames, error_reply)
        except Exception:
            # The reply itself may be invalid.
            log.exception("internal_error", port=self._config.number)
            error_reply = self._dialect.error_reply(INTERNAL_ERROR, "Skein failed; its logs say why")
            await self._send(connection, frames, error_reply)
        self._timer.observe(time.perf_counter() - start_time)

    async def _send(self, connection: RouterConnection, frames: Frames, reply: Message) -> None:
        """Send a reply without waiting; drop it when the peer is gone or does not read."""
        await connection.send(frames.reply_frames(reply))
        REPLIES.labels(str(self._config.number), str(reply.get("status", "")).lower()).inc()


class RouterConnection:
    """One peer of an answering port."""

    def __init__(self, router: Router, socket: zmq.asyncio.Socket, address: str) -> None:
        self.address = address
        self._router = router
        self._socket = socket
        self.load = _PendingLoad()
        self.tasks: set[asyncio.Task[None]] = set()
        # Bytes of replies that were sent and not yet delivered.
        self._unread = 0
        # Ends early only when the socket fails to receive.
        self.serve_task: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        """Start a reply to each message until cancelled, or until the socket fails."""
        try:
            while True:
                await self._router.accept(self, await self._socket.recv_multipart(copy=False))
        except zmq.ZMQError:
            log.exception("internal_error")

    async def drain(self, *, is_peer_gone: bool) -> None:
        """Accept the messages that have arrived, wait for their replies unless the peer is gone, and close."""
        if self.serve_task is not None:
            self.serve_task.cancel()
            await asyncio.gather(self.serve_task, return_exceptions=True)
        # The queue is empty, or the socket is unusable.
        with suppress(zmq.ZMQError):
            for _ in range(_MAX_QUEUED_MESSAGES):
                await self._router.accept(self, await self._socket.recv_multipart(zmq.NOBLOCK, copy=False))
        if not is_peer_gone:
            await self._router.wait_for_replies(self)
        self._socket.close()

    async def send(self, frames: Sequence[bytes]) -> None:
        """Send a reply, unless the connection has ended or its peer does not read."""
        if self._socket.closed or self._unread >= _MAX_UNREAD_BYTES:
            return
        size = _wire_bytes(frames)
        self._unread += size
        try:
            await self._socket.send_multipart(frames, zmq.NOBLOCK)
        except zmq.ZMQError as error:
            self._unread -= size
            if error.errno not in _UNSENT_ERRORS:
                raise

    def record_sent(self, size: int) -> None:
        """Count bytes that were delivered to the peer's system."""
        # The size includes uncounted bytes: the handshake, and CURVE's share of each frame.
        self._unread = max(0, self._unread - size)


def _wire_bytes(frames: Sequence[bytes]) -> int:
    """Return a reply's bytes on the wire: all frames except the identity."""
    return sum(
        len(frame) + (_SHORT_HEAD_BYTES if len(frame) <= _MAX_SHORT_FRAME_BYTES else _LONG_HEAD_BYTES)
        for frame in frames[1:]
    )
