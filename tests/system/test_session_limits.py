"""Every limit of the session service is enforced with a named error, and what lies just within it is taken."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from fix_cluster import Tenant, refused
from fix_states import data, session
from google.protobuf.message import Message

from skein.session.v1 import session_pb2
from skein.session.v1 import states_pb2 as pb

SAYS = session_pb2.MESSAGE_ROLE_USER
TOO_LONG = "CONTENT_TOO_LONG"
INVALID = "INVALID_FIELD"
# RPC, request without the session's id, the reason it is refused for.
BEYOND: list[tuple[str, Message, str]] = [
    ("CreateSession", session_pb2.CreateSessionRequest(session=session_pb2.Session(session_id="x" * 256)), INVALID),
    ("CreateSession", session_pb2.CreateSessionRequest(session=session_pb2.Session(title="x" * 1001)), INVALID),
    ("CreateSession", session_pb2.CreateSessionRequest(session=session_pb2.Session(summary="x" * 100_001)), INVALID),
    ("CreateSession", session_pb2.CreateSessionRequest(session=session_pb2.Session(subject_id="x" * 256)), INVALID),
    ("CreateSession", session_pb2.CreateSessionRequest(request_id="x" * 256), INVALID),
    (
        "CreateSession",
        session_pb2.CreateSessionRequest(session=session_pb2.Session(metadata=data(a="x" * 262_144))),
        INVALID,
    ),
    ("ListSessions", session_pb2.ListSessionsRequest(page_size=1001), INVALID),
    ("ListSessions", session_pb2.ListSessionsRequest(page_size=-1), INVALID),
    (
        "AppendMessages",
        session_pb2.AppendMessagesRequest(messages=[session_pb2.Message(role=SAYS, content="x" * 100_001)]),
        TOO_LONG,
    ),
    (
        "AppendMessages",
        session_pb2.AppendMessagesRequest(messages=[session_pb2.Message(role=SAYS, content="x")] * 1001),
        INVALID,
    ),
    (
        "AppendMessages",
        session_pb2.AppendMessagesRequest(
            messages=[session_pb2.Message(role=SAYS, content="x", external_id="x" * 256)]
        ),
        INVALID,
    ),
    ("AppendMessages", session_pb2.AppendMessagesRequest(), INVALID),
    ("ListMessages", session_pb2.ListMessagesRequest(page_size=1001), INVALID),
    ("SearchMessages", session_pb2.SearchMessagesRequest(query="x" * 10_001), INVALID),
    ("SearchMessages", session_pb2.SearchMessagesRequest(query="x", limit=101), INVALID),
    ("SearchMessages", session_pb2.SearchMessagesRequest(query="x", context_size=11), INVALID),
    ("ListAgentStates", pb.ListAgentStatesRequest(page_size=1001), INVALID),
    ("ListSessionItems", pb.ListSessionItemsRequest(page_size=1001), INVALID),
    ("PurgeSession", pb.PurgeSessionRequest(limit=1001), INVALID),
    ("PurgeMessages", pb.PurgeMessagesRequest(message_ids=["x"] * 1001), INVALID),
    ("PurgeMessages", pb.PurgeMessagesRequest(), INVALID),
    ("PurgeSubject", pb.PurgeSubjectRequest(), INVALID),
    ("ExportSubject", session_pb2.ExportSubjectRequest(subject_id="x", page_size=1001), INVALID),
]


@pytest.mark.parametrize(("rpc", "request_", "reason"), BEYOND)
async def test_a_field_beyond_its_limit_is_refused_by_name(
    tenant: Tenant, rpc: str, request_: Any, reason: str
) -> None:
    if "session_id" in request_.DESCRIPTOR.fields_by_name:
        request_.session_id = await session(tenant)

    with refused(grpc.StatusCode.INVALID_ARGUMENT, reason):
        await getattr(tenant.sessions, rpc)(request_)


async def test_fields_at_their_limits_are_accepted(tenant: Tenant) -> None:
    name = "x" * 255
    opened = session_pb2.Session(
        session_id=name, title="x" * 1000, summary="x" * 100_000, metadata=data(a="x" * 262_136)
    )
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=opened))
    largest = session_pb2.Message(role=SAYS, content="é" * 100_000, external_id="x" * 255)
    many = [session_pb2.Message(role=SAYS, content="x")] * 999

    await tenant.sessions.AppendMessages(session_pb2.AppendMessagesRequest(session_id=name, messages=[largest, *many]))

    listed = await tenant.sessions.ListMessages(session_pb2.ListMessagesRequest(session_id=name, page_size=1000))
    assert len(listed.messages) == 1000
