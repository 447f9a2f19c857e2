"""Writers that go on whatever breaks: each repeats a refused request under its request_id, and counts what was said.

What they wrote is read back whole, so that a write that was lost, done twice or done by half shows.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from fix_cluster import Stubs
from grpc import aio
from grpc_status import rpc_status

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import blocks_pb2, memory_pb2
from skein.session.v1 import session_pb2
from skein_kit.errors import status_reason

SIZE = 4
_SAID, _TOLD = "said", "told"
# Between two tries of a refused request.
_PAUSE_SECONDS = 0.02


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of write."""

    request: Callable[[int], Any]
    call: Callable[[Stubs], Any]


def _memory(content: str) -> memory_pb2.Memory:
    return memory_pb2.Memory(content=content)


def _messages(word: str, number: int) -> list[session_pb2.Message]:
    return [
        session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=f"{word} {number}.{part}")
        for part in range(SIZE)
    ]


def _of(blocks: str, ends: tuple[str, str]) -> dict[str, Kind]:
    return {
        "one": Kind(
            request=lambda n: memory_pb2.CreateMemoryRequest(memory=_memory(f"one {n}")),
            call=lambda stubs: stubs.memory.CreateMemory,
        ),
        "batch": Kind(
            request=lambda n: memory_pb2.BatchCreateMemoriesRequest(
                memories=[_memory(f"batch {n}.{part}") for part in range(SIZE)]
            ),
            call=lambda stubs: stubs.memory.BatchCreateMemories,
        ),
        _SAID: Kind(
            request=lambda n: session_pb2.AppendMessagesRequest(
                session_id=_SAID, create_session=True, messages=_messages(_SAID, n)
            ),
            call=lambda stubs: stubs.sessions.AppendMessages,
        ),
        _TOLD: Kind(
            request=lambda n: gateway_pb2.RememberRequest(
                session_id=_TOLD, messages=_messages(_TOLD, n), memories=[_memory(f"known {n}")]
            ),
            call=lambda stubs: stubs.gateway.Remember,
        ),
        "link": Kind(
            request=lambda n: memory_pb2.CreateLinkRequest(
                link=memory_pb2.Link(from_memory_id=ends[0], to_memory_id=ends[1], relation=f"relation_{n}")
            ),
            call=lambda stubs: stubs.links.CreateLink,
        ),
        "block": Kind(
            request=lambda n: blocks_pb2.AppendToBlockRequest(block_id=blocks, text=f"line-{n}\n"),
            call=lambda stubs: stubs.blocks.AppendToBlock,
        ),
    }


