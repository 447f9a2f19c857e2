"""A small TCP proxy that breaks connections in the ways that networks do."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

_BYTES = 65536
# Closed with it, a connection is reset instead of ended.
_LINGER_NOT = struct.pack("ii", 1, 0)


@dataclass(eq=False)
class _Link:
    """One connection through the proxy."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    # Cleared: bytes are taken from neither side, and both stay connected.
    moves: asyncio.Event = field(default_factory=asyncio.Event)
    # The words that it is still to say before it hears no more; none: it is any other.
    words: list[bytes] = field(default_factory=list)
    # What the server says from here on is read and thrown away.
    swallows: bool = False

    def reset(self) -> None:
        for writer in (self.client, self.server):
            result = writer.get_extra_info("socket")
            # It may be closed already.
            with suppress(OSError):
                if result is not None and result.family == socket.AF_INET:
                    result.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
            writer.transport.abort()


class Proxy:
    """Forwards connections to one place, until told otherwise."""

    def __init__(self, target: str | Path) -> None:
        """Lead to "host:port", or to a Unix socket."""
        self._target = target
        self._links: set[_Link] = set()
        self._carrying: set[asyncio.Task[None]] = set()
        self._is_hanging = False
        self._words: list[bytes] = []
        self.swallowed = asyncio.Event()
        self.address = ""

    @classmethod
    @asynccontextmanager
    async def to(cls, target: str | Path) -> AsyncIterator[Proxy]:
        proxy = cls(target)
        server = await asyncio.start_server(proxy._came, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        proxy.address = f"{host}:{port}"
        try:
            yield proxy
        finally:
            server.close()
            proxy.reset()
            for task in proxy._carrying:
                task.cancel()
            await asyncio.gather(*proxy._carrying, return_exceptions=True)

    @property
    def links(self) -> int:
        """Return how many connections there are."""
        return len(self._links)

    def reset(self) -> None:
        """Reset every connection, at both ends."""
        for link in list(self._links):
            link.reset()

    def hang(self) -> None:
        """Stop forwarding without closing anything; who connects from now on hears nothing either."""
        self._is_hanging = True
        for link in self._links:
            link.moves.clear()

    def go_on(self) -> None:
        """Forward again what was held up."""
        self._is_hanging = False
        for link in self._links:
            link.moves.set()

    def lead(self, target: str | Path) -> None:
        """Send new connections to another target."""
        self._target = target

    def heal(self) -> None:
        """Forward new connections; those from before stay half open for ever."""
        self._is_hanging = False

    def swallow(self, *words: bytes) -> None:
        """Let the connection that says these words, one after the other, not hear the answer; it is reset instead."""
        self.swallowed.clear()
        self._words = list(words)

    def _came(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._carry(reader, writer))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if isinstance(self._target, Path):
                there, server = await asyncio.open_unix_connection(str(self._target))
            else:
                host, _, port = self._target.rpartition(":")
                there, server = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.transport.abort()
            return
        link = _Link(writer, server)
        if not self._is_hanging:
            link.moves.set()
        self._links.add(link)
        try:
            with suppress(OSError):
                ways = [
                    asyncio.create_task(self._forward(link, reader, server)),
                    asyncio.create_task(self._forward(link, there, writer, back=True)),
                ]
                try:
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for way in ways:
                        way.cancel()
                    await asyncio.gather(*ways, return_exceptions=True)
        finally:
            self._links.discard(link)
            writer.close()
            server.close()

    async def _forward(
        self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, back: bool = False
    ) -> None:
        while True:
            await link.moves.wait()
            data = await reader.read(_BYTES)
            if not data:
                return
            await link.moves.wait()
            if back and link.swallows:
                self.swallowed.set()
                link.reset()
                return
            if not back:
                self._listen(link, data)
            writer.write(data)
            await writer.drain()

    def _listen(self, link: _Link, data: bytes) -> None:
        if self._words and self._words[0] in data:
            link.words, self._words = self._words, []
        if link.words:
            while link.words and link.words[0] in data:
                data = data[data.index(link.words[0]) :]
                del link.words[0]
            link.swallows = not link.words
