"""The data that is measured with: one tenant's memories and messages, and tables as they are after some hours."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import asyncpg
from bench.subject import Subject
from bench.ways import Material

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein_client.client import Client

_SEED = 1
# What a call writes; the vectors of so many are made before it returns.
_AT_ONCE = 16
_WRITERS = 2
_TIMEOUT = 60.0
_PENDING_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class SeededTenant:
    """A tenant with data."""

    tenant_id: uuid.UUID
    memory_ids: tuple[str, ...]


async def moved_in(subject: Subject, *, memories: int, messages: int) -> SeededTenant:
    """Store so many memories and messages through the gateway, and wait until each has its vector."""
    material = Material((), _SEED)
    memory_ids: list[str] = []
    async with Client(endpoint=subject.addresses["gateway"], api_key=subject.api_key, timeout=_TIMEOUT) as skein:

        async def remember() -> None:
            batch = [material.memory() for _ in range(_AT_ONCE)]
            response = await skein.memories.BatchCreateMemories(
                memory_pb2.BatchCreateMemoriesRequest(memories=batch), timeout=_TIMEOUT
            )
            memory_ids.extend(memory.memory_id for memory in response.memories)

        sessions = itertools.count()

        async def talk() -> None:
            batch = [material.message() for _ in range(_AT_ONCE)]
            await skein.sessions.AppendMessages(
                session_pb2.AppendMessagesRequest(
                    session_id=f"household-{next(sessions)}", messages=batch, create_session=True
                ),
                timeout=_TIMEOUT,
            )

        me = await skein.auth.GetMe(auth_pb2.GetMeRequest())
        await _times(remember, memories // _AT_ONCE)
        await _times(talk, messages // _AT_ONCE)
    await settled(subject)
    return SeededTenant(tenant_id=uuid.UUID(me.tenant_id), memory_ids=tuple(memory_ids))


async def settled(subject: Subject, *, seconds: float = _PENDING_SECONDS) -> None:
    """Wait for the backlog, then bring statistics and visibility up to date, as autovacuum does sooner or later."""
    connection = await asyncpg.connect(subject.database_url)
    try:
        async with asyncio.timeout(seconds):
            while await connection.fetchval("SELECT count(*) FROM recall.documents WHERE pending"):
                await asyncio.sleep(0.25)
        await connection.execute("VACUUM (ANALYZE)")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()


async def _times(work: Callable[[], Awaitable[None]], count: int) -> None:
    remaining = itertools.count(count, -1)

    async def worker() -> None:
        while next(remaining) > 0:
            await work()

    async with asyncio.TaskGroup() as group:
        for _ in range(_WRITERS):
            group.create_task(worker())
