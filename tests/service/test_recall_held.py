"""Searches through the vector cache find exactly what is there, for every caller, at any moment."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from uuid import UUID

import asyncpg
import numpy as np
import pytest
from fix_cluster import Cluster, Tenant
from fix_models import until
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp
from numpy.typing import NDArray

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein.session.v1 import session_pb2
from skein_recall.search import nearest as nearest_search

Vector = NDArray[np.float32]
DIMENSIONS = 384
MEMORIES = 60


def vectors(count: int, seed: int = 1) -> Vector:
    """Return vectors of unit length as the database keeps them, and as they are compared."""
    drawn = np.random.default_rng(seed).standard_normal((count, DIMENSIONS))
    halves = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float16)
    units: Vector = halves.astype(np.float32)
    return units


@dataclass(frozen=True)
class VectorTenant:
    """A tenant with memories whose vectors are known, by id."""

    tenant: Tenant
    known: dict[str, Vector]

    async def add(self, vector: Vector) -> str:
        memory = memory_pb2.Memory(content="Something.", embedding=vector.tolist())
        made = await self.tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))
        self.known[made.memory.memory_id] = vector
        return made.memory.memory_id

    async def delete(self, memory_id: str) -> None:
        await self.tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=memory_id))
        del self.known[memory_id]

    async def put(self, memory_id: str, *vectors: Vector) -> None:
        """Give a memory other vectors, of which the last is known."""
        embeddings = [pb.Embedding(values=vector.tolist()) for vector in vectors]
        await self.tenant.recall.PutEmbedding(pb.PutEmbeddingRequest(item_id=memory_id, embeddings=embeddings))
        self.known[memory_id] = vectors[-1]

    def nearest(self, vector: Vector, limit: int = 10) -> list[str]:
        return sorted(self.known, key=lambda memory_id: -float(self.known[memory_id] @ vector))[:limit]

    async def ask(self, vector: Vector, **fields: object) -> pb.RecallResponse:
        response: pb.RecallResponse = await self.tenant.recall.Recall(
            pb.RecallRequest(embedding=vector.tolist(), **fields)  # type: ignore[arg-type]  # A test's own fields.
        )
        return response

    async def ask_until_held(self, vector: Vector, **fields: object) -> pb.RecallResponse:
        """Ask until what is held answers, which it does soon after the second time."""
        async with asyncio.timeout(60):
            while (response := await self.ask(vector, **fields)).dense_path != "cached":
                await asyncio.sleep(0.01)
        return response


def ids(response: pb.RecallResponse) -> list[str]:
    return [hit.memory.memory_id for hit in response.hits]


@pytest.fixture
async def vector_tenant(tenant: Tenant) -> VectorTenant:
    made = vectors(MEMORIES)
    memories = [memory_pb2.Memory(content="Something.", embedding=vector.tolist()) for vector in made]
    stored = await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))
    return VectorTenant(
        tenant, {memory.memory_id: vector for memory, vector in zip(stored.memories, made, strict=True)}
    )


@pytest.mark.system
async def test_it_is_exact(vector_tenant: VectorTenant) -> None:
    questions = vectors(20, seed=2)
    first = await vector_tenant.ask(questions[0])

    answers = [await vector_tenant.ask_until_held(question) for question in questions]

    assert first.dense_path == "exact"
    for question, answer in zip(questions, answers, strict=True):
        assert ids(answer) == vector_tenant.nearest(question)
        assert [hit.similarity for hit in answer.hits] == pytest.approx(
            [float(vector_tenant.known[memory_id] @ question) for memory_id in ids(answer)], abs=1e-3
        )


async def test_it_says_the_same_as_the_index_where_words_are_asked_for_as_well(vector_tenant: VectorTenant) -> None:
    (question,) = vectors(1, seed=3)
    first = await vector_tenant.ask(question, query="Something or other?")

    answer = await vector_tenant.ask_until_held(question, query="Something or other?")

    assert first.dense_path == "exact"
    assert ids(answer) == ids(first)
    assert [hit.score for hit in answer.hits] == pytest.approx([hit.score for hit in first.hits], abs=1e-6)


@pytest.mark.system
async def test_what_is_written_later_is_found_at_once(vector_tenant: VectorTenant) -> None:
    (question,) = vectors(1, seed=4)
    await vector_tenant.ask_until_held(question)

    for number in range(5):
        memory_id = await vector_tenant.add((question + vectors(1, seed=10 + number)[0] * 0.1).astype(np.float32))
        answer = await vector_tenant.ask(question)
        assert answer.dense_path == "cached"
        assert memory_id in ids(answer)
        assert ids(answer) == vector_tenant.nearest(question)


@pytest.mark.system
async def test_what_is_deleted_is_not_found_and_something_else_is_instead(vector_tenant: VectorTenant) -> None:
    (question,) = vectors(1, seed=5)
    await vector_tenant.ask_until_held(question)
    paths = []

    for _ in range(MEMORIES - 12):
        await vector_tenant.delete(vector_tenant.nearest(question)[0])
        answer = await vector_tenant.ask(question)
        assert ids(answer) == vector_tenant.nearest(question)
        paths.append(answer.dense_path)

    # Too few of those that were held are left to prove that nothing else is nearer.
    assert paths[0] == "cached"
    assert "exact" in paths


@pytest.mark.system
async def test_what_was_not_listed_is_found_when_all_that_was_moves_away(vector_tenant: VectorTenant) -> None:
    """Only the cosines tell: none of those listed is gone."""
    (question,) = vectors(1, seed=9)
    await vector_tenant.ask_until_held(question)

    for memory_id in vector_tenant.nearest(question, 40):
        await vector_tenant.put(memory_id, -question)

    answer = await vector_tenant.ask(question)
    assert ids(answer) == vector_tenant.nearest(question)
    assert answer.dense_path == "exact"


async def test_an_item_counts_by_its_best_chunk(vector_tenant: VectorTenant) -> None:
    question, *others = vectors(8, seed=11)
    first, second = vector_tenant.nearest(question, MEMORIES)[-2:]
    await vector_tenant.put(first, *others, question)
    await vector_tenant.put(
        second, *others[:3], np.asarray((question + others[0]) / np.linalg.norm(question + others[0]))
    )

    answer = await vector_tenant.ask_until_held(question)

    assert ids(answer)[:2] == [first, second]
    assert ids(answer) == vector_tenant.nearest(question)


async def test_an_item_with_another_vector_is_found_by_that_one_alone(vector_tenant: VectorTenant) -> None:
    (question,) = vectors(1, seed=6)
    await vector_tenant.ask_until_held(question)
    nearest, farthest = vector_tenant.nearest(question)[0], vector_tenant.nearest(question, MEMORIES)[-1]

    for memory_id, vector in ((farthest, question), (nearest, -question)):
        await vector_tenant.put(memory_id, vector)

    answer = await vector_tenant.ask(question)
    assert answer.dense_path == "cached"
    assert ids(answer) == vector_tenant.nearest(question)
    assert ids(answer)[0] == farthest
    assert nearest not in ids(answer)


@pytest.mark.system
async def test_words_and_vectors_together_know_the_vectors_that_are_there_now(
    cluster: Cluster, vector_tenant: VectorTenant
) -> None:
    """What is held compares whatever the words find as well, but for what was written or taken away since."""
    (question,) = vectors(1, seed=8)
    fields = {"query": "Something or other?", "limit": MEMORIES}
    await vector_tenant.ask_until_held(question, **fields)
    changed, gone, *_ = vector_tenant.nearest(question)
    await vector_tenant.put(changed, -question)
    item = [UUID(gone)]
    results: dict[str, pb.Hit] = {}
    async with cluster.superuser() as connection:

        async def is_gone() -> bool:
            # As it is when its text has changed, and a model that makes vectors elsewhere has none of the new one. The
            # worker's scan may make one meanwhile.
            await connection.execute("DELETE FROM recall.embeddings_all_minilm_l6_v2 WHERE item_id = ANY ($1)", item)
            await connection.execute("UPDATE recall.documents SET transaction = DEFAULT WHERE item_id = ANY ($1)", item)
            answer = await vector_tenant.ask(question, **fields)
            results.update((hit.item_id, hit) for hit in answer.hits)
            return answer.dense_path == "cached" and not results[gone].HasField("similarity")

        await until(is_gone)

    assert len(results) == MEMORIES
    del results[gone]
    assert {item_id: hit.similarity for item_id, hit in results.items()} == pytest.approx(
        {item_id: float(vector_tenant.known[item_id] @ question) for item_id in results}, abs=1e-3
    )


@pytest.mark.system
async def test_a_hidden_hit_is_passed_over_and_the_next_one_is_shown_whole(
    vector_tenant: VectorTenant,
) -> None:
    (question,) = vectors(1, seed=12)
    superseded, ended, *rest = vector_tenant.nearest(question, MEMORIES)
    link = memory_pb2.Link(from_memory_id=rest[-1], to_memory_id=superseded, relation="supersedes")
    await vector_tenant.tenant.links.CreateLink(memory_pb2.CreateLinkRequest(link=link))
    tagged = memory_pb2.Memory(memory_id=rest[0], tags=["b", "a"], title="A title")
    await vector_tenant.tenant.memory.UpdateMemory(
        memory_pb2.UpdateMemoryRequest(memory=tagged, update_mask=FieldMask(paths=["tags", "title"]))
    )
    await vector_tenant.put(rest[0], vector_tenant.known[rest[0]])
    await vector_tenant.ask_until_held(question)
    past = memory_pb2.Memory(memory_id=ended, valid_to_time=Timestamp(seconds=1_000_000_000))
    await vector_tenant.tenant.memory.UpdateMemory(
        memory_pb2.UpdateMemoryRequest(memory=past, update_mask=FieldMask(paths=["valid_to_time"]))
    )

    answer = await vector_tenant.ask(question)
    with_both = await vector_tenant.ask(question, show_superseded=True)

    assert (answer.dense_path, with_both.dense_path) == ("cached", "cached")
    assert ids(answer) == rest[:10]
    assert ids(with_both) == [superseded, ended, *rest[:8]]
    for hit in answer.hits:
        response = await vector_tenant.tenant.memory.GetMemory(
            memory_pb2.GetMemoryRequest(memory_id=hit.memory.memory_id)
        )
        # Fields computed only for reads of one memory, and those that were counted meanwhile.
        for name in ("scores", "access_count", "last_access_time"):
            response.memory.ClearField(name)
        assert hit.memory == response.memory


async def test_items_read_on_the_way_are_shown_only_where_they_pass_a_condition(vector_tenant: VectorTenant) -> None:
    (question,) = vectors(1, seed=13)
    nearest = vector_tenant.nearest(question, MEMORIES)
    passing = [nearest[3], nearest[40]]
    for memory_id in passing:
        tagged = memory_pb2.Memory(memory_id=memory_id, tags=["kept"])
        await vector_tenant.tenant.memory.UpdateMemory(
            memory_pb2.UpdateMemoryRequest(memory=tagged, update_mask=FieldMask(paths=["tags"]))
        )
    await vector_tenant.ask_until_held(question)

    answer = await vector_tenant.ask(question, filter=memory_pb2.MemoryFilter(where="tags:kept"))
    none = await vector_tenant.ask(question, filter=memory_pb2.MemoryFilter(where="tags:nobody"))

    assert ids(answer) == passing
    assert ids(none) == []
    assert list(none.emptied_by) == ["where"]


async def tag(vector_tenant: VectorTenant, memory_ids: list[str], name: str) -> memory_pb2.MemoryFilter:
    """Tag memories; return the filter that they pass."""
    for memory_id in memory_ids:
        tagged = memory_pb2.Memory(memory_id=memory_id, tags=[name])
        await vector_tenant.tenant.memory.UpdateMemory(
            memory_pb2.UpdateMemoryRequest(memory=tagged, update_mask=FieldMask(paths=["tags"]))
        )
    return memory_pb2.MemoryFilter(tags_any=[name])


@pytest.mark.system
async def test_what_passes_a_filter_is_found_exactly_and_so_is_what_was_written_since(
    vector_tenant: VectorTenant,
) -> None:
    (question,) = vectors(1, seed=14)
    nearest = vector_tenant.nearest(question, MEMORIES)
    passing = nearest[5::4]
    filter_ = await tag(vector_tenant, passing, "kept")

    held = await vector_tenant.ask_until_held(question, filter=filter_)
    await vector_tenant.add(question)
    changed, deleted, *others = passing
    await vector_tenant.put(changed, question)
    await vector_tenant.delete(deleted)
    later = await vector_tenant.ask(question, filter=filter_)
    by_words = await vector_tenant.ask(question, filter=filter_, query="Something?")
    none = await vector_tenant.ask(question, filter=memory_pb2.MemoryFilter(tags_any=["nobody"]))

    assert ids(held) == passing[:10]
    assert ids(later) == [changed, *others][:10]
    assert [answer.dense_path for answer in (later, by_words)] == ["cached"] * 2
    # Those that are too little relevant are left out.
    assert by_words.hits
    assert set(ids(by_words)) <= set(passing) - {deleted}
    assert list(none.emptied_by) == ["tags_any"]


@pytest.mark.system
async def test_a_filter_that_most_pass_is_tested_on_the_nearest(
    vector_tenant: VectorTenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest_search, "_BROAD_FILTER_ITEMS", 10)
    (question,) = vectors(1, seed=15)
    passing = vector_tenant.nearest(question, MEMORIES)[1::3]
    filter_ = await tag(vector_tenant, passing, "kept")

    answer = await vector_tenant.ask_until_held(question, filter=filter_)
    few = await vector_tenant.ask(question, filter=filter_, limit=3)
    monkeypatch.setattr(nearest_search, "_BROAD_FILTER_FACTOR", 1)
    unproven = await vector_tenant.ask(question, filter=filter_)

    assert ids(answer) == ids(unproven) == passing[:10]
    assert ids(few) == passing[:3]
    assert (few.dense_path, unproven.dense_path) == ("cached", "exact")


@pytest.mark.system
async def test_kinds_are_searched_separately(vector_tenant: VectorTenant) -> None:
    (question,) = vectors(1, seed=7)
    messages = [
        session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=f"Number {number} was said.")
        for number in range(12)
    ]
    appended = await vector_tenant.tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id="s", create_session=True, messages=messages)
    )
    both = await vector_tenant.ask_until_held(question, limit=MEMORIES + 12)

    memories = await vector_tenant.ask_until_held(question, kinds=[pb.ITEM_KIND_MEMORY])
    answer = await vector_tenant.ask_until_held(question, kinds=[pb.ITEM_KIND_MESSAGE])

    assert appended.pending_embedding_count == 0
    assert len(both.hits) == MEMORIES + 12
    assert ids(memories) == vector_tenant.nearest(question)
    assert [hit.item_id for hit in answer.hits] == [
        hit.item_id for hit in both.hits if hit.kind == pb.ITEM_KIND_MESSAGE
    ][:10]


async def test_a_tenant_finds_its_own_alone_though_another_has_the_same_vectors(
    vector_tenant: VectorTenant, other_tenant: Tenant
) -> None:
    other = VectorTenant(other_tenant, {})
    for vector in vectors(5):
        await other.add(vector)
    (question,) = vectors(1)
    mine = await vector_tenant.ask_until_held(question)

    theirs = await other.ask_until_held(question)

    assert ids(mine) == vector_tenant.nearest(question)
    assert ids(theirs) == other.nearest(question)
    assert not set(ids(mine)) & set(ids(theirs))


@pytest.mark.system
async def test_nothing_is_held_of_a_tenant_once_a_person_was_forgotten(vector_tenant: VectorTenant) -> None:
    (question,) = vectors(1, seed=30)
    await vector_tenant.ask_until_held(question)

    await vector_tenant.tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="ann"))

    # The first question after it is answered by the index.
    async with asyncio.timeout(60):
        while (await vector_tenant.ask(question)).dense_path == "cached":
            await asyncio.sleep(0.05)


@pytest.mark.system
async def test_a_purge_that_began_first_and_ends_last_empties_what_is_held_once_more(
    cluster: Cluster, vector_tenant: VectorTenant
) -> None:
    memory = memory_pb2.Memory(content="Likes tea.", subject_id="ann")
    early = (
        await vector_tenant.tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))
    ).memory.memory_id
    (question,) = vectors(1, seed=31)
    await vector_tenant.ask_until_held(question)
    blocker = await asyncpg.connect(cluster.postgres.url(user="postgres", database="skein"))

    async def purge(subject_id: str) -> None:
        selection = memory_pb2.MemorySelection(filter=memory_pb2.MemoryFilter(subject_id=subject_id))
        await vector_tenant.tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=selection))

    async def until_dropped() -> None:
        while (await vector_tenant.ask(question)).dense_path == "cached":
            await asyncio.sleep(0.05)

    is_waiting = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid)))"
    try:
        async with asyncio.timeout(100):
            held_up = blocker.transaction()
            await held_up.start()
            await blocker.execute("SELECT FROM memory.memories WHERE memory_id = $1 FOR UPDATE", UUID(early))
            first = asyncio.create_task(purge("ann"))
            while not await blocker.fetchval(is_waiting):
                await asyncio.sleep(0.01)
            await purge("bob")
            await until_dropped()
            await vector_tenant.ask_until_held(question)
            await held_up.rollback()
            await first

            await until_dropped()
    finally:
        await blocker.close()
