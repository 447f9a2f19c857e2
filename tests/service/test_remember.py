"""Remember and Recall through the whole cluster."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from fix_cluster import Tenant, refused

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2

USER = session_pb2.MESSAGE_ROLE_USER


def user_message(content: str) -> session_pb2.Message:
    return session_pb2.Message(role=USER, content=content)


def kitchen(request_id: str = "") -> pb.RememberRequest:
    return pb.RememberRequest(
        session_id="kitchen",
        messages=[user_message("The blue kettle is broken"), user_message("We need a new one")],
        memories=[
            memory_pb2.Memory(content="The kettle broke", type="fact"),
            memory_pb2.Memory(content="Buy a kettle"),
        ],
        request_id=request_id,
    )


async def memories(tenant: Tenant) -> list[memory_pb2.Memory]:
    return list((await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())).memories)


async def messages(tenant: Tenant, session_id: str) -> list[session_pb2.Message]:
    request = session_pb2.ListMessagesRequest(session_id=session_id)
    return list((await tenant.sessions.ListMessages(request)).messages)


async def test_messages_and_memories_are_stored_and_the_session_is_opened(tenant: Tenant) -> None:
    response = await tenant.gateway.Remember(kitchen())

    assert [message.sequence for message in response.messages] == [1, 2]
    assert list(response.messages) == await messages(tenant, "kitchen")
    assert {memory.memory_id for memory in response.memories} == {memory.memory_id for memory in await memories(tenant)}


async def test_memories_belong_to_the_session_that_they_come_with(tenant: Tenant) -> None:
    response = await tenant.gateway.Remember(kitchen())

    assert {memory.session_id for memory in response.memories} == {"kitchen"}


@pytest.mark.system
async def test_a_request_made_many_times_at_once_is_done_once(tenant: Tenant) -> None:
    answers = await asyncio.gather(*(tenant.gateway.Remember(kitchen("r")) for _ in range(8)))

    assert all(answer == answers[0] for answer in answers)
    assert len(await memories(tenant)) == 2
    assert len(await messages(tenant, "kitchen")) == 2


@pytest.mark.system
async def test_a_repeated_request_completes_what_the_first_one_left_undone(tenant: Tenant) -> None:
    in_the_way = await tenant.memory.CreateMemory(
        memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="The kettle works", type="fact", key="kettle"))
    )
    request = kitchen("r")
    request.memories[0].key = "kettle"
    with refused(grpc.StatusCode.ALREADY_EXISTS, "FACT_KEY_TAKEN"):
        await tenant.gateway.Remember(request)
    with refused(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"):
        await messages(tenant, "kitchen")
    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=in_the_way.memory.memory_id))

    response = await tenant.gateway.Remember(request)

    assert list(response.messages) == await messages(tenant, "kitchen")
    assert len(await memories(tenant)) == len(response.memories) == 2


async def test_a_refused_part_is_corrected_under_the_same_request_id_and_stored_once(
    tenant: Tenant,
) -> None:
    request = kitchen("r")
    request.messages[0].content = "a\0b"
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "TEXT_NOT_STORABLE"):
        await tenant.gateway.Remember(request)

    response = await tenant.gateway.Remember(kitchen("r"))

    assert len(await memories(tenant)) == len(response.memories) == 2
    assert len(await messages(tenant, "kitchen")) == 2


async def test_memories_that_are_refused_leave_no_messages_for_a_corrected_call_to_repeat(tenant: Tenant) -> None:
    wrong = kitchen()
    wrong.memories[0].content = " "
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "CONTENT_EMPTY"):
        await tenant.gateway.Remember(wrong)

    await tenant.gateway.Remember(kitchen())

    assert len(await messages(tenant, "kitchen")) == 2


async def test_an_ended_session_takes_no_more(tenant: Tenant) -> None:
    await tenant.gateway.Remember(kitchen())
    await tenant.sessions.EndSession(session_pb2.EndSessionRequest(session_id="kitchen"))

    with refused(grpc.StatusCode.FAILED_PRECONDITION, "SESSION_ENDED"):
        await tenant.gateway.Remember(kitchen())


async def test_both_kinds_are_recalled_at_once_with_their_components(tenant: Tenant) -> None:
    await tenant.gateway.Remember(kitchen())

    response = await tenant.gateway.Recall(pb.RecallRequest(query="Which kettle is broken?"))

    contents = [hit.memory.content or hit.message.content for hit in response.hits]
    assert {"The blue kettle is broken", "The kettle broke"} <= set(contents)
    assert [hit.score for hit in response.hits] == sorted((hit.score for hit in response.hits), reverse=True)
    assert all(hit.components for hit in response.hits)
    assert {branch.state for branch in response.branches} == {pb.BRANCH_STATE_OK}
    assert response.model


async def test_the_limit_holds_for_all_branches_together(tenant: Tenant) -> None:
    await tenant.gateway.Remember(kitchen())

    response = await tenant.gateway.Recall(pb.RecallRequest(query="kettle", limit=2))

    assert len(response.hits) == 2


async def test_a_filter_narrows_both_branches(tenant: Tenant) -> None:
    await tenant.gateway.Remember(kitchen())
    await tenant.gateway.Remember(
        pb.RememberRequest(session_id="garden", messages=[user_message("A kettle in the garden")])
    )

    response = await tenant.gateway.Recall(
        pb.RecallRequest(query="kettle", filter=memory_pb2.MemoryFilter(session_id="garden"))
    )

    assert [hit.message.content for hit in response.hits] == ["A kettle in the garden"]


async def test_a_recall_for_nothing_is_refused(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "QUERY_EMPTY"):
        await tenant.gateway.Recall(pb.RecallRequest())


async def test_a_vector_of_the_wrong_size_is_refused(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "DIMENSIONS_MISMATCH"):
        await tenant.gateway.Recall(pb.RecallRequest(embedding=[0.1, 0.2]))


async def test_an_empty_memory_finds_nothing(tenant: Tenant) -> None:
    response = await tenant.gateway.Recall(pb.RecallRequest(query="kettle"))

    assert not response.hits
    assert [branch.hit_count for branch in response.branches] == [0, 0]


@pytest.mark.parametrize(
    "request_of_nothing",
    [
        pb.RememberRequest(session_id="kitchen", messages=[user_message("  ")]),
        pb.RememberRequest(memories=[memory_pb2.Memory(content="  ")]),
    ],
    ids=["message", "memory"],
)
async def test_an_empty_request_is_refused_and_not_stored(
    tenant: Tenant, request_of_nothing: pb.RememberRequest
) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "CONTENT_EMPTY"):
        await tenant.gateway.Remember(request_of_nothing)

    assert await memories(tenant) == []
