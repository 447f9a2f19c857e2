"""Recall of messages by role and by speaker."""

from __future__ import annotations

import grpc
import pytest
from fix_cluster import Tenant
from grpc import aio

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2

USER, ASSISTANT = session_pb2.MESSAGE_ROLE_USER, session_pb2.MESSAGE_ROLE_ASSISTANT


async def say(tenant: Tenant, *turns: tuple[session_pb2.MessageRole, str, str], session_id: str = "s1") -> None:
    """Append messages with role, speaker and content."""
    messages = [session_pb2.Message(role=role, name=name, content=content) for role, name, content in turns]
    await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id=session_id, create_session=True, messages=messages)
    )


async def recall(tenant: Tenant, query: str, **fields: object) -> pb.RecallResponse:
    message_filter = recall_pb2.MessageFilter(**fields)  # type: ignore[arg-type]  # Fields of a filter.
    return await tenant.gateway.Recall(pb.RecallRequest(query=query, min_relevance=0, message_filter=message_filter))


def contents(response: pb.RecallResponse) -> set[str]:
    return {hit.message.content or hit.memory.content for hit in response.hits}


@pytest.fixture
async def ferry(tenant: Tenant) -> Tenant:
    """A tenant where two people and an assistant spoke of a ferry, which is in a memory too."""
    await say(
        tenant,
        (USER, "Marta", "I booked the ferry to Corsica."),
        (ASSISTANT, "", "The ferry to Corsica leaves at nine."),
        (USER, "Ines", "Is the ferry to Corsica late?"),
    )
    memory = memory_pb2.Memory(content="The ferry takes five hours.")
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))
    return tenant


async def test_messages_of_other_roles_are_left_out_and_memories_are_not(ferry: Tenant) -> None:
    of_people = await recall(ferry, "ferry to Corsica", roles=[USER])
    of_assistants = await recall(ferry, "ferry to Corsica", roles=[ASSISTANT])
    of_both = await recall(ferry, "ferry to Corsica", roles=[USER, ASSISTANT])

    memory = "The ferry takes five hours."
    assert contents(of_people) == {"I booked the ferry to Corsica.", "Is the ferry to Corsica late?", memory}
    assert contents(of_assistants) == {"The ferry to Corsica leaves at nine.", memory}
    assert len(of_both.hits) == 4


async def test_messages_of_other_speakers_are_left_out(ferry: Tenant) -> None:
    response = await recall(ferry, "ferry to Corsica", speakers=["Marta", "Zoe"])

    assert contents(response) == {"I booked the ferry to Corsica.", "The ferry takes five hours."}


async def test_a_renamed_speaker_is_found_by_the_new_name(ferry: Tenant) -> None:
    (hit,) = [each for each in (await recall(ferry, "booked")).hits if each.message.name == "Marta"]
    message = session_pb2.Message(message_id=hit.item_id, name="Marta Weiss")
    await ferry.sessions.UpdateMessage(
        session_pb2.UpdateMessageRequest(message=message, update_mask={"paths": ["name"]})
    )

    old, new = [await recall(ferry, "ferry to Corsica", speakers=[name]) for name in ("Marta", "Marta Weiss")]

    assert "I booked the ferry to Corsica." not in contents(old)
    assert "I booked the ferry to Corsica." in contents(new)


async def test_a_filter_that_leaves_nothing_is_named(tenant: Tenant) -> None:
    await say(tenant, (USER, "Marta", "I booked the ferry to Corsica."))

    response = await recall(tenant, "ferry", roles=[ASSISTANT])

    assert (list(response.hits), list(response.emptied_by)) == ([], ["roles"])


async def test_an_unknown_role_is_rejected(tenant: Tenant) -> None:
    with pytest.raises(aio.AioRpcError) as error:
        await recall(tenant, "ferry", roles=[0])

    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
