"""Writers and readers of a fleet, which keep what was acknowledged and compare it with what is there."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import Message

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein_client.client import Client
from skein_client.errors import SkeinError
from skein_client.retry import TRANSIENT, is_retriable

_USER = session_pb2.MESSAGE_ROLE_USER
_BATCH = 3
_AT_ONCE = 500
# Between a refused call and its repetition.
_PAUSE_SECONDS = 0.05


@dataclass
class Write:
    """One call that changes something; it has an answer once it was acknowledged."""

    method: str
    request: Any
    answer: Any = None

    @property
    def memory_ids(self) -> list[str]:
        """Return the external ids of the memories that it writes."""
        return [memory.external_id for memory in getattr(self.request, "memories", ())]


@dataclass
class Load:
    """Callers that call one thing after the other, each with a session of its own."""

    client: Client
    name: str
    callers: int = 4
    reads: bool = True
    # Callers repeat a call that is refused with an error after which a repetition is allowed, as applications do. An
    # incomplete recall is an answer then.
    repeats: bool = False
    writes: list[Write] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    # What was repeated.
    refusals: list[SkeinError] = field(default_factory=list)
    # Calls that each caller has made, and been answered.
    counts: list[int] = field(default_factory=list)
    # Of each call, repetitions included, in seconds; and when it began, by the clock of `time.perf_counter`.
    latencies: list[float] = field(default_factory=list)
    begins: list[float] = field(default_factory=list)
    stopping: bool = False
    numbers: defaultdict[int, itertools.count[int]] = field(default_factory=lambda: defaultdict(itertools.count))

    @property
    def acknowledged(self) -> list[Write]:
        return [write for write in self.writes if write.answer is not None]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Load]:
        """Call until the block ends; each caller finishes the call that it is at."""
        self.stopping = False
        self.counts = [0] * self.callers
        async with asyncio.TaskGroup() as group:
            for caller in range(self.callers):
                group.create_task(self._calling(caller))
            try:
                yield self
            finally:
                self.stopping = True

    async def further(self, calls: int) -> None:
        """Wait until every caller has been answered so many times more, errors included."""
        wanted = [count + calls for count in self.counts]
        async with asyncio.timeout(200):
            while any(count < least for count, least in zip(self.counts, wanted, strict=True)):
                await asyncio.sleep(0.005)

    async def _calling(self, caller: int) -> None:
        turns: list[Callable[[int, str], Awaitable[object]]] = [self._create, self._remember, self._append]
        if self.reads:
            turns += [self._get, self._recall, self._list]
        for number in self.numbers[caller]:
            if self.stopping:
                return
            started = time.perf_counter()
            try:
                await turns[number % len(turns)](caller, f"{self.name}-{caller}-{number}")
            except SkeinError as error:
                self.errors.append(f"{turns[number % len(turns)].__name__}: {error!r}")
            self.latencies.append(time.perf_counter() - started)
            self.begins.append(started)
            self.counts[caller] += 1

    async def _written(self, method: str, request: Message) -> None:
        write = Write(method, request)
        self.writes.append(write)
        write.answer = await self._repeated(lambda: self.do(write))

    async def do(self, write: Write) -> Any:
        """Make the call of a write, again if it was made before."""
        stubs = {"Remember": self.client.gateway, "AppendMessages": self.client.sessions}
        return await getattr(stubs.get(write.method, self.client.memories), write.method)(write.request)

    async def _create(self, _caller: int, key: str) -> None:
        memories = _memories(key, _BATCH)
        await self._written(
            "BatchCreateMemories", memory_pb2.BatchCreateMemoriesRequest(memories=memories, request_id=key)
        )

    async def _remember(self, caller: int, key: str) -> None:
        request = gateway_pb2.RememberRequest(
            memories=_memories(key, 2), messages=_messages(key), session_id=self.session(caller), request_id=key
        )
        await self._written("Remember", request)

    async def _append(self, caller: int, key: str) -> None:
        request = session_pb2.AppendMessagesRequest(
            session_id=self.session(caller), messages=_messages(key), create_session=True, request_id=key
        )
        await self._written("AppendMessages", request)

    async def _get(self, caller: int, _key: str) -> None:
        """Read the newest that this caller wrote: what was acknowledged is there, whoever answers."""
        own = f"{self.name}-{caller}-"
        newest = next((w for w in reversed(self.acknowledged) if w.request.request_id.startswith(own)), None)
        if newest is not None and newest.memory_ids:
            request = memory_pb2.GetMemoryRequest(memory_id=newest.memory_ids[0])
            await self._repeated(lambda: self.client.memories.GetMemory(request))

    async def _recall(self, _caller: int, _key: str) -> None:
        answer = await self._repeated(lambda: self.client.recall("What was written?", limit=3))
        if answer.incomplete and not self.repeats:
            self.errors.append(f"recall without {list(answer.incomplete)}")

    async def _list(self, _caller: int, _key: str) -> None:
        request = memory_pb2.ListMemoriesRequest(page_size=10)
        await self._repeated(lambda: self.client.memories.ListMemories(request))

    async def _repeated(self, call: Callable[[], Awaitable[Any]]) -> Any:
        while True:
            try:
                return await call()
            except SkeinError as error:
                if not (self.repeats and is_retriable(error, TRANSIENT)):
                    raise
                self.refusals.append(error)
                await asyncio.sleep(_PAUSE_SECONDS + (error.retry_after or 0.0))

    def session(self, caller: int) -> str:
        return f"{self.name}-{caller}"

    async def missing(self) -> list[str]:
        """Return the memories that were acknowledged and are not there."""
        return await self._absent([each for write in self.acknowledged for each in write.memory_ids])

    async def halves(self) -> list[str]:
        """Return the batches of which a part is there."""
        absent = set(await self._absent([each for write in self.writes for each in write.memory_ids]))
        states = {write.request.request_id: [each in absent for each in write.memory_ids] for write in self.writes}
        return [request_id for request_id, absences in states.items() if len(set(absences)) > 1]

    async def differing(self, *, newest: int = 12) -> list[str]:
        """Repeat each caller's newest writes; return those that are answered otherwise than the first time."""
        found: list[str] = []
        for caller in range(self.callers):
            own = [w for w in self.acknowledged if w.request.request_id.startswith(f"{self.name}-{caller}-")]
            found += [w.request.request_id for w in own[-newest:] if _effect(await self.do(w)) != _effect(w.answer)]
        return found

    async def transcripts(self) -> tuple[list[list[str]], list[list[str]]]:
        """Return what the callers' sessions hold, and what they were told, in order."""
        held, told = [], []
        for caller in range(self.callers):
            name = self.session(caller)
            held.append([message.content async for message in self.client.list_messages(name)])
            ours = [write for write in self.acknowledged if getattr(write.request, "session_id", "") == name]
            told.append([message.content for write in ours for message in write.request.messages])
        return held, told

    async def _absent(self, memory_ids: list[str]) -> list[str]:
        found: list[str] = []
        for start in range(0, len(memory_ids), _AT_ONCE):
            part = memory_ids[start : start + _AT_ONCE]
            answer = await self.client.memories.BatchGetMemories(memory_pb2.BatchGetMemoriesRequest(memory_ids=part))
            found += answer.not_found_ids
        return found


def _memories(key: str, count: int) -> list[memory_pb2.Memory]:
    return [memory_pb2.Memory(external_id=f"{key}-{n}", content=f"written as {key}, part {n}") for n in range(count)]


def _messages(key: str) -> list[session_pb2.Message]:
    return [session_pb2.Message(role=_USER, content=f"said at {key}, line {n}") for n in range(2)]


def _effect(answer: Any) -> tuple[list[str], list[tuple[str, int]]]:
    """Return what an answer says was made."""
    memories = [memory.memory_id for memory in getattr(answer, "memories", ())]
    return memories, [(message.message_id, message.sequence) for message in getattr(answer, "messages", ())]
