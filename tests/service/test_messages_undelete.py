"""A deleted message comes back to its place, and is found as before."""

from __future__ import annotations

import uuid

import grpc
from fix_cluster import Tenant, refused

from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2 as pb
from skein.session.v1 import states_pb2


async def append(tenant: Tenant, *contents: str) -> list[str]:
    messages = [pb.Message(role=pb.MESSAGE_ROLE_USER, content=content, external_id=content) for content in contents]
    request = pb.AppendMessagesRequest(session_id="s", messages=messages, create_session=True)
    return [message.message_id for message in (await tenant.sessions.AppendMessages(request)).messages]


async def listed(tenant: Tenant) -> list[str]:
    answer = await tenant.sessions.ListMessages(pb.ListMessagesRequest(session_id="s"))
    return [message.content for message in answer.messages]


async def count(tenant: Tenant) -> int:
    read = await tenant.sessions.GetSession(pb.GetSessionRequest(session_id="s"))
    return read.session.message_count


async def test_an_undeleted_message_is_back_in_its_place_in_the_count_and_in_searches(tenant: Tenant) -> None:
    _, kettle, _ = await append(tenant, "first", "the red kettle", "last")
    before = (await tenant.sessions.GetMessage(pb.GetMessageRequest(message_id=kettle))).message
    await tenant.sessions.DeleteMessage(pb.DeleteMessageRequest(message_id=kettle))
    deleted = (await listed(tenant), await count(tenant))

    back = await tenant.sessions.UndeleteMessage(pb.UndeleteMessageRequest(message_id=kettle))

    assert deleted == (["first", "last"], 2)
    assert back.message == before
    assert (await listed(tenant), await count(tenant)) == (["first", "the red kettle", "last"], 3)
    recalled = await tenant.recall.Recall(recall_pb2.RecallRequest(query="kettle", mode=recall_pb2.SEARCH_MODE_KEYWORD))
    assert [hit.item_id for hit in recalled.hits] == [kettle]


async def test_undeleting_by_the_external_id_and_again_changes_nothing_more(tenant: Tenant) -> None:
    await append(tenant, "hello")
    await tenant.sessions.DeleteMessage(pb.DeleteMessageRequest(message_id="hello"))
    request = pb.UndeleteMessageRequest(message_id="hello")

    first = await tenant.sessions.UndeleteMessage(request)
    again = await tenant.sessions.UndeleteMessage(request)

    assert again.message == first.message
    assert (await listed(tenant), await count(tenant)) == (["hello"], 1)


async def test_what_was_never_there_or_is_purged_is_not_undeleted(tenant: Tenant) -> None:
    (message_id,) = await append(tenant, "hello")
    await tenant.sessions.PurgeMessages(states_pb2.PurgeMessagesRequest(message_ids=[message_id]))

    for name in (message_id, str(uuid.uuid4()), "nothing"):
        with refused(grpc.StatusCode.NOT_FOUND, "MESSAGE_NOT_FOUND"):
            await tenant.sessions.UndeleteMessage(pb.UndeleteMessageRequest(message_id=name))


async def test_a_message_of_a_deleted_session_stays_deleted(tenant: Tenant) -> None:
    await append(tenant, "hello")
    await tenant.sessions.DeleteMessage(pb.DeleteMessageRequest(message_id="hello"))
    await tenant.sessions.DeleteSession(pb.DeleteSessionRequest(session_id="s"))

    with refused(grpc.StatusCode.NOT_FOUND, "MESSAGE_NOT_FOUND"):
        await tenant.sessions.UndeleteMessage(pb.UndeleteMessageRequest(message_id="hello"))
