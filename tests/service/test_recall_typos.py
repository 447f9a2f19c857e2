"""A word of a query that no item has is read as a near word that some item has."""

from __future__ import annotations

import pytest
from fix_cluster import Tenant
from fix_recall import RecallTenant

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein.session.v1 import session_pb2

KEYWORD, SEMANTIC = pb.SEARCH_MODE_KEYWORD, pb.SEARCH_MODE_SEMANTIC
TYPO = pb.QUERY_EXPANSION_REASON_TYPO


def expansions(response: pb.RecallResponse) -> list[tuple[str, str]]:
    assert {one.reason for one in response.query_expansions} <= {TYPO}
    return [(one.written, one.read_as) for one in response.query_expansions]


@pytest.mark.parametrize(
    ("typo", "word"),
    [
        ("typsecript", "TypeScript"),
        ("kuberntes", "Kubernetes"),
        ("tpyescript", "TypeScript"),
        ("tyypescript", "TypeScript"),
        ("tpescript", "TypeScript"),
        ("txpescript", "TypeScript"),
        ("typscirpt", "TypeScript"),
        ("tipyscript", ""),
        ("dokcer", "Docker"),
        ("bernese", "Bernese"),
        ("Mosvka", ""),
        ("Москфа", "Москва"),
    ],
)
async def test_a_typo_finds_the_near_word(recall_tenant: RecallTenant, typo: str, word: str) -> None:
    items = ["We moved to TypeScript.", "The Kubernetes cluster is down.", "Docker builds are slow.", "Bernese cheese"]
    items.append("Москва зимой")
    for item in items:
        await recall_tenant.remember(item, index=False)

    response = await recall_tenant.recall(f"What of {typo}?", mode=KEYWORD)

    assert [hit.memory.content for hit in response.hits] == [item for item in items if word and word in item]
    assert expansions(response) == ([(typo, word)] if word and word.lower() != typo else [])


async def test_a_word_that_some_item_has_is_never_corrected(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("The horse is brown.", index=False)
    await recall_tenant.say("A house by the lake.", index=False)

    response = await recall_tenant.recall("house", mode=KEYWORD)
    among_memories = await recall_tenant.recall("house", mode=KEYWORD, kinds=[pb.ITEM_KIND_MEMORY])

    assert [hit.message.content for hit in response.hits] == ["A house by the lake."]
    assert (list(among_memories.hits), expansions(among_memories)) == ([], [])


@pytest.mark.parametrize("word", ["leak", "Hold", "deaf", "brake"])
async def test_a_frequent_word_of_english_is_no_typo(recall_tenant: RecallTenant, word: str) -> None:
    await recall_tenant.remember("The leeks held, dear, and the brakes of the bread.", index=False)
    await recall_tenant.remember("Dead bread.", index=False)

    response = await recall_tenant.recall(f"What of {word}?", mode=KEYWORD)

    assert expansions(response) == []


async def test_a_word_of_a_session_title_is_never_corrected(tenant: Tenant) -> None:
    session = session_pb2.Session(session_id="s1", title="Garden")
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session))
    memory = memory_pb2.Memory(content="Der Garten ist klein.")
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))

    known = await tenant.recall.Recall(pb.RecallRequest(query="garden", mode=KEYWORD))
    typo = await tenant.recall.Recall(pb.RecallRequest(query="garten", mode=KEYWORD))

    assert (list(known.hits), expansions(known), len(typo.hits)) == ([], [], 1)


async def test_a_corrected_word_counts_less_than_an_exact_one(recall_tenant: RecallTenant) -> None:
    exact = await recall_tenant.remember("The docker registry is full.", index=False)
    near = await recall_tenant.remember("The postman ordered a parcel.", index=False)
    (right,) = (await recall_tenant.recall("docker", mode=KEYWORD)).hits
    (wrong,) = (await recall_tenant.recall("dokcer", mode=KEYWORD)).hits

    both = await recall_tenant.recall("docker postnan", mode=KEYWORD)

    assert wrong.score == pytest.approx(right.score * (1 - 1 / 6))
    assert [hit.item_id for hit in both.hits] == [exact, near]


@pytest.mark.parametrize("query", ["cet", "python4", "rocker", "docking", "dokcre", "小明对什"])
async def test_short_words_numbers_and_far_words_are_not_corrected(recall_tenant: RecallTenant, query: str) -> None:
    for item in ("cat", "python3", "docker", "小明对什么过敏"):
        await recall_tenant.remember(item, index=False)

    response = await recall_tenant.recall(query, mode=KEYWORD)

    assert expansions(response) == []
    assert all("小" in hit.memory.content for hit in response.hits)


async def test_of_near_words_the_nearest_and_most_frequent_count(recall_tenant: RecallTenant) -> None:
    for item in ("carter", "carter and carter", "carver", "carder", "carper", "garter"):
        await recall_tenant.remember(item, index=False)

    response = await recall_tenant.recall("carqer", mode=KEYWORD)

    assert expansions(response) == [("carqer", "carter"), ("carqer", "carder"), ("carqer", "carper")]
    assert len(response.hits) == 4


async def test_a_hybrid_search_corrects_words_and_a_semantic_one_does_not(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("We moved to TypeScript last year.")
    await recall_tenant.remember("The parrot is called Olga.")

    hybrid = await recall_tenant.recall("typsecript")
    semantic = await recall_tenant.recall("typsecript", mode=SEMANTIC)

    assert hybrid.hits[0].memory.content == "We moved to TypeScript last year."
    assert (hybrid.hits[0].has_query_words, expansions(hybrid)) == (True, [("typsecript", "TypeScript")])
    assert expansions(semantic) == []


async def test_only_words_of_hits_are_told(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("Project Heliotrope is secret.", agent_id="a", scope="agent", index=False)
    await recall_tenant.remember("Nothing here.", agent_id="b", scope="agent", index=False)
    seen_by = {
        agent: memory_pb2.MemoryFilter(visible_to=memory_pb2.ScopeContext(agent_id=agent)) for agent in ("a", "b")
    }

    found = {
        agent: expansions(await recall_tenant.recall("helitrope nothing", filter=seen))
        for agent, seen in seen_by.items()
    }

    assert found == {"a": [("helitrope", "Heliotrope")], "b": []}


async def test_similar_items_are_found_without_corrections(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("We moved to TypeScript.", index=False)
    item_id = await recall_tenant.remember("zzz", index=False)
    await recall_tenant.remember("typsecript", index=False)

    response = await recall_tenant.stub.FindSimilar(pb.FindSimilarRequest(item_id=item_id, mode=KEYWORD))

    assert not response.hits
