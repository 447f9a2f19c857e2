"""The TCP side of a port: which connections it accepts, and which ZeroMQ socket each of them gets.

Every connection gets a ZeroMQ socket of its own, and its bytes are forwarded, so both ends negotiate directly
(version, CURVE). On a port that answers and publishes, the first bytes are read here: they name the peer's socket
type.

The handshake is that of ZMTP 3.1 (https://rfc.zeromq.org/spec/37) with the mechanism NULL: both sides send a greeting
of 64 bytes and then the command READY, unencrypted, whose metadata names the sender's Socket-Type.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from skein_kit.host import open_files
from skein_kit.telemetry import logs
from skein_pc2.recent_names import RecentNames
from skein_pc2.transport.publisher import Publisher, PublisherConnection
from skein_pc2.transport.router import HANDSHAKE_MILLISECONDS, PortConfig, PortInUse, Router, RouterConnection

# Most connections of a port, and of one address.
MAX_CONNECTIONS, MAX_CONNECTIONS_PER_ADDRESS = 400, 200
# File descriptors of a connection: TCP, both ends of the Unix socket, its listener, and the socket's wake-up.
_FILES_PER_CONNECTION = 6
_MIN_CONNECTIONS_OF_ALL_PORTS = 64
# Socket types of subscribers, and of clients with requests.
_SUBSCRIBER_TYPES, _REQUESTER_TYPES = frozenset({"SUB", "XSUB"}), frozenset({"REQ", "DEALER"})
# Time to read the last messages of a closed peer, and to send the last replies.
_FLUSH_SECONDS = 2.0
_CHUNK_BYTES = 64 * 1024
# Number of rejected peers that are remembered: a peer that retries is logged once.
_MAX_LOGGED_PEERS = 1000
# The path of a Unix socket has at most 107 bytes on Linux and 103 on macOS; the folder and the socket need some.
_MAX_BASE_BYTES = 64

log = logs.get("pc2")
GREETING_BYTES = 64
# Signature, version 3.1, mechanism NULL, a peer that is no server, filler.
GREETING = b"\xff" + b"\0" * 8 + b"\x7f" + b"\x03\x01" + b"NULL".ljust(20, b"\0") + b"\0" * 32

_VERSION = 10
_MECHANISM = slice(12, 32)
_COMMAND, _LONG_COMMAND = 0x04, 0x06
# READY holds a few short properties: the type, an identity of up to 255 bytes.
_MAX_READY_BYTES = 2048
_READY = b"\x05READY"
_SOCKET_TYPE = b"socket-type"


class ConnectionCount:
    """Number of connections of all ports of a process."""

    def __init__(self) -> None:
        # Half of the file descriptors; the gateway connection and logs need others.
        max_connections = open_files.limit() // (2 * _FILES_PER_CONNECTION)
        self.max_connections = max(_MIN_CONNECTIONS_OF_ALL_PORTS, max_connections)
        self.count = 0


class Listener:
    """Accepts the connections of one port."""

    def __init__(
        self,
        config: PortConfig,
        *,
        router: Router | None = None,
        publisher: Publisher | None = None,
        total_connections: ConnectionCount | None = None,
    ) -> None:
        """Serve peers with `router`, `publisher`, or both by the peer's socket type."""
        self._config = config
        self._router = router
        self._publisher = publisher
        self._total_connections = total_connections or ConnectionCount()
        self._addresses: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        # Connections whose greeting is being read.
        self._greeting_tasks: set[asyncio.Task[None]] = set()
        self._logged_addresses = RecentNames(_MAX_LOGGED_PEERS)
        self._names = itertools.count()
        self._folder = ""
        self._server: asyncio.Server | None = None
        self._stop_event = asyncio.Event()
        self.address = ""
        # False while no peer can connect.
        self.is_listening = False

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Accept connections until the block ends, then send pending replies. Raises PortInUse."""
        # Only this user can open the folder.
        with _socket_folder() as self._folder:
            self._server = server = await self._bind()
            host, port = server.sockets[0].getsockname()[:2]
            self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            self.is_listening = True
            try:
                yield
            finally:
                self.begin_stop()
                await asyncio.gather(*self._tasks, return_exceptions=True)

    def begin_stop(self) -> None:
        """Stop accepting connections and end the present ones. The block of `open` waits for them."""
        self.is_listening = False
        if self._server is not None:
            self._server.close()
        self._stop_event.set()
        for task in self._greeting_tasks:
            task.cancel()

    async def _bind(self) -> asyncio.Server:
        # ZeroMQ's name for all addresses.
        host = "0.0.0.0" if self._config.host == "*" else self._config.host  # noqa: S104 - settings demand an allow-list.
        try:
            if host == "::" and socket.has_dualstack_ipv6():
                dual_stack_socket = socket.create_server(
                    (host, self._config.port), family=socket.AF_INET6, dualstack_ipv6=True
                )
                return await asyncio.start_server(self._accept, sock=dual_stack_socket)
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            return await asyncio.start_server(self._accept, host, self._config.port, family=family)
        except OSError as error:
            raise PortInUse(str(error)) from None

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            return
        address = writer.get_extra_info("peername", ("",))[0]
        self._tasks.add(task)
        self._addresses[address] += 1
        self._total_connections.count += 1
        try:
            if self._is_allowed(address) and self._has_room(address):
                _enable_keepalive(writer)
                await self._serve(reader, writer, task, address)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, InvalidHandshake):
            # The peer is gone, or does not speak ZMTP.
            pass
        except Exception:
            log.exception("internal_error", port=self._config.number)
        finally:
            self._tasks.discard(task)
            self._total_connections.count -= 1
            self._addresses[address] -= 1
            if not self._addresses[address]:
                del self._addresses[address]
            writer.transport.abort()

    def _is_allowed(self, address: str) -> bool:
        if self._config.allows(address):
            return True
        if address not in self._logged_addresses:
            self._logged_addresses.add(address)
            log.warning("peer_refused", port=self._config.number, address=address, setting="SKEIN_PC2_ALLOW")
        return False

    def _has_room(self, address: str) -> bool:
        return (
            len(self._tasks) <= MAX_CONNECTIONS
            and self._addresses[address] <= MAX_CONNECTIONS_PER_ADDRESS
            and self._total_connections.count <= self._total_connections.max_connections
        )

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, task: asyncio.Task[None], address: str
    ) -> None:
        """Connect a peer with the router or publisher for its socket type until either end closes."""
        first_bytes, socket_type = b"", ""
        if self._router is not None and self._publisher is not None:
            self._greeting_tasks.add(task)
            try:
                first_bytes, socket_type = await _read_greeting(reader, writer)
            finally:
                self._greeting_tasks.discard(task)
        path = str(Path(self._folder) / str(next(self._names)))
        if self._router is not None and (self._publisher is None or socket_type in _REQUESTER_TYPES):
            async with self._router.connection(path, address) as connection:
                await self._splice(reader, writer, path, connection, first_bytes=first_bytes)
        elif (
            self._publisher is not None
            and (self._router is None or socket_type in _SUBSCRIBER_TYPES)
            and self._publisher.has_room
        ):
            async with self._publisher.connection(path) as subscription:
                await self._splice(reader, writer, path, subscription, first_bytes=first_bytes)

    async def _splice(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        path: str,
        connection: RouterConnection | PublisherConnection,
        *,
        first_bytes: bytes,
    ) -> None:
        """Connect a peer with the Unix socket at `path` until either end or the port closes.

        `first_bytes` are the bytes already read. The peer has had a greeting then, so the socket's greeting is dropped.
        """
        inner_reader, inner_writer = await asyncio.open_unix_connection(path)
        tasks: list[asyncio.Task[None]] = []
        try:
            if first_bytes:
                inner_writer.write(first_bytes)
                await inner_reader.readexactly(GREETING_BYTES)
            input_task = asyncio.create_task(_forward_input(reader, inner_writer))
            output_task = asyncio.create_task(_forward_output(inner_reader, writer, connection))
            stop_task = asyncio.create_task(_wait_for_event(self._stop_event))
            tasks += (input_task, output_task, stop_task)
            serve_tasks = [connection.serve_task] if connection.serve_task is not None else []
            await asyncio.wait([*tasks, *serve_tasks], return_when=asyncio.FIRST_COMPLETED)
            if input_task.done() and not output_task.done():
                # The socket reads to the end and closes, so every message of the peer has arrived.
                inner_writer.write_eof()
                await asyncio.wait([output_task], timeout=_FLUSH_SECONDS)
            await connection.drain(is_peer_gone=input_task.done() or output_task.done())
            await asyncio.wait([output_task], timeout=_FLUSH_SECONDS)
            if not input_task.done():
                async with asyncio.timeout(_FLUSH_SECONDS):
                    writer.close()
                    await writer.wait_closed()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            inner_writer.transport.abort()


@asynccontextmanager
async def listen(
    config: PortConfig,
    *,
    router: Router | None = None,
    publisher: Publisher | None = None,
    total_connections: ConnectionCount | None = None,
) -> AsyncIterator[Listener]:
    """Listen on a port until the block ends, then send pending replies. Raises PortInUse."""
    listener = Listener(config, router=router, publisher=publisher, total_connections=total_connections)
    async with listener.open():
        yield listener


async def _read_greeting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[bytes, str]:
    """Return a peer's first bytes and socket type. Raises TimeoutError, InvalidHandshake and IncompleteReadError."""
    async with asyncio.timeout(HANDSHAKE_MILLISECONDS / 1000):
        writer.write(GREETING)
        greeting = await read_greeting(reader)
        ready, socket_type = await read_ready(reader)
    return greeting + ready, socket_type


