"""One port that answers every message, in the framing that it came in, from REQ and DEALER sockets alike."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import prometheus_client
import zmq
import zmq.asyncio
from prometheus_client import Histogram

from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import LATENCY_BUCKETS
from skein_pc2.protocol.errors import INTERNAL_ERROR, INVALID_REQUEST, RATE_LIMIT_EXCEEDED, STORAGE_ERROR
from skein_pc2.protocol.frames import Frames, Message

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from skein_pc2.protocol.dialect import Dialect
    from skein_pc2.settings import Network
    from skein_pc2.transport.curve import CurveCertificates

# The most impatient clients wait for three seconds, and a REQ socket that gave up is stuck.
ANSWER_SECONDS = 2.7
# Those of the orchestrator wait for five.
PATIENT_SECONDS = 4.0
# A dialect keeps its own time; this is for one that does not.
GRACE_SECONDS = 0.2
# Frames up to here reach our own check, which says why they are refused; libzmq drops the peer beyond.
_FRAME_LIMIT = 16 * 1024 * 1024
# A message is one frame, after those that lead back to its sender: one for each proxy on the way, and an empty one.
_MOST_FRAMES = 16
# A connection that does not say by then what it is, is closed.
HANDSHAKE_MILLISECONDS = 10_000
# Messages that a peer may have under way to us, or answers to a peer that does not read them; more are dropped.
_QUEUED_MESSAGES = 1000
# The same of answers that a peer does not read.
_UNREAD_BYTES = 64 * 1024 * 1024
_LINGER_MILLISECONDS = 500
# Where most peers are.
_HOME = "127.0.0.1"
# What the messages of a port that are not answered yet may weigh together.
_WAITING_BYTES = 64 * 1024 * 1024
# One peer may have this part of the room for waiting messages.
_PEERS_SHARE = 4

# The peer's queue is full, or the peer is gone.
_UNSENT = (zmq.EAGAIN, zmq.EHOSTUNREACH)
# A frame's head: flags and a length, of one byte up to the first size and of eight beyond (ZMTP 3.1).
_SHORT_FRAME, _SHORT_HEAD, _LONG_HEAD = 255, 2, 9

ANSWERED = prometheus_client.Counter(
    "skein_pc2_messages_total", "Messages of voice assistants answered.", ["port", "status"]
)
TIME = Histogram(
    "skein_pc2_message_duration_seconds", "Time from message to answer.", ["port"], buckets=LATENCY_BUCKETS
)

log = logs.get("pc2")


class PortInUse(Exception):
    """Somebody else listens on the port."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PortConfig:
    """Where a port listens, and who may come in."""

    # The port's number in the protocol, whatever it is here.
    number: int
    host: str
    # 0 takes a free one.
    port: int
    # Peers of other machines that may connect; this machine always may.
    networks: Sequence[Network]
    # Within which every message is answered.
    answer_seconds: float = ANSWER_SECONDS
    # Set: only clients with a certificate may speak, and in secret.
    certificates: CurveCertificates | None = None

    def admits(self, address: str) -> bool:
        """Say whether a peer may connect."""
        if address == _HOME:
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
    """Messages that are not answered yet."""

    messages: int = 0
    bytes: int = 0

    def add(self, messages: int, size: int) -> None:
        self.messages += messages
        self.bytes += size

    def has_room(self, size: int, messages: int, weight: int) -> bool:
        """Say whether one more of a size fits into a room for so many, and so heavy; one alone may weigh anything."""
        return self.messages < messages and (not self.messages or self.bytes + size <= weight)


