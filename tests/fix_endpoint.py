"""A real HTTP server that makes vectors as OpenAI's protocol has it: each word has its place among a few dimensions."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

DIMENSIONS = 64


def vector_of(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """The vector of a text: words in common bring texts near to one another; nothing at all lies at the first place."""
    values = [0.0] * dimensions
    for word in re.findall(r"\w+", text.lower()) or [""]:
        values[int.from_bytes(hashlib.sha256(word.encode()).digest()[:4]) % dimensions] += 1.0
    return values


@dataclass
class Answer:
    """What the server says instead of the right answer."""

    status: bytes = b"200 OK"
    headers: bytes = b""
    body: Any = None
    hangs: bool = False


@dataclass
class EmbeddingServer:
    """The server, and what was asked of it."""

    url: str = ""
    # What comes before the right answers, one for each request; the last one for ever when it `stays`.
    answers: list[Answer] = field(default_factory=list)
    stays: bool = False
    # Texts that it does not take.
    chokes_on: str = ""
    reversed: bool = False
    batches: list[list[str]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def endpoint(self) -> str:
        return f"{self.url}/v1"

    def breaks(self, *answers: Answer) -> None:
        """Answer like this from now on."""
        self.answers, self.stays = list(answers), True

    def heals(self) -> None:
        """Answer rightly from now on."""
        self.answers, self.stays = [], False

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
        request = json.loads(await reader.readexactly(int(headers["content-length"])))
        self.batches.append(request["input"])
        self.keys.append(headers.get("authorization", ""))
        said = self._said(lines[0], request)
        if said.hangs:
            await self.released.wait()
            return
        body = json.dumps(said.body or {}).encode()
        head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\n%scontent-length: %d\r\nconnection: close\r\n\r\n"
        writer.write(head % (said.status, said.headers, len(body)) + body)
        await writer.drain()

    def _said(self, line: str, request: dict[str, Any]) -> Answer:
        if not line.startswith("POST /v1/embeddings "):
            return Answer(b"404 Not Found")
        if self.answers:
            return self.answers[0] if self.stays and len(self.answers) == 1 else self.answers.pop(0)
        texts = request["input"]
        if self.chokes_on and any(self.chokes_on in text for text in texts):
            return Answer(b"400 Bad Request")
        data = [{"object": "embedding", "index": n, "embedding": vector_of(text)} for n, text in enumerate(texts)]
        return Answer(body={"object": "list", "data": data[::-1] if self.reversed else data})


@pytest.fixture
async def endpoint() -> AsyncIterator[EmbeddingServer]:
    """A server of a test's own."""
    made = EmbeddingServer()
    server = await asyncio.start_server(made.answer, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield made
        made.released.set()