async def _wait_for_event(event: asyncio.Event) -> None:
    await event.wait()


async def _forward_input(reader: asyncio.StreamReader, inner_writer: asyncio.StreamWriter) -> None:
    """Forward a peer's bytes to the socket, with flow control, until the peer closes."""
    with suppress(OSError):
        while data := await reader.read(_CHUNK_BYTES):
            inner_writer.write(data)
            await inner_writer.drain()


async def _forward_output(
    inner_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: RouterConnection | PublisherConnection
) -> None:
    """Forward the socket's bytes to the peer until the socket closes; drop them when the peer is gone."""
    with suppress(OSError):
        while data := await inner_reader.read(_CHUNK_BYTES):
            with suppress(OSError):
                writer.write(data)
                await writer.drain()
            connection.record_sent(len(data))


def _enable_keepalive(writer: asyncio.StreamWriter) -> None:
    """Enable TCP keepalive, which detects peers that lost power."""
    tcp_socket: socket.socket = writer.get_extra_info("socket")
    tcp_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    tcp_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _socket_folder() -> tempfile.TemporaryDirectory[str]:
    """Make a folder for this user alone among temporary files, or in /tmp when that path is too long."""
    bases = (tempfile.gettempdir(), "/tmp", "/var/tmp")  # noqa: S108 - a folder of our own is made in it.
    usable = (path for path in bases if len(os.fsencode(path)) <= _MAX_BASE_BYTES and os.access(path, os.W_OK))
    return tempfile.TemporaryDirectory(prefix="skein-pc2-", dir=next(usable, None))


