"""A client of MCP that sends one message and reads one answer, so that a test sees what goes over HTTP."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from fix_http import TLS

JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
LATEST = "2026-07-28"
HANDSHAKE = "2025-11-25"
_numbers = itertools.count(1)


@dataclass
class Mcp:
    """A client of /mcp at an address, with a credential."""

    client: httpx.AsyncClient
    headers: dict[str, str] = field(default_factory=dict)
    # With its question mark.
    query: str = ""

    @classmethod
    @asynccontextmanager
    async def of(cls, address: str, credential: str = "", query: str = "", **headers: str) -> AsyncIterator[Mcp]:
        """Talk with a credential; underscores in the names of headers are hyphens."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if credential:
            sent["authorization"] = f"Bearer {credential}"
        async with httpx.AsyncClient(base_url=f"http://{address}", trust_env=False, verify=TLS, timeout=30) as client:
            yield cls(client, sent, query)

    async def post(self, body: Any, **headers: str) -> httpx.Response:
        """Post a body as it is, or JSON."""
        sent = {**JSON, **self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        raw = {"content": body} if isinstance(body, (bytes, str)) else {"json": body}
        return await self.client.post("/mcp" + self.query, headers=sent, **raw)

    async def send(self, method: str, params: dict[str, Any] | None = None, **headers: str) -> httpx.Response:
        """Send one request."""
        message = {"jsonrpc": "2.0", "id": next(_numbers), "method": method, **({"params": params} if params else {})}
        return await self.post(message, **headers)

    async def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the result of a request."""
        answer = await self.send(method, params)
        assert answer.status_code == 200, answer.text
        assert "result" in answer.json(), answer.text
        result: dict[str, Any] = answer.json()["result"]
        return result

    async def error(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the error of a request."""
        result: dict[str, Any] = (await self.send(method, params)).json()["error"]
        return result

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Return the structured answer of a tool that did what it was asked."""
        result = await self.ask("tools/call", {"name": name, "arguments": arguments})
        assert not result.get("isError"), result
        found: dict[str, Any] = result["structuredContent"]
        return found

    async def refused(self, name: str, **arguments: Any) -> tuple[str, str]:
        """Return why a tool refused: the reason, and what a model reads."""
        result = await self.ask("tools/call", {"name": name, "arguments": arguments})
        assert result.get("isError"), result
        return result["_meta"]["skein/error"]["reason"], result["content"][0]["text"]
