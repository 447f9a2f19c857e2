"""Following a session: its messages in order, as they are said, until it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from fix_cluster import Tenant, refused

from skein.session.v1 import session_pb2 as pb

SECONDS = 60.0


async def opened(tenant: Tenant) -> str:
    return (await tenant.sessions.CreateSession(pb.CreateSessionRequest())).session.session_id


async def say(tenant: Tenant, session_id: str, *texts: str) -> list[pb.Message]:
    messages = [pb.Message(role=pb.MESSAGE_ROLE_USER, content=text) for text in texts]
    request = pb.AppendMessagesRequest(session_id=session_id, messages=messages)
    return list((await tenant.sessions.AppendMessages(request)).messages)


class Stream:
    """A stream that is read with a limit of time."""

    def __init__(self, call: Any) -> None:
        self.call = call
        self.sequence = -1

    async def answer(self) -> pb.StreamMessagesResponse | None:
        """Return the next answer; None when the stream has ended well."""
        answer = await asyncio.wait_for(self.call.read(), SECONDS)
        if answer is grpc.aio.EOF:
            return None
        self.sequence = answer.sequence
        result: pb.StreamMessagesResponse = answer
        return result

    async def texts(self, count: int) -> list[str]:
        """Return what the next messages say, passing over heartbeats; fewer when the stream ends."""
        results: list[str] = []
        while len(results) < count and (answer := await self.answer()) is not None:
            if answer.HasField("message"):
                results.append(answer.message.content)
        return results


@asynccontextmanager
async def streaming(tenant: Tenant, session_id: str, after: int | None = None) -> AsyncIterator[Stream]:
    """Follow until the block ends; the stream has begun when the block does."""
    request = pb.StreamMessagesRequest(session_id=session_id, after_sequence=after)
    stream = Stream(tenant.sessions.StreamMessages(request))
    try:
        first = await stream.answer()
        assert first is not None
        assert not first.HasField("message")
        yield stream
    finally:
        stream.call.cancel()


async def test_new_messages_are_sent_in_order(tenant: Tenant) -> None:
    session_id = await opened(tenant)
    await say(tenant, session_id, "before")

    async with streaming(tenant, session_id) as stream:
        await say(tenant, session_id, "one", "two")
        await say(tenant, session_id, "three")

        assert await stream.texts(3) == ["one", "two", "three"]
        assert stream.sequence == 4


async def test_a_stream_is_resumed_from_a_sequence_number(tenant: Tenant) -> None:
    session_id = await opened(tenant)
    await say(tenant, session_id, *(f"message {number}" for number in range(1, 101)))

    async with streaming(tenant, session_id, after=0) as stream:
        first = await stream.texts(40)
    async with streaming(tenant, session_id, after=stream.sequence) as stream:
        rest = await stream.texts(60)

    assert first + rest == [f"message {number}" for number in range(1, 101)]


@pytest.mark.system
async def test_messages_of_any_size_are_sent_one_after_the_other(tenant: Tenant) -> None:
    session_id = await opened(tenant)
    for portion in range(4):
        await say(tenant, session_id, *(f"{portion} {number} " + "🙂" * 90_000 for number in range(8)))

    async with streaming(tenant, session_id, after=0) as stream:
        texts = await stream.texts(32)

    assert [text[:4] for text in texts] == [f"{portion} {number} " for portion in range(4) for number in range(8)]
    assert stream.sequence == 32


@pytest.mark.system
async def test_concurrent_appenders_are_heard_in_the_session_s_own_order(tenant: Tenant) -> None:
    session_id = await opened(tenant)

    async with streaming(tenant, session_id) as stream:
        await asyncio.gather(*(say(tenant, session_id, f"{name} 1", f"{name} 2") for name in "abcdefgh"))
        received = await stream.texts(16)

    listed = await tenant.sessions.ListMessages(pb.ListMessagesRequest(session_id=session_id))
    assert received == [message.content for message in listed.messages]


async def test_it_ends_well_when_the_session_has_ended_and_all_was_sent(tenant: Tenant) -> None:
    session_id = await opened(tenant)

    async with streaming(tenant, session_id) as stream:
        await say(tenant, session_id, "goodbye")
        await tenant.sessions.EndSession(pb.EndSessionRequest(session_id=session_id))

        assert await stream.texts(2) == ["goodbye"]
        assert await stream.call.code() is grpc.StatusCode.OK


async def test_an_ended_session_is_sent_and_that_is_all(tenant: Tenant) -> None:
    session_id = await opened(tenant)
    await say(tenant, session_id, "one", "two")
    await tenant.sessions.EndSession(pb.EndSessionRequest(session_id=session_id))

    async with streaming(tenant, session_id, after=0) as stream:
        assert await stream.texts(3) == ["one", "two"]


async def test_deleted_messages_are_passed_over(tenant: Tenant) -> None:
    session_id = await opened(tenant)
    first, _, last = await say(tenant, session_id, "one", "two", "three")
    for message in (first, last):
        await tenant.sessions.DeleteMessage(pb.DeleteMessageRequest(message_id=message.message_id))

    async with streaming(tenant, session_id, after=0) as stream:
        await say(tenant, session_id, "four")

        assert await stream.texts(2) == ["two", "four"]


async def test_a_session_that_is_deleted_ends_its_streams(tenant: Tenant) -> None:
    session_id = await opened(tenant)

    async with streaming(tenant, session_id) as stream:
        await tenant.sessions.DeleteSession(pb.DeleteSessionRequest(session_id=session_id))

        with refused(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"):
            await stream.answer()


@pytest.mark.parametrize("whose", ["nobody", "other"])
async def test_a_session_that_is_not_the_tenant_s_own_is_not_found(
    tenant: Tenant, other_tenant: Tenant, whose: str
) -> None:
    session_id = await opened(other_tenant) if whose == "other" else "invented"

    with refused(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"):
        await tenant.sessions.StreamMessages(pb.StreamMessagesRequest(session_id=session_id)).read()


@pytest.mark.parametrize(
    "fields", [{"session_id": ""}, {"session_id": "x" * 256}, {"session_id": "x", "after_sequence": -1}]
)
async def test_an_invalid_request_is_refused(tenant: Tenant, fields: dict[str, Any]) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.sessions.StreamMessages(pb.StreamMessagesRequest(**fields)).read()


async def test_several_may_follow_one_session_and_one_several(tenant: Tenant) -> None:
    first, second = await opened(tenant), await opened(tenant)

    async with (
        streaming(tenant, first) as one,
        streaming(tenant, first) as other,
        streaming(tenant, second) as elsewhere,
    ):
        await say(tenant, second, "there")
        await say(tenant, first, "here")

        assert [await stream.texts(1) for stream in (one, other, elsewhere)] == [["here"], ["here"], ["there"]]
