"""The load of a soak: clients call every kind of port all the time, and listen to those that publish."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import zmq
import zmq.asyncio
from bench.ways import Material
from fix_mcp import Mcp

from skein.memory.v1 import blocks_pb2, history_pb2, memory_pb2, webhooks_pb2
from skein.session.v1 import session_pb2
from skein_client.client import Client
from skein_client.errors import SkeinError

# Between two calls of one caller.
_PAUSE_SECONDS = 0.05
_SESSIONS = 200
# Memories that are read and linked again.
_KNOWN = 1000
_LISTEN_SECONDS = 2.0
_ANSWER_MILLISECONDS = 10_000
# Sends the same block its lines, until it is full and begins anew.
_LINES = 50


class Receiver:
    """A receiver of webhooks."""

    def __init__(self) -> None:
        self.delivery_count = 0
        self.url = ""

    @classmethod
    @asynccontextmanager
    async def listening(cls) -> AsyncIterator[Receiver]:
        receiver = cls()
        server = await asyncio.start_server(receiver.answer, "127.0.0.1", 0)
        receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
        try:
            yield receiver
        finally:
            server.close()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            await reader.readexactly(int(head.partition("content-length:")[2].split("\r\n")[0]))
            self.delivery_count += 1
            writer.write(b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            await writer.drain()
        writer.close()


@dataclass(kw_only=True, slots=True)
class Load:
    """The mixed load, and its outcome since the last report."""

    skein: Client
    material: Material
    mcp: Mcp
    http: httpx.AsyncClient
    # Where the assistants' orchestrator listens.
    pc2: str
    context: zmq.asyncio.Context
    receiver: Receiver
    block_id: str = ""
    memory_ids: list[str] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    # Calls by kind, from the beginning on.
    calls: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    # What the listeners heard, and what the receiver was told.
    event_count: int = 0
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    @classmethod
    @asynccontextmanager
    async def on(
        cls, skein: Client, material: Material, *, api_key: str, http: str, pc2: str, receiver: Receiver
    ) -> AsyncIterator[Load]:
        """Prepare what calls need; the assistants' tenant is the key's."""
        async with AsyncExitStack() as stack:
            mcp = await stack.enter_async_context(Mcp.of(http, api_key))
            headers = {"authorization": f"Bearer {api_key}"}
            web = await stack.enter_async_context(
                httpx.AsyncClient(base_url=f"http://{http}", headers=headers, trust_env=False, timeout=30)
            )
            context = zmq.asyncio.Context()
            stack.callback(context.destroy, linger=0)
            load = cls(skein=skein, material=material, mcp=mcp, http=web, pc2=pc2, context=context, receiver=receiver)
            webhook = webhooks_pb2.Webhook(
                display_name="soak", event_types=["memory_created"], webhook_url=receiver.url
            )
            await skein.history.CreateWebhook(webhooks_pb2.CreateWebhookRequest(webhook=webhook))
            block = blocks_pb2.Block(label=f"soak {uuid.uuid4().hex[:8]}", limit=100_000)
            created = await skein.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block))
            load.block_id = created.block.block_id
            yield load

    @property
    def kinds(self) -> dict[str, Callable[[int], Awaitable[None]]]:
        """Return every kind of call, in the order in which they take turns."""
        return {
            "remember": self._remember,
            "recall": self._recall,
            "get": self._get,
            "append": self._append,
            "context": self._context,
            "batch": self._batch,
            "list": self._list,
            "link": self._link,
            "block": self._block,
            "mcp": self._mcp,
            "http": self._http,
            "pc2": self._pc2,
            "watch": self._watch,
            "follow": self._follow,
        }

    async def caller(self) -> None:
        """Call one thing after the other until cancelled; errors are counted."""
        kinds = list(self.kinds.items())
        while True:
            number = next(self.numbers)
            name, turn = kinds[number % len(kinds)]
            started = time.perf_counter()
            try:
                await turn(number)
            except (SkeinError, httpx.HTTPError, zmq.Again, AssertionError) as error:
                self.errors[f"{name}: {type(error).__name__}"] += 1
            self.calls[name] += 1
            if name not in {"watch", "follow"}:
                self.latencies.append(time.perf_counter() - started)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def listener(self) -> None:
        """Hear of everything, on a stream that lasts."""
        async for _ in self.skein.stream_changes():
            self.event_count += 1

    async def _remember(self, number: int) -> None:
        response = await self.skein.remember(
            [self.material.memory()], messages=[self.material.message()], session_id=_session(number)
        )
        self._learn(memory.memory_id for memory in response.memories)

    def _learn(self, memory_ids: Any) -> None:
        self.memory_ids.extend(memory_ids)
        del self.memory_ids[:-_KNOWN]

    async def _recall(self, _number: int) -> None:
        await self.skein.recall(self.material.question())

    async def _context(self, _number: int) -> None:
        await self.skein.build_context(self.material.question(), token_budget=500)

    async def _get(self, number: int) -> None:
        if self.memory_ids:
            name = self.memory_ids[number % len(self.memory_ids)]
            await self.skein.memories.GetMemory(memory_pb2.GetMemoryRequest(memory_id=name))

    async def _batch(self, _number: int) -> None:
        request = memory_pb2.BatchCreateMemoriesRequest(memories=[self.material.memory() for _ in range(5)])
        self._learn(memory.memory_id for memory in (await self.skein.memories.BatchCreateMemories(request)).memories)

    async def _append(self, number: int) -> None:
        await self.skein.sessions.AppendMessages(
            session_pb2.AppendMessagesRequest(
                session_id=_session(number), messages=[self.material.message()], create_session=True
            )
        )

    async def _list(self, _number: int) -> None:
        await self.skein.memories.ListMemories(memory_pb2.ListMemoriesRequest(page_size=50))

    async def _link(self, number: int) -> None:
        if len(self.memory_ids) > 1:
            one, other = self.memory_ids[-1], self.memory_ids[number % (len(self.memory_ids) - 1)]
            link = memory_pb2.Link(from_memory_id=one, to_memory_id=other, relation=f"soak_{number}")
            await self.skein.links.CreateLink(memory_pb2.CreateLinkRequest(link=link))

    async def _block(self, number: int) -> None:
        if number % _LINES:
            request = blocks_pb2.AppendToBlockRequest(block_id=self.block_id, text=f"line {number}\n")
            await self.skein.blocks.AppendToBlock(request)
            return
        change = blocks_pb2.UpdateBlockRequest(block=blocks_pb2.Block(block_id=self.block_id, value="begun\n"))
        change.update_mask.paths.append("value")
        await self.skein.blocks.UpdateBlock(change)

    async def _mcp(self, number: int) -> None:
        if number % 2:
            await self.mcp.call("recall", query=self.material.question())
        else:
            await self.mcp.call("remember", content=self.material.memory().content)

    async def _http(self, _number: int) -> None:
        answer = await self.http.post("/skein.memory.v1.MemoryService/ListMemories", json={"pageSize": 10})
        answer.raise_for_status()

    async def _pc2(self, number: int) -> None:
        # A socket for each: those of assistants come and go.
        socket = self.context.socket(zmq.REQ)
        try:
            socket.setsockopt(zmq.LINGER, 0)
            socket.setsockopt(zmq.RCVTIMEO, _ANSWER_MILLISECONDS)
            socket.connect(f"tcp://{self.pc2}")
            content = {"text": self.material.memory().content, "source_agent": "CoordinatorAgent"}
            payload = {"memory_type": "conversation", "content": content, "tags": ["soak"], "priority": 5}
            message = {"action": "create", "payload": payload, "session_id": _session(number)}
            await socket.send(json.dumps(message).encode())
            answer = json.loads(await socket.recv())
            assert answer.get("status") in {"success", "ok"}, answer
        finally:
            socket.close()

    async def _watch(self, _number: int) -> None:
        changes = self.skein.history.StreamChanges(history_pb2.StreamChangesRequest(), timeout=_LISTEN_SECONDS)
        await self._heard_of(changes)

    async def _follow(self, number: int) -> None:
        request = session_pb2.StreamMessagesRequest(session_id=_session(number - number % 14 + 3))
        await self._heard_of(self.skein.sessions.StreamMessages(request, timeout=_LISTEN_SECONDS))

    async def _heard_of(self, messages: Any) -> None:
        """Listen until something is said or the time is over, then hang up."""
        with suppress(SkeinError):
            async with aclosing(messages) as stream:
                async for _ in stream:
                    self.event_count += 1
                    return


def _session(number: int) -> str:
    return f"soak-{number % _SESSIONS}"