@dataclass
class Writers:
    """One writer of each kind, in one tenant."""

    stubs: Stubs
    kinds: dict[str, Kind]
    block_id: str
    ends: tuple[str, str]
    seconds: float
    # What was acknowledged, by kind: requests and their answers, in order.
    done: dict[str, list[tuple[Any, Any]]] = field(default_factory=dict)
    # What was refused, by code and reason.
    refusals: Counter[tuple[grpc.StatusCode, str]] = field(default_factory=Counter)
    longest_seconds: float = 0.0

    @classmethod
    async def of(cls, stubs: Stubs, *, seconds: float = 10.0) -> Writers:
        """Make what the writers write to; each call gets so many seconds."""
        made = await stubs.memory.BatchCreateMemories(
            memory_pb2.BatchCreateMemoriesRequest(memories=[_memory("one end"), _memory("the other end")])
        )
        one, other = [memory.memory_id for memory in made.memories]
        block = blocks_pb2.Block(label="lines", limit=100_000)
        block_id = (await stubs.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block))).block.block_id
        return cls(stubs, _of(block_id, (one, other)), block_id, (one, other), seconds)

    def first(self, kind: str) -> tuple[Any, Any]:
        """Return a kind's call, and its first request."""
        request = self.kinds[kind].request(0)
        request.request_id = f"{kind}-0"
        return self.kinds[kind].call(self.stubs), request

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Write until the block ends; each writer then finishes what it began."""
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for name in self.kinds:
                group.create_task(self._write(name, stop))
            try:
                yield
            finally:
                stop.set()

    async def more(self, count: int, *, seconds: float = 60.0) -> None:
        """Wait until every writer has written so many more."""
        targets = {name: len(self.done.get(name, ())) + count for name in self.kinds}
        async with asyncio.timeout(seconds):
            while any(len(self.done.get(name, ())) < most for name, most in targets.items()):
                await asyncio.sleep(0.01)

    async def refused(self, count: int, *, seconds: float = 60.0) -> None:
        """Wait until so many more requests were refused."""
        most = self.refusals.total() + count
        async with asyncio.timeout(seconds):
            while self.refusals.total() < most:
                await asyncio.sleep(0.01)

    async def _write(self, name: str, stop: asyncio.Event) -> None:
        kind, done = self.kinds[name], self.done.setdefault(name, [])
        call, number = kind.call(self.stubs), len(done)
        while not stop.is_set():
            request = kind.request(number)
            request.request_id = f"{name}-{number}"
            done.append((request, await self._insist(call, request)))
            number += 1

    async def _insist(self, call: Any, request: Any) -> Any:
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            try:
                return await call(request, timeout=self.seconds)
            except aio.AioRpcError as error:
                self.longest_seconds = max(self.longest_seconds, loop.time() - started)
                status = rpc_status.from_call(error)  # type: ignore[arg-type]  # It reads three methods that both have.
                self.refusals[error.code(), status_reason(status) if status else ""] += 1
                await asyncio.sleep(_PAUSE_SECONDS)

    async def replay(self) -> None:
        """Send every request once more: each gets its first answer."""
        for name, done in self.done.items():
            call = self.kinds[name].call(self.stubs)
            for request, response in done[-10:]:
                assert _kept(await call(request, timeout=self.seconds)) == _kept(response), name

    async def must_be_whole(self) -> None:
        """Read everything back: every write is there once, and none by half."""
        count = {name: len(self.done.get(name, ())) for name in self.kinds}
        expected = Counter(
            [
                "one end",
                "the other end",
                *(f"one {n}" for n in range(count["one"])),
                *(f"batch {n}.{part}" for n in range(count["batch"]) for part in range(SIZE)),
                *(f"known {n}" for n in range(count[_TOLD])),
            ]
        )
        assert Counter(await self._memories()) == expected
        for word in (_SAID, _TOLD):
            assert await self._said(word) == [f"{word} {n}.{part}" for n in range(count[word]) for part in range(SIZE)]
        assert await self._relations() == Counter(f"relation_{n}" for n in range(count["link"]))
        block = await self.stubs.blocks.GetBlock(blocks_pb2.GetBlockRequest(block_id=self.block_id))
        assert block.block.value.split() == [f"line-{n}" for n in range(count["block"])]

    async def _memories(self) -> list[str]:
        results, token = [], ""
        while True:
            request = memory_pb2.ListMemoriesRequest(page_size=1000, page_token=token)
            page = await self.stubs.memory.ListMemories(request)
            results += [memory.content for memory in page.memories]
            token = page.next_page_token
            if not token:
                return results

    async def _said(self, session_id: str) -> list[str]:
        if session_id not in self.done:
            return []
        results, token = [], ""
        while True:
            request = session_pb2.ListMessagesRequest(session_id=session_id, page_size=1000, page_token=token)
            page = await self.stubs.sessions.ListMessages(request)
            results += [message.content for message in page.messages]
            token = page.next_page_token
            if not token:
                return results

    async def _relations(self) -> Counter[str]:
        results, token = Counter[str](), ""
        while True:
            request = memory_pb2.ListLinksRequest(memory_id=self.ends[0], page_size=1000, page_token=token)
            page = await self.stubs.links.ListLinks(request)
            results.update(link.relation for link in page.links if link.relation.startswith("relation_"))
            token = page.next_page_token
            if not token:
                return results


def _kept(response: Any) -> Any:
    """Return an answer without what is no part of the effect: how far the vectors are."""
    copy = type(response)()
    copy.CopyFrom(response)
    for name in ("pending_embedding_count", "embedding_pending"):
        if name in copy.DESCRIPTOR.fields_by_name:
            copy.ClearField(name)
    return copy
