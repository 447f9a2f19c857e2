"""What a client with gRPC's default limit of 4 MiB can read, whatever is stored."""

from __future__ import annotations

import json

import grpc
from fix_cluster import Tenant, refused
from google.protobuf.struct_pb2 import Struct

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import tenancy_pb2

LARGE = "x" * 250_000


def large() -> Struct:
    result = Struct()
    result["text"] = LARGE
    return result


async def test_sessions_too_large_for_one_page_come_on_several(tenant: Tenant) -> None:
    names = [f"s{number}" for number in range(15)]
    for name in names:
        session = session_pb2.Session(session_id=name, metadata=large())
        await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session))

    page = await tenant.sessions.ListSessions(session_pb2.ListSessionsRequest())
    results, pages = [*page.sessions], 1
    while page.next_page_token:
        page = await tenant.sessions.ListSessions(session_pb2.ListSessionsRequest(page_token=page.next_page_token))
        results += page.sessions
        pages += 1

    assert [session.session_id for session in results] == names[::-1]
    assert pages == 3


async def test_agents_too_large_for_one_page_come_on_several(tenant: Tenant) -> None:
    names = [f"a{number:02}" for number in range(15)]
    for name in names:
        agent = tenancy_pb2.Agent(agent_id=name, metadata=large())
        await tenant.tenancy.CreateAgent(tenancy_pb2.CreateAgentRequest(agent=agent))

    page = await tenant.tenancy.ListAgents(tenancy_pb2.ListAgentsRequest())
    results, pages = [*page.agents], 1
    while page.next_page_token:
        page = await tenant.tenancy.ListAgents(tenancy_pb2.ListAgentsRequest(page_token=page.next_page_token))
        results += page.agents
        pages += 1

    assert [agent.agent_id for agent in results] == names
    assert pages == 3


async def test_memories_that_one_answer_has_no_room_for_are_named_to_be_asked_for_again(tenant: Tenant) -> None:
    data = Struct()
    data["text"] = "x" * 250_000
    names = [f"m{number}" for number in range(20)]
    for name in names:
        memory = memory_pb2.Memory(external_id=name, data=data)
        await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))

    requests, read, missing = [*names[:3], "nobody", *names[3:], "nothing"], [], []
    calls = 0
    while requests:
        answer = await tenant.memory.BatchGetMemories(memory_pb2.BatchGetMemoriesRequest(memory_ids=requests))
        read += [memory.external_id for memory in answer.memories]
        missing += list(answer.not_found_ids)
        requests = list(answer.unread_ids)
        calls += 1

    assert (read, missing, calls) == (names, ["nobody", "nothing"], 4)


async def test_many_short_memories_are_one_answer(tenant: Tenant) -> None:
    memories = [memory_pb2.Memory(content=f"m{number}", external_id=f"m{number}") for number in range(300)]
    await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))
    names = [memory.external_id for memory in memories]

    got = await tenant.memory.BatchGetMemories(memory_pb2.BatchGetMemoriesRequest(memory_ids=names))
    listed = await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest(page_size=299))
    response = await tenant.memory.ListMemories(
        memory_pb2.ListMemoriesRequest(page_size=299, page_token=listed.next_page_token)
    )

    assert [memory.external_id for memory in got.memories] == names
    assert not got.unread_ids
    assert [memory.external_id for memory in (*listed.memories, *response.memories)] == names[::-1]
    assert (len(listed.memories), response.next_page_token) == (299, "")


async def test_the_last_hits_are_left_out_of_an_answer_that_would_be_too_large(tenant: Tenant) -> None:
    for number in range(15):
        memory = memory_pb2.Memory(content=f"dentist {number}", data=large())
        await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))

    answer = await tenant.recall.Recall(recall_pb2.RecallRequest(query="dentist", limit=20))

    assert len(answer.hits) == 6


async def test_a_message_too_large_for_an_answer_is_not_appended(tenant: Tenant) -> None:
    messages = [session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="ab " * 1380)] * 1000
    request = session_pb2.AppendMessagesRequest(session_id="s", create_session=True, messages=messages)

    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "MESSAGE_TOO_LARGE"):
        await tenant.sessions.AppendMessages(request)

    with refused(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"):
        await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id="s"))


async def test_the_last_hits_of_all_branches_are_left_out_of_an_answer_that_would_be_too_large(tenant: Tenant) -> None:
    metadata = Struct()
    metadata["text"] = "x" * 200_000
    texts = [f"dentist {number}" for number in range(10)]
    memories = [memory_pb2.Memory(content=text, metadata=metadata) for text in texts]
    await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))
    messages = [
        session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=text, metadata=metadata) for text in texts
    ]
    await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id="s", create_session=True, messages=messages)
    )

    answer = await tenant.gateway.Recall(gateway_pb2.RecallRequest(query="dentist", limit=20))

    # Memories and messages are asked for at once, so what is left out is of either.
    assert sum(branch.hit_count for branch in answer.branches) == 7
    assert len(answer.hits) == 7


async def test_memories_that_could_not_be_answered_are_not_stored(tenant: Tenant) -> None:
    memories = [memory_pb2.Memory(content="ab " * 1380) for _ in range(1000)]

    for request_id in ("", "r"):
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "MESSAGE_TOO_LARGE"):
            await tenant.memory.BatchCreateMemories(
                memory_pb2.BatchCreateMemoriesRequest(memories=memories, request_id=request_id)
            )

    assert not (await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())).memories
    fewer = memory_pb2.BatchCreateMemoriesRequest(memories=memories[:1], request_id="r")
    assert len((await tenant.memory.BatchCreateMemories(fewer)).memories) == 1


async def test_a_large_write_is_answered_as_text_alone_when_both_forms_have_no_room(tenant: Tenant) -> None:
    memories = [memory_pb2.Memory(content="x", data=large()) for _ in range(12)]

    answer = await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))

    assert [json.loads(memory.data_json) for memory in answer.memories] == [{"text": LARGE}] * 12
    assert not any(memory.HasField("data") for memory in answer.memories)
