"""Listeners who do not read: what they cost, and what they miss."""

from __future__ import annotations

import asyncio
from typing import Any

from fix_cluster import Tenant
from fix_metrics import counted
from grpc import aio

from skein.session.v1 import session_pb2 as pb

MESSAGES = 300
LETTERS = 50_000


async def test_a_follower_who_does_not_read_holds_nothing_and_hears_all_when_it_does(tenant: Tenant) -> None:
    """More than fits into what gRPC and the sockets keep on the way."""
    await _say(tenant, 0, "x")
    call: Any = tenant.sessions.StreamMessages(pb.StreamMessagesRequest(session_id="long", after_sequence=0))
    assert await call.read() is not aio.EOF
    for number in range(1, MESSAGES, 20):
        await _say(tenant, number, "x" * LETTERS, count=20)

    async with asyncio.timeout(30):
        while _busy():
            await asyncio.sleep(0.05)
    received: list[int] = []
    async with asyncio.timeout(60):
        while len(received) < MESSAGES - MESSAGES % 20 + 1:
            answer = await call.read()
            received += [answer.sequence] if answer.HasField("message") else []
    call.cancel()

    assert received == sorted(set(received))


async def _say(tenant: Tenant, number: int, content: str, *, count: int = 1) -> None:
    messages = [
        pb.Message(role=pb.MESSAGE_ROLE_USER, content=f"{number + offset} {content}") for offset in range(count)
    ]
    await tenant.sessions.AppendMessages(
        pb.AppendMessagesRequest(session_id="long", create_session=True, messages=messages)
    )


def _busy() -> float:
    """Return how many connections to the database the session service is using."""
    return counted("skein_database_pool_connections", service="session", state="busy")