class InvalidHandshake(Exception):
    """The peer does not open a ZMTP 3 connection with the mechanism NULL."""


async def read_greeting(reader: asyncio.StreamReader) -> bytes:
    """Read a peer's greeting. Raises InvalidHandshake and IncompleteReadError."""
    greeting = await reader.readexactly(_VERSION + 1)
    if greeting[0] != GREETING[0] or greeting[9] & 1 == 0 or greeting[_VERSION] < GREETING[_VERSION]:
        raise InvalidHandshake
    greeting += await reader.readexactly(GREETING_BYTES - len(greeting))
    if greeting[_MECHANISM] != GREETING[_MECHANISM]:
        raise InvalidHandshake
    return greeting


async def read_ready(reader: asyncio.StreamReader) -> tuple[bytes, str]:
    """Read a peer's READY: the frame as received, and the socket type. Raises InvalidHandshake, IncompleteReadError."""
    flags = await reader.readexactly(1)
    if flags[0] not in (_COMMAND, _LONG_COMMAND):
        raise InvalidHandshake
    size = await reader.readexactly(1 if flags[0] == _COMMAND else 8)
    length = int.from_bytes(size, "big")
    if length > _MAX_READY_BYTES:
        raise InvalidHandshake
    body = await reader.readexactly(length)
    return flags + size + body, socket_type(body)


def socket_type(body: bytes) -> str:
    """Return the Socket-Type that the body of a READY names: "REQ", "SUB" and so on. Raises InvalidHandshake."""
    if not body.startswith(_READY):
        raise InvalidHandshake
    position = len(_READY)
    while position < len(body):
        name, position = _read_prefixed(body, position, 1)
        value, position = _read_prefixed(body, position, 4)
        if name.lower() == _SOCKET_TYPE:
            return value.decode("ascii", "replace")
    raise InvalidHandshake


def _read_prefixed(body: bytes, position: int, width: int) -> tuple[bytes, int]:
    """Return length-prefixed bytes, and the position after them."""
    start = position + width
    end = start + int.from_bytes(body[position:start], "big")
    if start > len(body) or end > len(body):
        raise InvalidHandshake
    return body[start:end], end
