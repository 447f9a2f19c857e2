"""A real HTTP server that finds words in texts as an operator's detector does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Detector:
    """The server, what it was asked, and what it answers instead of the right answer."""

    url: str = ""
    # What it finds, by word: kind and category.
    words: dict[str, tuple[str, str]] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    wrong_answer: tuple[bytes, Any] | None = None

    def answer(self, body: bytes) -> tuple[bytes, Any]:
        texts = json.loads(body)["texts"]
        self.texts += texts
        if self.wrong_answer is not None:
            return self.wrong_answer
        findings = [
            [
                {"kind": kind, "category": category, "start": text.index(word), "end": text.index(word) + len(word)}
                for word, (kind, category) in self.words.items()
                if word in text
            ]
            for text in texts
        ]
        return b"200 OK", {"findings": findings}


@asynccontextmanager
async def running_detector() -> AsyncIterator[Detector]:
    """Serve on a free port of loopback."""
    detector = Detector()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        lines = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        detector.keys.append(lines.get("authorization", ""))
        status, answer = detector.answer(await reader.readexactly(int(lines["content-length"])))
        body = json.dumps(answer).encode()
        writer.write(
            b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"
            % (status, len(body), body)
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        detector.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/find"
        yield detector