class Router:
    """Answers the requests of one port in one dialect.

    Each connection has a ROUTER socket of its own. A socket sends an answer to the identity that the peer chose, so two
    peers with one identity on one socket could get each other's answers; here each socket has one peer.
    """

    def __init__(self, context: zmq.asyncio.Context, door: PortConfig, dialect: Dialect, *, waiting: int) -> None:
        self._context = context
        self._door = door
        self._dialect = dialect
        self._waiting = waiting
        # Answers that are being made: the event loop alone would not keep them.
        self._tasks: set[asyncio.Task[None]] = set()
        self._all = _PendingLoad()
        self._timer = TIME.labels(str(door.number))

    @asynccontextmanager
    async def connection(self, path: str) -> AsyncIterator[RouterConnection]:
        """Answer one peer, which is connected to the Unix socket at `path`, until the block ends."""
        socket = self._context.socket(zmq.ROUTER)
        task: asyncio.Task[None] | None = None
        try:
            socket.setsockopt(zmq.LINGER, _LINGER_MILLISECONDS)
            socket.setsockopt(zmq.MAXMSGSIZE, _FRAME_LIMIT)
            socket.setsockopt(zmq.RCVHWM, _QUEUED_MESSAGES)
            socket.setsockopt(zmq.SNDHWM, _QUEUED_MESSAGES)
            # An answer that finds no room is an error to us, and not dropped without a word.
            socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
            socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MILLISECONDS)
            if self._door.certificates is not None:
                self._door.certificates.secure(socket)
            socket.bind(f"ipc://{path}")
            connection = RouterConnection(self, socket)
            task = asyncio.create_task(connection.serve())
            connection.serving = task
            yield connection
        finally:
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            socket.close()

    async def take(self, connection: RouterConnection, parts: Sequence[zmq.Frame]) -> None:
        """Begin with the answer to a message, or refuse it unread."""
        try:
            await self._begin(connection, parts)
        except Exception:
            # This message stays without an answer; the next one is another.
            log.exception("fault", port=self._door.number)

    async def wait_answered(self, connection: RouterConnection) -> None:
        """Wait for the answers to one peer that are being made."""
        if connection.tasks:
            await asyncio.wait(connection.tasks, timeout=self._door.answer_seconds + GRACE_SECONDS)

    async def _begin(self, connection: RouterConnection, parts: Sequence[zmq.Frame]) -> None:
        deadline = asyncio.get_running_loop().time() + self._door.answer_seconds
        frames = Frames.of([part.bytes for part in parts[:_MOST_FRAMES]])
        if len(parts) > _MOST_FRAMES:
            refusal = self._dialect.refused(INVALID_REQUEST, "The message has too many frames")
            await self._send(connection, frames, refusal)
        elif self._is_full(connection, frames.size()):
            refusal = self._dialect.refused(RATE_LIMIT_EXCEEDED, "Too many requests are waiting; try again soon")
            await self._send(connection, frames, refusal)
        else:
            self._start(connection, frames, deadline)

    def _is_full(self, connection: RouterConnection, size: int) -> bool:
        """Say whether a message must be refused: one peer may fill a part of the room, never all of it."""
        share = max(1, self._waiting // _PEERS_SHARE)
        return not (
            self._all.has_room(size, self._waiting, _WAITING_BYTES)
            and connection.load.has_room(size, share, _WAITING_BYTES // _PEERS_SHARE)
        )

    def _start(self, connection: RouterConnection, frames: Frames, deadline: float) -> None:
        size, loads = frames.size(), (self._all, connection.load)
        task = asyncio.create_task(self._answer(connection, frames, deadline))
        for load in loads:
            load.add(1, size)

        def ended(done: asyncio.Task[None]) -> None:
            self._tasks.discard(done)
            connection.tasks.discard(done)
            for load in loads:
                load.add(-1, -size)

        self._tasks.add(task)
        connection.tasks.add(task)
        task.add_done_callback(ended)

    async def _answer(self, connection: RouterConnection, frames: Frames, deadline: float) -> None:
        started = time.perf_counter()
        try:
            async with asyncio.timeout_at(deadline + GRACE_SECONDS):
                reply = await self._dialect.answer(frames, deadline=deadline)
            await self._send(connection, frames, reply)
        except TimeoutError:
            refusal = self._dialect.refused(STORAGE_ERROR, "Skein did not answer in time; try again soon")
            await self._send(connection, frames, refusal)
        except Exception:
            # It may be the answer itself that cannot be sent.
            log.exception("fault", port=self._door.number)
            refusal = self._dialect.refused(INTERNAL_ERROR, "Skein failed; its logs say why")
            await self._send(connection, frames, refusal)
        self._timer.observe(time.perf_counter() - started)

    async def _send(self, connection: RouterConnection, frames: Frames, reply: Message) -> None:
        """Send an answer. It never waits: what a peer that is gone or does not read cannot take is dropped."""
        await connection.send(frames.answered(reply))
        ANSWERED.labels(str(self._door.number), str(reply.get("status", "")).lower()).inc()


class RouterConnection:
    """One peer of a port that answers."""

    def __init__(self, router: Router, socket: zmq.asyncio.Socket) -> None:
        self._router = router
        self._socket = socket
        self.load = _PendingLoad()
        self.tasks: set[asyncio.Task[None]] = set()
        # Bytes of answers that were sent and not delivered yet.
        self._unread = 0
        # Ends early only when the socket cannot receive.
        self.serving: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        """Answer messages until cancelled, or until none can be received; one that takes long holds up no other."""
        try:
            while True:
                await self._router.take(self, await self._socket.recv_multipart(copy=False))
        except zmq.ZMQError:
            log.exception("fault")

    async def finish(self, *, is_peer_gone: bool) -> None:
        """Take the messages that have arrived, wait for their answers unless the peer is gone, and close."""
        if self.serving is not None:
            self.serving.cancel()
            await asyncio.gather(self.serving, return_exceptions=True)
        # With no message there, or a socket that is of no more use, that was all.
        with suppress(zmq.ZMQError):
            for _ in range(_QUEUED_MESSAGES):
                await self._router.take(self, await self._socket.recv_multipart(zmq.NOBLOCK, copy=False))
        if not is_peer_gone:
            await self._router.wait_answered(self)
        self._socket.close()

    async def send(self, frames: Sequence[bytes]) -> None:
        """Send an answer, unless the connection has ended or its peer does not read."""
        if self._socket.closed or self._unread >= _UNREAD_BYTES:
            return
        size = _wire_bytes(frames)
        self._unread += size
        try:
            await self._socket.send_multipart(frames, zmq.NOBLOCK)
        except zmq.ZMQError as error:
            self._unread -= size
            if error.errno not in _UNSENT:
                raise

    def delivered(self, size: int) -> None:
        """Count bytes that the peer's system has taken."""
        # More than were counted: the connection's opening, and what CURVE adds to each frame.
        self._unread = max(0, self._unread - size)


def _wire_bytes(frames: Sequence[bytes]) -> int:
    """Return how many bytes an answer has on the wire: all but the identity, which says to which peer it goes."""
    return sum(len(frame) + (_SHORT_HEAD if len(frame) <= _SHORT_FRAME else _LONG_HEAD) for frame in frames[1:])
