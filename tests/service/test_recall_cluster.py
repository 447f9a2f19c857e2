"""Recall as callers of the cluster see it: through the gateway, over items that memory and session wrote."""

from __future__ import annotations

import asyncio

import pytest
from fix_cluster import Cluster, Tenant
from fix_memory import stored
from fix_models import until_scanned
from google.protobuf.field_mask_pb2 import FieldMask

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein.session.v1 import session_pb2


async def hits(tenant: Tenant, query: str) -> list[pb.Hit]:
    return list((await tenant.recall.Recall(pb.RecallRequest(query=query, min_relevance=0))).hits)


async def test_a_memory_is_found_as_the_memory_service_returns_it(tenant: Tenant) -> None:
    memory = await tenant.create_memory(
        "The cat caught a mouse in the barn.",
        external_id="m1",
        title="Barn",
        tags=["animals"],
        source="diary",
        subject_id="marta",
        scope=memory_pb2.SCOPE_USER,
        level=memory_pb2.LEVEL_TACTICAL,
        importance=0.9,
        data={"legs": [4.0, None, {"deep": True}]},
    )

    (hit,) = await hits(tenant, "feline hunting rodents")

    response = await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=memory.memory_id))
    assert hit.memory == stored(response.memory)
    assert hit.similarity > 0.3


async def test_messages_are_found_as_the_session_service_returns_them(tenant: Tenant) -> None:
    message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="We ordered gravel.", name="Marta")
    message.metadata.update({"channel": "voice"})
    appended = await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id="s1", create_session=True, messages=[message])
    )

    (hit,) = await hits(tenant, "who ordered gravel?")

    assert hit.message == appended.messages[0]


async def test_a_message_is_found_by_who_spoke_and_a_renamed_one_by_its_new_name(tenant: Tenant) -> None:
    role = session_pb2.MESSAGE_ROLE_USER
    messages = [session_pb2.Message(role=role, content="I keep bees.", name=name) for name in ("Marta", "Kemal")]
    appended = await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id="s1", create_session=True, messages=messages)
    )
    renamed = session_pb2.Message(message_id=appended.messages[1].message_id, name="Ruth")

    marta = await hits(tenant, "what does Marta keep?")
    kemal = await hits(tenant, "what does Kemal keep?")
    await tenant.sessions.UpdateMessage(
        session_pb2.UpdateMessageRequest(message=renamed, update_mask=FieldMask(paths=["name"]))
    )
    ruth = await hits(tenant, "what does Ruth keep?")

    assert [hit.message.name for hit in marta] == ["Marta", "Kemal"]
    assert [hit.message.name for hit in kemal] == ["Kemal", "Marta"]
    assert [hit.message.name for hit in ruth] == ["Ruth", "Marta"]
    assert all(hit.HasField("similarity") for hit in (*marta, *kemal, *ruth))


@pytest.mark.system
async def test_vectors_that_the_worker_computes_are_of_the_same_text(cluster: Cluster, tenant: Tenant) -> None:
    message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="I keep bees.", name="Marta")
    # One message gets its vector before the reply; those of a large batch come from the worker.
    alone, *many = [
        (
            await tenant.sessions.AppendMessages(
                session_pb2.AppendMessagesRequest(session_id=name, create_session=True, messages=[message] * count)
            )
        )
        .messages[-1]
        .message_id
        for name, count in (("alone", 1), ("many", 100))
    ]
    request = pb.BatchGetIndexStatesRequest(item_ids=[alone, *many], kind=pb.ITEM_KIND_MESSAGE, show_embeddings=True)

    async def is_embedded() -> bool:
        return not any(state.pending for state in (await tenant.recall.BatchGetIndexStates(request)).states)

    await until_scanned(cluster, is_embedded)
    first, last = (await tenant.recall.BatchGetIndexStates(request)).states

    assert list(first.vectors[0].embeddings[0].values) == pytest.approx(
        list(last.vectors[0].embeddings[0].values), abs=0.01
    )


@pytest.mark.system
async def test_a_larger_limit_changes_no_earlier_hit(tenant: Tenant) -> None:
    subjects = ["tea", "coffee", "the garden", "the roof", "a boat", "the school"]
    verbs = ["likes", "paints", "asks about", "forgets", "plans", "mentions", "repairs"]
    contents = [
        f"Marta {verbs[number % 7]} {subjects[number % 6]}{'?' if number % 5 == 0 else ''} in week {number}."
        for number in range(450)
    ]
    for start in range(0, len(contents), 50):
        messages = [
            session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=content)
            for content in contents[start : start + 50]
        ]
        await tenant.sessions.AppendMessages(
            session_pb2.AppendMessagesRequest(
                session_id="s1", create_session=True, messages=messages, defer_embedding=True
            )
        )

    question = "When did Marta repair the roof of the school?"
    # Vectors that arrive between two searches would change the order.
    async with asyncio.timeout(90):
        while (await tenant.recall.Recall(pb.RecallRequest(query=question, limit=1))).pending_embedding_count:
            await asyncio.sleep(0.05)

    responses = [
        await tenant.recall.Recall(pb.RecallRequest(query=question, limit=limit)) for limit in (5, 25, 60, 100)
    ]

    found = [[hit.item_id for hit in response.hits] for response in responses]
    assert [len(ids) for ids in found] == [5, 25, 60, 100]
    assert found[0] == found[1][:5]
    assert found[1] == found[2][:25]
    assert found[2] == found[3][:60]
