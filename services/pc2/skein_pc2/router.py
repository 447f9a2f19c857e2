"""One port: a ROUTER socket that answers every message, in the framing that it came in, from REQ and DEALER alike."""

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

from skein_kit import logs
from skein_kit.background import lasting
from skein_kit.telemetry import LATENCY_BUCKETS
from skein_pc2.errors import INTERNAL_ERROR, INVALID_REQUEST, PERMISSION_DENIED, RATE_LIMIT_EXCEEDED, STORAGE_ERROR
from skein_pc2.messages import Frames, Message

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from skein_pc2.curve import Certificates
    from skein_pc2.dialects import Dialect
    from skein_pc2.settings import Network

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
_LINGER_MILLISECONDS = 500
# Where most peers are.
_HOME = "127.0.0.1"
# What the messages of a port that are not answered yet may weigh together.
_WAITING_BYTES = 64 * 1024 * 1024
# One peer may have this part of the room for waiting messages.
_PEERS_SHARE = 4

ANSWERED = prometheus_client.Counter("skein_pc2_messages_total", "Messages answered.", ["port", "status"])
TIME = Histogram(
    "skein_pc2_message_duration_seconds", "Time from message to answer.", ["port"], buckets=LATENCY_BUCKETS
)

log = logs.get("pc2")


