"""The TCP side of a port: which connections it accepts, and which ZeroMQ socket each of them gets.

Every connection gets a ZeroMQ socket that serves it alone, and its bytes are handed on, so what is agreed between the
two ends (the version, CURVE) is agreed end to end. A port may answer and publish: then the first bytes of a connection,
in which its peer names its type of socket, are read here.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections import Counter
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from skein_kit.host import open_files
from skein_kit.telemetry import logs
from skein_pc2.gateway_api.named_sessions import RecentNames
from skein_pc2.transport import zmtp
from skein_pc2.transport.router import HANDSHAKE_MILLISECONDS, PortInUse
from skein_pc2.transport.unix_sockets import socket_folder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skein_pc2.transport.publisher import Publisher, PublisherConnection
    from skein_pc2.transport.router import PortConfig, Router, RouterConnection

# Connections of a port, subscribers and others, and those from one address.
MAX_CONNECTIONS, MAX_CONNECTIONS_PER_ADDRESS = 400, 200
# Files that a connection opens: both ends of the way to its socket, what listens there, and what wakes the socket up.
_FILES_PER_CONNECTION = 6
_LEAST_CONNECTIONS_OF_ALL_PORTS = 64
# Types of sockets that listen, and that ask.
_SUBSCRIBING, _REQUESTING = frozenset({"SUB", "XSUB"}), frozenset({"REQ", "DEALER"})
# What a peer that is gone has sent is read until then, and answers are sent to one that takes them.
_FLUSH_SECONDS = 2.0
_PORTION = 64 * 1024
# A refused peer tries again for ever, and is worth one line.
_MOST_REFUSED = 1000

log = logs.get("pc2")


class ConnectionCount:
    """How many connections all ports of a process have."""

    def __init__(self) -> None:
        # Half of the files: the rest is for the gateway and for logs.
        most = open_files.limit() // (2 * _FILES_PER_CONNECTION)
        self.most = max(_LEAST_CONNECTIONS_OF_ALL_PORTS, most)
        self.count = 0


class Listener:
    """Accepts the connections of one port."""

    def __init__(
        self,
        door: PortConfig,
        *,
        router: Router | None = None,
        publisher: Publisher | None = None,
        of_all_ports: ConnectionCount | None = None,
    ) -> None:
        """Let `router` answer, `publisher` publish, or both: then a peer's type of socket decides."""
        self._door = door
        self._router = router
        self._publisher = publisher
        self._of_all_ports = of_all_ports or ConnectionCount()
        self._addresses: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        # Those whose peer has not said yet what it is.
        self._greeting: set[asyncio.Task[None]] = set()
        self._refused = RecentNames(_MOST_REFUSED)
        self._names = itertools.count()
        self._folder = ""
        self._server: asyncio.Server | None = None
        self._is_stopping = asyncio.Event()
        self.address = ""
        # False while nobody can come.
        self.is_listening = False

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Accept connections until the block ends, then send the answers that are being made. Raises PortInUse."""
        # Where this process alone may go.
        with socket_folder() as self._folder:
            self._server = server = await self._bound()
            host, port = server.sockets[0].getsockname()[:2]
            self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            self.is_listening = True
            try:
                yield
            finally:
                self.begin_stop()
                await asyncio.gather(*self._tasks, return_exceptions=True)

    def begin_stop(self) -> None:
        """Accept no more connections, and let those that there are end. The block of `open` waits for them."""
        self.is_listening = False
        if self._server is not None:
            self._server.close()
        self._is_stopping.set()
        for task in self._greeting:
            task.cancel()

    async def _bound(self) -> asyncio.Server:
        # What ZeroMQ calls all addresses.
        host = "0.0.0.0" if self._door.host == "*" else self._door.host  # noqa: S104 - settings demand an allow-list.
        try:
            if host == "::" and socket.has_dualstack_ipv6():
                both = socket.create_server((host, self._door.port), family=socket.AF_INET6, dualstack_ipv6=True)
                return await asyncio.start_server(self._accept, sock=both)
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            return await asyncio.start_server(self._accept, host, self._door.port, family=family)
        except OSError as error:
            raise PortInUse(str(error)) from None

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            return
        address = writer.get_extra_info("peername", ("",))[0]
        self._tasks.add(task)
        self._addresses[address] += 1
        self._of_all_ports.count += 1
        try:
            if self._admits(address) and self._has_room(address):
                _enable_keepalive(writer)
                await self._serve(reader, writer, task)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, zmtp.NotZmtp):
            # The peer is gone, or it is none of the protocol's.
            pass
        except Exception:
            log.exception("fault", port=self._door.number)
        finally:
            self._tasks.discard(task)
            self._of_all_ports.count -= 1
            self._addresses[address] -= 1
            if not self._addresses[address]:
                del self._addresses[address]
            writer.transport.abort()

    def _admits(self, address: str) -> bool:
        if self._door.admits(address):
            return True
        if address not in self._refused:
            self._refused.add(address)
            log.warning("peer_refused", port=self._door.number, address=address, setting="SKEIN_PC2_ALLOW")
        return False

    def _has_room(self, address: str) -> bool:
        return (
            len(self._tasks) <= MAX_CONNECTIONS
            and self._addresses[address] <= MAX_CONNECTIONS_PER_ADDRESS
            and self._of_all_ports.count <= self._of_all_ports.most
        )

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, task: asyncio.Task[None]
    ) -> None:
        """Connect a peer with a socket that is for its type, until either end is gone."""
        opening, kind = b"", ""
        if self._router is not None and self._publisher is not None:
            self._greeting.add(task)
            try:
                opening, kind = await _read_greeting(reader, writer)
            finally:
                self._greeting.discard(task)
        path = str(Path(self._folder) / str(next(self._names)))
        if self._router is not None and (self._publisher is None or kind in _REQUESTING):
            async with self._router.connection(path) as connection:
                await self._splice(reader, writer, path, connection, opening=opening)
        elif (
            self._publisher is not None and (self._router is None or kind in _SUBSCRIBING) and self._publisher.has_room
        ):
            async with self._publisher.connection(path) as subscription:
                await self._splice(reader, writer, path, subscription, opening=opening)

    async def _splice(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        path: str,
        connection: RouterConnection | PublisherConnection,
        *,
        opening: bytes,
    ) -> None:
        """Connect a peer with the Unix socket at `path` until either end is gone, or the port closes.

        `opening` is what the peer has said already. It was greeted then, so the greeting of the socket is left out.
        """
        inner_reader, inner_writer = await asyncio.open_unix_connection(path)
        tasks: list[asyncio.Task[None]] = []
        try:
            if opening:
                inner_writer.write(opening)
                await inner_reader.readexactly(zmtp.GREETING_BYTES)
            inward = asyncio.create_task(_forward_input(reader, inner_writer))
            outward = asyncio.create_task(_forward_output(inner_reader, writer, connection))
            stopping = asyncio.create_task(_wait(self._is_stopping))
            tasks += (inward, outward, stopping)
            serving = [connection.serving] if connection.serving is not None else []
            await asyncio.wait([*tasks, *serving], return_when=asyncio.FIRST_COMPLETED)
            if inward.done() and not outward.done():
                # The socket reads to the end, and closes: then every message of the peer has arrived.
                inner_writer.write_eof()
                await asyncio.wait([outward], timeout=_FLUSH_SECONDS)
            await connection.finish(is_peer_gone=inward.done() or outward.done())
            await asyncio.wait([outward], timeout=_FLUSH_SECONDS)
            if not inward.done():
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
    door: PortConfig,
    *,
    router: Router | None = None,
    publisher: Publisher | None = None,
    of_all_ports: ConnectionCount | None = None,
) -> AsyncIterator[Listener]:
    """Listen on a port until the block ends, then send the answers that are being made. Raises PortInUse."""
    listener = Listener(door, router=router, publisher=publisher, of_all_ports=of_all_ports)
    async with listener.open():
        yield listener


async def _read_greeting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[bytes, str]:
    """Return what a peer says first, and its type of socket. Raises TimeoutError, NotZmtp and IncompleteReadError."""
    async with asyncio.timeout(HANDSHAKE_MILLISECONDS / 1000):
        writer.write(zmtp.GREETING)
        greeting = await zmtp.read_greeting(reader)
        ready, kind = await zmtp.read_ready(reader)
    return greeting + ready, kind


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def _forward_input(reader: asyncio.StreamReader, inner_writer: asyncio.StreamWriter) -> None:
    """Hand on what a peer sends, no faster than it is taken, until the peer is gone."""
    with suppress(OSError):
        while data := await reader.read(_PORTION):
            inner_writer.write(data)
            await inner_writer.drain()


async def _forward_output(
    inner_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: RouterConnection | PublisherConnection
) -> None:
    """Hand on what the socket sends until it closes; what a peer that is gone cannot get is dropped."""
    with suppress(OSError):
        while data := await inner_reader.read(_PORTION):
            with suppress(OSError):
                writer.write(data)
                await writer.drain()
            connection.delivered(len(data))


def _enable_keepalive(writer: asyncio.StreamWriter) -> None:
    """Have the system ask whether a silent peer is still there: one that lost its power does not say good-bye."""
    plain: socket.socket = writer.get_extra_info("socket")
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
