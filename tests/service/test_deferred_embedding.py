from __future__ import annotations

from fix_cluster import Tenant

from skein.memory.v1 import memory_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2

SAID = "The plumber repaired the boiler in the cellar."
ASKED = "Who fixed the heating?"


async def similarities(tenant: Tenant) -> list[bool]:
    hits = (await tenant.recall.Recall(recall_pb2.RecallRequest(query=ASKED))).hits
    return [hit.HasField("similarity") for hit in hits]


async def test_a_memory_whose_vector_follows_is_found_by_meaning_by_the_next_search(tenant: Tenant) -> None:
    memory = pb.Memory(content=SAID)

    stored = await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=memory, defer_embedding=True))

    assert stored.embedding_pending
    assert await similarities(tenant) == [True]


async def test_a_batch_whose_vectors_follow_says_how_many(tenant: Tenant) -> None:
    memories = [pb.Memory(content=f"{SAID} {number}") for number in range(3)]
    request = pb.BatchCreateMemoriesRequest(memories=memories, request_id="r1", defer_embedding=True)

    stored = await tenant.memory.BatchCreateMemories(request)

    assert stored.pending_embedding_count == 3
    assert await similarities(tenant) == [True] * 3
    assert await tenant.memory.BatchCreateMemories(request) == stored


async def test_a_changed_memory_is_found_by_what_it_says_now(tenant: Tenant) -> None:
    stored = await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=pb.Memory(content="Green tea.")))
    changed = pb.Memory(memory_id=stored.memory.memory_id, content=SAID)

    answer = await tenant.memory.UpdateMemory(
        pb.UpdateMemoryRequest(memory=changed, update_mask={"paths": ["content"]}, defer_embedding=True)
    )

    assert answer.embedding_pending
    (hit,) = (await tenant.recall.Recall(recall_pb2.RecallRequest(query=ASKED))).hits
    assert hit.similarity > 0.3


async def test_messages_whose_vectors_follow_are_found_by_meaning_by_the_next_search(tenant: Tenant) -> None:
    messages = [session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=SAID)]

    appended = await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id="s", create_session=True, messages=messages, defer_embedding=True)
    )

    assert appended.pending_embedding_count == 1
    assert await similarities(tenant) == [True]


async def test_a_search_by_words_alone_needs_no_vector_and_says_so(tenant: Tenant) -> None:
    await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=pb.Memory(content=SAID)))
    words = recall_pb2.RecallRequest(query="boiler", weights={"dense": 0.0, "context": 0.0})

    answer = await tenant.recall.Recall(words)

    assert (answer.dense_path, answer.dense_unavailable, len(answer.hits)) == ("none", False, 1)


async def test_a_search_by_meaning_alone_has_the_order_of_the_vectors(tenant: Tenant) -> None:
    for content in (SAID, "Nobody fixed the heating table of contents.", "Green tea."):
        await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=pb.Memory(content=content)))
    others = ("context", "lexical", "reply", "statement", "length", "time", "date")
    meaning = recall_pb2.RecallRequest(query=ASKED, weights={**dict.fromkeys(others, 0.0), "dense": 1.0})

    hits = (await tenant.recall.Recall(meaning)).hits

    assert len(hits) == 3
    assert [hit.similarity for hit in hits] == sorted((hit.similarity for hit in hits), reverse=True)
    assert {part.signal for hit in hits for part in hit.components if part.rank} == {"dense"}
