"""Recall by the header of a text: speaker, title, tags, subject; and by the title of the session."""

from __future__ import annotations

import pytest
from fix_cluster import Cluster, Tenant
from fix_models import until_scanned
from google.protobuf.field_mask_pb2 import FieldMask

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2


async def append(tenant: Tenant, session_id: str, *messages: tuple[str, str]) -> None:
    """Append messages, each of a speaker's name and a content."""
    await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(
            session_id=session_id,
            create_session=True,
            messages=[
                session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, name=name, content=content)
                for name, content in messages
            ],
        )
    )


async def by_words(tenant: Tenant, query: str) -> list[str]:
    response = await tenant.gateway.Recall(
        pb.RecallRequest(query=query, mode=recall_pb2.SEARCH_MODE_KEYWORD, min_relevance=0)
    )
    return [hit.message.content or hit.memory.content for hit in response.hits]


async def by_all(tenant: Tenant, query: str) -> list[recall_pb2.Hit]:
    request = pb.RecallRequest(query=query, min_relevance=0, show_duplicates=True)
    return list((await tenant.gateway.Recall(request)).hits)


async def test_a_message_is_found_by_its_speaker(tenant: Tenant) -> None:
    await append(tenant, "s1", ("Marta", "The kiln is hot."), ("Ines", "The wheel is free."))

    assert await by_words(tenant, "what did Marta say") == ["The kiln is hot."]


@pytest.mark.parametrize(
    "fields",
    [
        {"title": "Pottery"},
        {"key": "pottery"},
        {"tags": ["pottery", "clay"]},
        {"subject_id": "pottery"},
        {"agent_id": "pottery"},
        {"source_agent": "Pottery"},
    ],
    ids=str,
)
async def test_a_memory_is_found_by_its_header(tenant: Tenant, fields: dict[str, object]) -> None:
    await tenant.create_memory("The kiln is hot.", **fields)
    await tenant.create_memory("The boat is wet.")

    assert await by_words(tenant, "pottery") == ["The kiln is hot."]


async def test_ids_that_are_no_names_are_no_words(tenant: Tenant) -> None:
    await tenant.create_memory("The kiln is hot.", subject_id="user-4711")

    assert await by_words(tenant, "user 4711") == []


async def test_changed_tags_are_found_and_former_ones_are_not(tenant: Tenant) -> None:
    memory = await tenant.create_memory("The kiln is hot.", tags=["pottery"])

    memory.tags[:] = ["ceramics"]
    await tenant.memory.UpdateMemory(
        memory_pb2.UpdateMemoryRequest(memory=memory, update_mask=FieldMask(paths=["tags"]))
    )

    assert await by_words(tenant, "pottery") == []
    assert await by_words(tenant, "ceramics") == ["The kiln is hot."]
    (hit,) = await by_all(tenant, "kiln")
    assert hit.HasField("relevance"), "the vector of the unchanged text stays"


async def test_the_same_sentence_scores_the_same_as_a_message_and_as_a_memory(tenant: Tenant) -> None:
    await append(tenant, "s1", ("Marta", "I fire the kiln on Fridays."))
    await tenant.create_memory("I fire the kiln on Fridays.", subject_id="Marta")

    hits = await by_all(tenant, "When does Marta fire her kiln?")

    assert {hit.message.content or hit.memory.content for hit in hits} == {"I fire the kiln on Fridays."}
    assert hits[0].score == pytest.approx(hits[1].score, abs=0.01)


async def test_vectors_of_a_subject_that_follow_later_are_of_the_same_text(cluster: Cluster, tenant: Tenant) -> None:
    memory = memory_pb2.Memory(content="Keeps bees.", subject_id="Marta", title="Hobby")
    at_once = await tenant.create_memory("Keeps bees.", subject_id="Marta", title="Hobby")
    batch = memory_pb2.BatchCreateMemoriesRequest(memories=[memory], defer_embedding=True)
    later = (await tenant.memory.BatchCreateMemories(batch)).memories[0]
    request = recall_pb2.BatchGetIndexStatesRequest(
        item_ids=[at_once.memory_id, later.memory_id], kind=recall_pb2.ITEM_KIND_MEMORY, show_embeddings=True
    )

    async def is_embedded() -> bool:
        return not any(state.pending for state in (await tenant.recall.BatchGetIndexStates(request)).states)

    await until_scanned(cluster, is_embedded)
    first, last = (await tenant.recall.BatchGetIndexStates(request)).states

    assert list(first.vectors[0].embeddings[0].values) == pytest.approx(
        list(last.vectors[0].embeddings[0].values), abs=0.01
    )


async def test_a_name_counts_for_its_own_message_and_not_for_its_neighbours(tenant: Tenant) -> None:
    await append(
        tenant,
        "s1",
        ("Marta", "Good morning to you all."),
        ("Marta", "The weather is fine."),
        ("Ines", "Shall we go on?"),
        ("Marta", "I see."),
    )

    raw = {
        hit.message.content: component.raw
        for hit in await by_all(tenant, "Marta")
        for component in hit.components
        if component.signal == "lexical"
    }

    assert raw["Shall we go on?"] == 0
    assert raw["I see."] > 0


async def test_a_given_title_that_is_the_first_message_counts_as_taken_from_it(tenant: Tenant) -> None:
    # An import creates each session with the title that it had.
    session = session_pb2.Session(session_id="imported", title="Pottery on Fridays")
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session))
    for session_id in ("imported", "original"):
        await append(tenant, session_id, ("", "Pottery on Fridays"), ("", "The first lesson costs forty euros."))

    scores = {
        hit.message.session_id: hit.score
        for hit in await by_all(tenant, "price of a pottery lesson")
        if "lesson" in hit.message.content
    }

    assert scores["imported"] == pytest.approx(scores["original"])


async def test_messages_of_a_session_with_a_title_that_matches_come_first(tenant: Tenant) -> None:
    for session_id, title in (("s1", "Pottery course"), ("s2", "Sailing trip")):
        session = session_pb2.Session(session_id=session_id, title=title)
        await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session))
    await append(tenant, "s1", ("", "The first lesson costs forty euros."))
    await append(tenant, "s2", ("", "The first lesson costs forty euros."))

    async def first_session() -> str:
        return (await by_all(tenant, "price of a lesson on the sailing trip"))[0].message.session_id

    assert await first_session() == "s2"

    for session_id, title in (("s1", "Sailing trip"), ("s2", "")):
        await tenant.sessions.UpdateSession(
            session_pb2.UpdateSessionRequest(
                session=session_pb2.Session(session_id=session_id, title=title), update_mask=FieldMask(paths=["title"])
            )
        )

    assert await first_session() == "s1"


async def test_a_name_that_moves_from_the_content_to_the_speaker_moves_in_the_index_too(tenant: Tenant) -> None:
    await append(tenant, "s1", ("", "Marta: The kiln is hot."))
    (found,) = await by_all(tenant, "kiln")
    message = session_pb2.Message(message_id=found.item_id, name="Marta", content="The kiln is hot.")

    async def contents_with_name() -> list[str]:
        request = session_pb2.SearchMessagesRequest(query="Marta")
        return [hit.message.content for hit in (await tenant.sessions.SearchMessages(request)).hits]

    assert len(await contents_with_name()) == 1

    await tenant.sessions.UpdateMessage(
        session_pb2.UpdateMessageRequest(message=message, update_mask=FieldMask(paths=["name", "content"]))
    )

    # A session's search is of contents.
    assert await contents_with_name() == []
    assert await by_words(tenant, "Marta") == ["The kiln is hot."]
