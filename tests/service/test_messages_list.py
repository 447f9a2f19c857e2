"""ListMessages and DeleteMessage: the transcript, both ways, while it grows and shrinks."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from fix_cluster import Tenant, refused

from skein.session.v1 import session_pb2 as pb

NO_MESSAGE = (grpc.StatusCode.NOT_FOUND, "MESSAGE_NOT_FOUND")


async def append(tenant: Tenant, *contents: str, session_id: str = "s") -> list[pb.Message]:
    messages = [pb.Message(role=pb.MESSAGE_ROLE_USER, content=content) for content in contents]
    request = pb.AppendMessagesRequest(session_id=session_id, messages=messages, create_session=True)
    return list((await tenant.sessions.AppendMessages(request)).messages)


async def page(
    tenant: Tenant, token: str = "", *, size: int = 3, newest_first: bool = False
) -> pb.ListMessagesResponse:
    return await tenant.sessions.ListMessages(
        pb.ListMessagesRequest(session_id="s", page_size=size, page_token=token, newest_first=newest_first)
    )


async def delete(tenant: Tenant, message_id: str) -> None:
    await tenant.sessions.DeleteMessage(pb.DeleteMessageRequest(message_id=message_id))


async def test_pages_go_forward_while_messages_are_appended(tenant: Tenant) -> None:
    await append(tenant, *(f"m{number}" for number in range(1, 8)))

    seen: list[int] = []
    token = ""
    for _ in range(20):
        answer = await page(tenant, token)
        seen += [message.sequence for message in answer.messages]
        token = answer.next_page_token
        if not token:
            break
        if len(seen) < 12:
            await append(tenant, "one more", "and another")

    assert seen == list(range(1, 14))


async def test_pages_go_back_while_messages_are_appended(tenant: Tenant) -> None:
    await append(tenant, *(f"m{number}" for number in range(1, 9)))

    pages: list[list[int]] = []
    token = ""
    while True:
        answer = await page(tenant, token, newest_first=True)
        pages.append([message.sequence for message in answer.messages])
        token = answer.next_page_token
        await append(tenant, "one more")
        if not token:
            break

    assert pages == [[8, 7, 6], [5, 4, 3], [2, 1]]


async def test_a_list_that_fits_has_no_second_page(tenant: Tenant) -> None:
    await append(tenant, "a", "b", "c")

    assert not (await page(tenant, size=3)).next_page_token
    assert (await page(tenant, size=2)).next_page_token


async def test_an_empty_session_has_no_messages_and_an_unknown_one_is_refused(tenant: Tenant) -> None:
    await tenant.sessions.CreateSession(pb.CreateSessionRequest(session=pb.Session(session_id="s")))

    assert not (await page(tenant)).messages
    with refused(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"):
        await tenant.sessions.ListMessages(pb.ListMessagesRequest(session_id="unknown"))


@pytest.mark.system
async def test_a_page_ends_early_rather_than_outgrow_the_client(tenant: Tenant) -> None:
    for number in range(5):
        await append(tenant, *[f"{number} " + "long " * 19_000] * 10)

    first = await page(tenant, size=1000)
    sizes = [len(first.messages)]
    token = first.next_page_token
    while token:
        answer = await page(tenant, token, size=1000)
        sizes.append(len(answer.messages))
        token = answer.next_page_token

    assert first.ByteSize() < 4 * 1024 * 1024
    assert len(sizes) > 1
    assert sum(sizes) == 50


async def test_a_deleted_message_is_gone_and_the_others_keep_their_numbers(tenant: Tenant) -> None:
    stored = await append(tenant, "a", "b", "c", "d", "e")

    await delete(tenant, stored[1].message_id)
    await delete(tenant, stored[2].message_id)

    assert [message.sequence for message in (await page(tenant)).messages] == [1, 4, 5]
    assert [message.sequence for message in (await page(tenant, newest_first=True)).messages] == [5, 4, 1]
    with refused(*NO_MESSAGE):
        await tenant.sessions.GetMessage(pb.GetMessageRequest(message_id=stored[1].message_id))
    with refused(*NO_MESSAGE):
        await delete(tenant, stored[1].message_id)
    session = (await tenant.sessions.GetSession(pb.GetSessionRequest(session_id="s"))).session
    assert (session.message_count, session.last_sequence) == (3, 5)
    assert [message.sequence for message in await append(tenant, "f")] == [6]


async def test_a_message_is_deleted_by_its_external_id_which_stays_taken(tenant: Tenant) -> None:
    message = pb.Message(role=pb.MESSAGE_ROLE_USER, content="a", external_id="e-1")
    request = pb.AppendMessagesRequest(session_id="s", messages=[message], create_session=True)
    await tenant.sessions.AppendMessages(request)

    await delete(tenant, "e-1")

    with refused(*NO_MESSAGE):
        await tenant.sessions.GetMessage(pb.GetMessageRequest(message_id="e-1"))
    with refused(grpc.StatusCode.ALREADY_EXISTS, "EXTERNAL_ID_TAKEN"):
        await tenant.sessions.AppendMessages(request)


async def test_a_message_is_deleted_once_however_many_try(tenant: Tenant) -> None:
    stored = await append(tenant, "a", "b")

    async def attempt() -> bool:
        try:
            await delete(tenant, stored[0].message_id)
        except grpc.aio.AioRpcError as error:
            assert error.code() is grpc.StatusCode.NOT_FOUND  # noqa: PT017 - a refusal is one of two right answers.
            return False
        return True

    results = await asyncio.gather(*(attempt() for _ in range(5)))

    assert sum(results) == 1
    session = (await tenant.sessions.GetSession(pb.GetSessionRequest(session_id="s"))).session
    assert session.message_count == 1


async def test_the_messages_of_a_deleted_session_are_gone(tenant: Tenant) -> None:
    (message,) = await append(tenant, "a")

    await tenant.sessions.DeleteSession(pb.DeleteSessionRequest(session_id="s"))

    with refused(*NO_MESSAGE):
        await tenant.sessions.GetMessage(pb.GetMessageRequest(message_id=message.message_id))
    with refused(*NO_MESSAGE):
        await delete(tenant, message.message_id)


@pytest.mark.system
async def test_appends_and_deletions_at_once_keep_the_count_right(tenant: Tenant) -> None:
    first = await append(tenant, *(f"m{number}" for number in range(12)))

    await asyncio.gather(
        *(delete(tenant, message.message_id) for message in first[::2]), *(append(tenant, "x", "y") for _ in range(6))
    )

    session = (await tenant.sessions.GetSession(pb.GetSessionRequest(session_id="s"))).session
    listed = (await page(tenant, size=1000)).messages
    assert (session.message_count, session.last_sequence) == (18, 24)
    assert len(listed) == 18