class PortInUse(Exception):
    """Somebody else listens on the port."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Door:
    """Where a port listens, and who may come in."""

    # The port's number in the protocol, whatever it is here.
    number: int
    host: str
    # 0 takes a free one.
    port: int
    # Peers of other machines that may speak; this machine always may.
    networks: Sequence[Network]
    # Within which every message is answered.
    answer_seconds: float = ANSWER_SECONDS
    # Set: only clients with a certificate may speak, and in secret.
    certificates: Certificates | None = None
    # Set: the path of a Unix socket to listen on instead. What connects there has admitted the peers.
    path: str = ""

    def admits(self, address: str) -> bool:
        """Say whether a peer may speak."""
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
class _Load:
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
    """Serves one port in one dialect."""

    def __init__(self, socket: zmq.asyncio.Socket, door: Door, dialect: Dialect, *, waiting: int) -> None:
        self._socket = socket
        self._door = door
        self._dialect = dialect
        self._waiting = waiting
        self._tasks: set[asyncio.Task[None]] = set()
        self._all = _Load()
        self._of_peer: dict[bytes, _Load] = {}
        self._timer = TIME.labels(str(door.number))
        # False while nobody takes what arrives.
        self.is_listening = False

    @property
    def address(self) -> str:
        """Return "127.0.0.1:5570"."""
        endpoint: bytes = self._socket.getsockopt(zmq.LAST_ENDPOINT)  # type: ignore[assignment]  # It is bytes.
        return endpoint.rstrip(b"\0").decode("ascii").removeprefix("tcp://")

    async def serve(self) -> None:
        """Answer messages until cancelled; one that takes long holds up no other."""
        self.is_listening = True
        try:
            while True:
                await self._take(await self._socket.recv_multipart(copy=False))
        finally:
            self.is_listening = False

    async def finish(self) -> None:
        """Take what has arrived, and wait for the answers that are being made."""
        # With nothing there, or a socket that is of no more use, that was all.
        with suppress(zmq.ZMQError):
            for _ in range(_QUEUED_MESSAGES):
                await self._take(await self._socket.recv_multipart(zmq.NOBLOCK, copy=False))
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._door.answer_seconds + GRACE_SECONDS)

    async def _take(self, parts: Sequence[zmq.Frame]) -> None:
        try:
            await self._begin(parts)
        except Exception:
            # This message stays without an answer; the next one is another.
            log.exception("fault", port=self._door.number)

    async def _begin(self, parts: Sequence[zmq.Frame]) -> None:
        """Begin with the answer to a message, or refuse it unread."""
        deadline = asyncio.get_running_loop().time() + self._door.answer_seconds
        frames = Frames.of([part.bytes for part in parts[:_MOST_FRAMES]])
        if not self._door.path and not self._door.admits(_peer(parts[-1])):
            refusal = self._dialect.refused(PERMISSION_DENIED, "This address may not speak to this port")
            await self._send(frames, refusal)
        elif len(parts) > _MOST_FRAMES:
            await self._send(frames, self._dialect.refused(INVALID_REQUEST, "The message has too many frames"))
        elif self._is_full(frames):
            refusal = self._dialect.refused(RATE_LIMIT_EXCEEDED, "Too many requests are waiting; try again soon")
            await self._send(frames, refusal)
        else:
            self._start(frames, deadline)

    def _is_full(self, frames: Frames) -> bool:
        """Say whether a message must be refused: one peer may fill a part of the room, never all of it."""
        size, own = frames.size(), self._of_peer.get(frames.route[0], _Load())
        share = max(1, self._waiting // _PEERS_SHARE)
        return not (
            self._all.has_room(size, self._waiting, _WAITING_BYTES)
            and own.has_room(size, share, _WAITING_BYTES // _PEERS_SHARE)
        )

    def _start(self, frames: Frames, deadline: float) -> None:
        peer, size = frames.route[0], frames.size()
        loads = (self._all, self._of_peer.setdefault(peer, _Load()))
        task = asyncio.create_task(self._answer(frames, deadline))
        self._tasks.add(task)
        for load in loads:
            load.add(1, size)

        def ended(done: asyncio.Task[None]) -> None:
            self._tasks.discard(done)
            for load in loads:
                load.add(-1, -size)
            if not loads[1].messages:
                self._of_peer.pop(peer, None)

        task.add_done_callback(ended)

    async def _answer(self, frames: Frames, deadline: float) -> None:
        started = time.perf_counter()
        try:
            async with asyncio.timeout_at(deadline + GRACE_SECONDS):
                reply = await self._dialect.answer(frames, deadline=deadline)
            await self._send(frames, reply)
        except TimeoutError:
            refusal = self._dialect.refused(STORAGE_ERROR, "Skein did not answer in time; try again soon")
            await self._send(frames, refusal)
        except Exception:
            # It may be the answer itself that cannot be sent.
            log.exception("fault", port=self._door.number)
            await self._send(frames, self._dialect.refused(INTERNAL_ERROR, "Skein failed; its logs say why"))
        self._timer.observe(time.perf_counter() - started)

    async def _send(self, frames: Frames, reply: Message) -> None:
        """Send an answer. It never waits: what a peer that is gone or does not read cannot take is dropped."""
        await self._socket.send_multipart(frames.answered(reply))
        ANSWERED.labels(str(self._door.number), str(reply.get("status", "")).lower()).inc()


@asynccontextmanager
async def listening(
    context: zmq.asyncio.Context, door: Door, dialect: Dialect, *, waiting: int
) -> AsyncIterator[Router]:
    """Listen on a port until the block ends, then send the answers that are being made. Raises PortInUse."""
    socket = context.socket(zmq.ROUTER)
    socket.setsockopt(zmq.LINGER, _LINGER_MILLISECONDS)
    socket.setsockopt(zmq.MAXMSGSIZE, _FRAME_LIMIT)
    socket.setsockopt(zmq.RCVHWM, _QUEUED_MESSAGES)
    socket.setsockopt(zmq.SNDHWM, _QUEUED_MESSAGES)
    socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MILLISECONDS)
    # A client that comes back under the name it had gets its answers.
    socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
    socket.setsockopt(zmq.IPV6, int(":" in door.host))
    if door.certificates is not None:
        door.certificates.secure(socket)
    host = f"[{door.host}]" if ":" in door.host else door.host
    try:
        try:
            socket.bind(f"ipc://{door.path}" if door.path else f"tcp://{host}:{door.port or '*'}")
        except zmq.ZMQError as error:
            raise PortInUse(str(error)) from None
        router = Router(socket, door, dialect, waiting=waiting)
        task = asyncio.create_task(lasting(router.serve, name=f"port {door.number}"))
        try:
            yield router
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await router.finish()
    finally:
        socket.close()


def _peer(frame: zmq.Frame) -> str:
    try:
        return str(frame.get("Peer-Address"))
    except zmq.ZMQError:
        return ""
