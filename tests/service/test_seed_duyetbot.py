"""What Duyetbot's tables mean here: sessions of a person with their counts, and messages with a role."""

from __future__ import annotations

import grpc
from fix_cluster import Tenant, refused

from skein.session.v1 import session_pb2 as pb


async def append(tenant: Tenant, session_id: str, role: pb.MessageRole, *contents: str) -> list[pb.Message]:
    messages = [pb.Message(role=role, content=content) for content in contents]
    request = pb.AppendMessagesRequest(session_id=session_id, messages=messages)
    return list((await tenant.sessions.AppendMessages(request)).messages)


async def test_the_newest_sessions_of_a_person_come_first_each_with_how_many_messages_it_has(tenant: Tenant) -> None:
    for session_id, person in (("one", "ann"), ("two", "ann"), ("three", "bob"), ("four", "ann")):
        session = pb.Session(session_id=session_id, subject_id=person)
        await tenant.sessions.CreateSession(pb.CreateSessionRequest(session=session))
    await append(tenant, "one", pb.MESSAGE_ROLE_USER, "a", "b")

    newest = await tenant.sessions.ListSessions(pb.ListSessionsRequest(subject_id="ann", page_size=2))

    assert [(one.session_id, one.message_count) for one in newest.sessions] == [("one", 2), ("four", 0)]


async def test_a_message_of_each_role_is_stored_and_one_without_a_role_is_refused(
    tenant: Tenant,
) -> None:
    await tenant.sessions.CreateSession(pb.CreateSessionRequest(session=pb.Session(session_id="s")))
    roles = [pb.MESSAGE_ROLE_USER, pb.MESSAGE_ROLE_ASSISTANT, pb.MESSAGE_ROLE_SYSTEM]

    stored = [message for role in roles for message in await append(tenant, "s", role, "x")]
    for role in (pb.MESSAGE_ROLE_UNSPECIFIED, 99):
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
            await append(tenant, "s", role, "x")  # type: ignore[arg-type]  # 99 is no role.

    assert [(message.sequence, message.role) for message in stored] == [*enumerate(roles, start=1)]
