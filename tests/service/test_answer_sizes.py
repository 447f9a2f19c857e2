"""What a client with gRPC's default limit of 4 MiB can read, whatever is stored."""

from __future__ import annotations

import grpc
from fix_cluster import Tenant, refused
from google.protobuf.struct_pb2 import Struct

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import tenancy_pb2

LARGE = "x" * 900_000


def large() -> Struct:
    result = Struct()
    result["text"] = LARGE
    return result


async def test_sessions_too_large_for_one_page_come_on_several(tenant: Tenant) -> None:
    names = [f"s{number}" for number in range(5)]
    for name in names:
        session = session_pb2.Session(session_id=name, metadata=large())
        await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session))

    first = await tenant.sessions.ListSessions(session_pb2.ListSessionsRequest())
    rest = await tenant.sessions.ListSessions(session_pb2.ListSessionsRequest(page_token=first.next_page_token))

    assert [session.session_id for session in (*first.sessions, *rest.sessions)] == names[::-1]
    assert rest.next_page_token == ""


async def test_agents_too_large_for_one_page_come_on_several(tenant: Tenant) -> None:
    names = [f"a{number}" for number in range(5)]
    for name in names:
        agent = tenancy_pb2.Agent(agent_id=name, metadata=large())
        await tenant.tenancy.CreateAgent(tenancy_pb2.CreateAgentRequest(agent=agent))

    first = await tenant.tenancy.ListAgents(tenancy_pb2.ListAgentsRequest())
    rest = await tenant.tenancy.ListAgents(tenancy_pb2.ListAgentsRequest(page_token=first.next_page_token))

    assert [agent.agent_id for agent in (*first.agents, *rest.agents)] == names
    assert rest.next_page_token == ""


async def test_the_last_hits_are_left_out_of_an_answer_that_would_be_too_large(tenant: Tenant) -> None:
    for number in range(5):
        memory = memory_pb2.Memory(content=f"dentist {number}", data=large())
        await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))

    answer = await tenant.recall.Recall(recall_pb2.RecallRequest(query="dentist"))

    assert len(answer.hits) == 3


async def test_what_could_not_be_answered_is_not_appended(tenant: Tenant) -> None:
    messages = [session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="ab " * 1380)] * 1000
    request = session_pb2.AppendMessagesRequest(session_id="s", create_session=True, messages=messages)

    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "MESSAGE_TOO_LARGE"):
        await tenant.sessions.AppendMessages(request)

    with refused(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"):
        await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id="s"))
