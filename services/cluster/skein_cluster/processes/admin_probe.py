"""Asks the admin port of a process whether the process is ready."""

from __future__ import annotations

import asyncio
import contextlib

_SECONDS = 2.0


async def is_ready(address: str) -> bool:
    """Tell whether /readyz of "host:port" succeeds within two seconds."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(_SECONDS):
            reader, writer = await asyncio.open_connection(host, int(port))
            with contextlib.closing(writer):
                writer.write(b"GET /readyz HTTP/1.0\r\n\r\n")
                return b" 200 " in await reader.readline()
    except (OSError, TimeoutError):
        return False
