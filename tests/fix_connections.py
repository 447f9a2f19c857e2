"""Connections to an HTTP port, byte by byte: whole requests, half of them, and how the server ends them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import ClassVar

import pytest

from skein_kit.http_server.connections import HttpLimits
from skein_kit.settings import ProcessSettings

HALF = b"GET /healthz HTTP/1.1\r\nhost: here\r\nx-half: "
WHOLE = b"GET /healthz HTTP/1.1\r\nhost: here\r\n\r\n"
SECONDS = 60.0


def limits(
    *, most: int = 100, per_address: int = 0, reserve_from: int = 10_000, proxy: str = "", **settings: float
) -> HttpLimits:
    """Return the limits of a port, with time-outs that no test waits for unless it says so."""
    patience = dict.fromkeys(("handshake_seconds", "transfer_seconds", "idle_seconds", "transfer_seconds"), 600.0)
    values = {**patience, **settings, "http_connections_per_address": per_address}
    made = ProcessSettings(**values)  # type: ignore[arg-type]  # Numbers, by the names of the fields.
    return HttpLimits.from_settings(
        made, max_connections=most, reserve_from=reserve_from, is_proxy=lambda address: address == proxy
    )


@dataclass(eq=False)
class Client:
    """One connection; `connections` closes those that a test leaves open."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    made: ClassVar[set[Client]] = set()

    @classmethod
    async def connect(
        cls, address: str, first: bytes = b"", *, source: str = "127.0.0.1", tls: ssl.SSLContext | None = None
    ) -> Client:
        """Connect from a source address and send the first bytes."""
        host, _, port = address.rpartition(":")
        client = cls(*await asyncio.open_connection(host, int(port), local_addr=(source, 0), ssl=tls))
        cls.made.add(client)
        client.writer.write(first)
        return client

    async def ask(self, request: bytes = WHOLE) -> int:
        """Send a request; return the status of the answer, whose body has a length."""
        self.writer.write(request)
        return await self.status()

    async def status(self) -> int:
        """Read an answer whose body has a length; return its status."""
        async with asyncio.timeout(SECONDS):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
            await self.reader.readexactly(length)
        return int(head.split()[1])

    async def end(self) -> bytes:
        """Wait until the server ends the connection; return what it said before."""
        async with asyncio.timeout(SECONDS):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""

    @property
    def is_open(self) -> bool:
        """Whether the server has not ended the connection, as far as it was heard."""
        return not self.reader.at_eof() and self.reader.exception() is None

    def close(self) -> None:
        """End it at once."""
        self.writer.transport.abort()
        self.made.discard(self)


@pytest.fixture
async def connections() -> AsyncIterator[None]:
    """Close what a test leaves open."""
    yield
    for client in list(Client.made):
        client.close()
    # Transports close in the next round.
    await asyncio.sleep(0)
