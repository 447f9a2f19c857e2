"""HTTP as a test asks it, without holding up the loop that the cluster under test may run on."""

from __future__ import annotations

import asyncio
import http.client
import ssl

# For clients of plain HTTP: httpx would read all certificates of the world for each, in 30 ms.
TLS = ssl.create_default_context()


async def get(address: str, path: str, **headers: str) -> tuple[int, str]:
    """GET a path of "host:port"; return the status and the body."""

    def ask() -> tuple[int, str]:
        connection = http.client.HTTPConnection(address, timeout=30)
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    return await asyncio.to_thread(ask)
