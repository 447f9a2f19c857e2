"""A search by words alone, by meaning alone, and by both: what each mode finds, and what it says of its hits."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from fix_cluster import refused
from fix_recall import RecallServer, RecallTenant, serving

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein_recall.search import query_terms as reading
from skein_recall.search.weights import TOKENS_VERSION, VERSION

KEYWORD, SEMANTIC, HYBRID = pb.SEARCH_MODE_KEYWORD, pb.SEARCH_MODE_SEMANTIC, pb.SEARCH_MODE_HYBRID


def signals(hit: pb.Hit) -> list[str]:
    return [component.signal for component in hit.components]


async def vector_of(recall_tenant: RecallTenant, text: str) -> list[float]:
    response = await recall_tenant.stub.EmbedText(pb.EmbedTextRequest(texts=[text]))
    return list(response.embeddings[0].values)


@pytest.mark.system
async def test_a_keyword_search_finds_nothing_when_no_item_contains_a_word(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("My car broke down on the motorway.")
    await recall_tenant.remember("The vehicle is at the garage until Friday.")

    assert await recall_tenant.contents("automobile", mode=KEYWORD) == []


async def test_by_keyword_a_neighbour_that_contains_the_word_brings_only_itself(recall_tenant: RecallTenant) -> None:
    await recall_tenant.say("Hello there, how was the trip to the coast last week?")
    await recall_tenant.say("We took the automobile.")
    await recall_tenant.say("That sounds like a long and tiring way to go.")

    assert await recall_tenant.contents("automobile", mode=KEYWORD) == ["We took the automobile."]
    assert len(await recall_tenant.contents("automobile", min_relevance=0)) == 3


async def test_by_keyword_the_best_match_comes_first_and_its_score_is_its_share_of_the_bound(
    recall_tenant: RecallTenant,
) -> None:
    both = await recall_tenant.remember("The automobile needs a new clutch.")
    one = await recall_tenant.remember("She sold her automobiles and bought a bicycle, for reasons of her own.")
    await recall_tenant.remember("Nothing of the kind.")

    response = await recall_tenant.recall("automobile clutch", mode=KEYWORD)

    assert [hit.item_id for hit in response.hits] == [both, one]
    assert 0 < response.hits[1].score < response.hits[0].score <= 1
    for place_of_hit, hit in enumerate(response.hits, start=1):
        (component,) = hit.components
        assert (component.signal, component.weight, component.rank) == ("lexical", 1.0, place_of_hit)
        assert component.value == pytest.approx(hit.score)
        assert component.raw > 0
        assert hit.has_query_words
        assert not hit.HasField("similarity")
    assert response.formula == f"keyword-{VERSION}"


@pytest.mark.system
async def test_by_keyword_the_score_of_an_item_is_that_of_its_own_words_alone(
    recall_tenant: RecallTenant,
) -> None:
    alone = await recall_tenant.remember("We took the automobile.")
    await recall_tenant.say("Did you take the automobile to the coast?")
    amid = await recall_tenant.say("We took the automobile.")

    scores = {hit.item_id: hit.score for hit in (await recall_tenant.recall("automobile", mode=KEYWORD)).hits}

    assert scores[amid] == pytest.approx(scores[alone])


async def test_an_item_without_a_vector_is_found_by_keyword(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("We took the automobile.", index=False)

    assert await recall_tenant.contents("automobiles", mode=KEYWORD) == ["We took the automobile."]


@pytest.mark.system
async def test_a_keyword_search_calls_no_model(recall_server: RecallServer, recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("We took the automobile.")

    async with serving(recall_server.url, recall_server.key, SKEIN_ADVANCED_RECALL_EMBED_TIMEOUT_SECONDS="0") as late:
        response = await RecallTenant(late, recall_tenant.tenant_id).recall("automobile", mode=KEYWORD)

    assert [hit.memory.content for hit in response.hits] == ["We took the automobile."]
    assert (response.dense_unavailable, response.dense_path, response.model) == (False, "none", "")


async def test_a_keyword_query_of_stop_words_finds_nothing(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("It is what it is.")

    response = await recall_tenant.recall("what is it", mode=KEYWORD)

    assert (list(response.hits), response.dense_unavailable) == ([], False)


@pytest.mark.system
async def test_by_keyword_as_many_are_found_as_there_are_although_the_best_are_superseded(
    recall_server: RecallServer, recall_tenant: RecallTenant
) -> None:
    for number in range(120):
        await recall_tenant.remember(f"automobile automobile {number}", importance=0.1, index=False)
    for number in range(3):
        await recall_tenant.remember(
            f"the automobile of a neighbour, who drives it seldom and sells it {number}", index=False
        )
    async with recall_server.superuser() as connection:
        await connection.execute(
            "UPDATE memory.memories SET valid_to_time = now() - interval '1 day' "
            "WHERE tenant_id = $1 AND importance < 0.2",
            recall_tenant.tenant_id,
        )

    result = await recall_tenant.contents("automobile", mode=KEYWORD, limit=3)

    assert sorted(text[-1] for text in result) == ["0", "1", "2"]


@pytest.mark.system
async def test_by_keyword_a_frequent_word_is_searched_when_hits_of_a_rare_one_are_hidden(
    recall_server: RecallServer, recall_tenant: RecallTenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "POSTINGS_READ", 5)
    for number in range(2):
        await recall_tenant.remember(f"a rare samovar {number}", importance=0.1, index=False)
    for number in range(6):
        await recall_tenant.remember(f"tea number {number}", index=False)
    async with recall_server.superuser() as connection:
        await connection.execute(
            "UPDATE memory.memories SET valid_to_time = now() - interval '1 day' "
            "WHERE tenant_id = $1 AND importance < 0.2",
            recall_tenant.tenant_id,
        )

    assert len(await recall_tenant.contents("samovar tea", mode=KEYWORD, limit=2)) == 2


async def test_by_keyword_a_filter_restricts_and_is_named_when_it_leaves_nothing(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("We took the automobile.", type="journal")
    await recall_tenant.remember("The automobile is red.", type="fact")

    facts = memory_pb2.MemoryFilter(types=["fact"])
    assert await recall_tenant.contents("automobile", mode=KEYWORD, filter=facts) == ["The automobile is red."]
    assert await recall_tenant.contents(
        "automobile", mode=KEYWORD, filter=memory_pb2.MemoryFilter(where='type = "journal"')
    ) == ["We took the automobile."]
    emptied = await recall_tenant.recall("automobile", mode=KEYWORD, filter=memory_pb2.MemoryFilter(types=["decision"]))
    assert (list(emptied.hits), list(emptied.emptied_by)) == ([], ["types"])
    unrelated = await recall_tenant.recall("zeppelin", mode=KEYWORD, filter=facts)
    assert (list(unrelated.hits), list(unrelated.emptied_by)) == ([], [])


async def test_a_paraphrase_is_found_by_meaning_and_scored_by_its_cosine_alone(recall_tenant: RecallTenant) -> None:
    await recall_tenant.say("The boiler was serviced on Monday.")
    await recall_tenant.say("My car broke down on the motorway.")
    await recall_tenant.say("Fine.")

    response = await recall_tenant.recall("automobile trouble", mode=SEMANTIC)

    assert response.hits[0].message.content == "My car broke down on the motorway."
    assert [hit.similarity for hit in response.hits] == sorted((hit.similarity for hit in response.hits), reverse=True)
    for hit in response.hits:
        assert signals(hit) == ["dense"]
        assert hit.score == pytest.approx(max(0.0, hit.similarity))
        assert not hit.HasField("has_query_words")
    assert (response.formula, response.model) == (f"semantic-{VERSION}", "all-minilm-l6-v2")


async def test_a_word_without_a_vector_finds_nothing_by_meaning(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("We took the automobile.", index=False)

    assert await recall_tenant.contents("automobile", mode=SEMANTIC) == []


async def test_the_least_similarity_holds_by_meaning(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("My car broke down on the motorway.")
    await recall_tenant.remember("Gravel arrived.")

    assert await recall_tenant.contents("automobile trouble on the road", mode=SEMANTIC, min_similarity=0.4) == [
        "My car broke down on the motorway."
    ]
    assert await recall_tenant.contents("automobile trouble on the road", mode=SEMANTIC, min_similarity=0.99) == []


async def test_a_vector_is_enough_by_meaning_and_replaces_the_text(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("The cat caught a mouse.")
    await recall_tenant.remember("Gravel arrived.")
    vector = await vector_of(recall_tenant, "feline hunting")

    by_vector = await recall_tenant.recall(embedding=vector, mode=SEMANTIC)
    beside_a_text = await recall_tenant.recall("gravel", embedding=vector, mode=SEMANTIC)

    assert by_vector.hits[0].memory.content == "The cat caught a mouse."
    assert [hit.score for hit in beside_a_text.hits] == [hit.score for hit in by_vector.hits]


@pytest.mark.system
async def test_a_search_by_meaning_without_the_model_fails_instead_of_finding_nothing(
    recall_server: RecallServer, recall_tenant: RecallTenant
) -> None:
    await recall_tenant.remember("We took the automobile.")
    vector = await vector_of(recall_tenant, "automobile")

    async with serving(recall_server.url, recall_server.key, SKEIN_ADVANCED_RECALL_EMBED_TIMEOUT_SECONDS="0") as late:
        with refused(grpc.StatusCode.UNAVAILABLE, "MODEL_UNAVAILABLE"):
            await RecallTenant(late, recall_tenant.tenant_id).recall("automobile", mode=SEMANTIC)
        by_vector = await RecallTenant(late, recall_tenant.tenant_id).contents(embedding=vector, mode=SEMANTIC)

    assert by_vector == ["We took the automobile."]


@pytest.mark.system
async def test_hybrid_is_what_is_searched_without_a_mode_and_as_it_was(recall_tenant: RecallTenant) -> None:
    for text in ("Where did you leave the automobile?", "My car is at the garage.", "Fine.", "Gravel arrived."):
        await recall_tenant.say(text)

    unspecified = await recall_tenant.recall("automobile at the garage", min_relevance=0)
    hybrid = await recall_tenant.recall("automobile at the garage", min_relevance=0, mode=HYBRID)

    assert hybrid == unspecified
    assert hybrid.formula == f"scores-{TOKENS_VERSION}"
    assert len(hybrid.hits) == 4
    assert {"dense", "context", "lexical", "reply", "statement", "length", "tokens"} == set(signals(hybrid.hits[0]))


@pytest.mark.parametrize("fusion", ["scores", "ranks"])
async def test_a_hybrid_hit_says_whether_it_contains_a_word_of_the_query_itself(
    recall_tenant: RecallTenant, fusion: str
) -> None:
    await recall_tenant.say("My car is at the garage.")
    await recall_tenant.say("We took the automobiles.")

    hits = (await recall_tenant.recall("automobile", fusion=fusion)).hits

    assert {hit.message.content: hit.has_query_words for hit in hits} == {
        "My car is at the garage.": False,
        "We took the automobiles.": True,
    }


async def test_a_search_by_a_vector_alone_says_nothing_of_words(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("We took the automobile.")

    (hit,) = (await recall_tenant.recall(embedding=await vector_of(recall_tenant, "automobile"))).hits

    assert not hit.HasField("has_query_words")


@pytest.mark.system
async def test_the_same_query_is_answered_by_the_mode_of_each_call(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("My car broke down on the motorway.")

    for _ in range(2):
        assert len(await recall_tenant.contents("automobile")) == 1
        assert await recall_tenant.contents("automobile", mode=KEYWORD) == []
        assert len(await recall_tenant.contents("automobile", mode=SEMANTIC)) == 1


@pytest.mark.parametrize("mode", [KEYWORD, SEMANTIC], ids=["keyword", "semantic"])
@pytest.mark.parametrize("formula", [{"weights": {"lexical": 1.0}}, {"fusion": "ranks"}, {"fusion": "scores"}], ids=str)
async def test_weights_and_fusion_belong_to_the_hybrid_mode(
    recall_tenant: RecallTenant, mode: int, formula: dict[str, Any]
) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await recall_tenant.recall("automobile", mode=mode, **formula)


@pytest.mark.parametrize("field", [{"min_similarity": 0.5}, {"embedding": [1.0] * 384}], ids=["similarity", "vector"])
async def test_a_keyword_search_refuses_options_that_need_a_vector(
    recall_tenant: RecallTenant, field: dict[str, Any]
) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await recall_tenant.recall("automobile", mode=KEYWORD, **field)


@pytest.mark.parametrize("mode", [KEYWORD, SEMANTIC], ids=["keyword", "semantic"])
async def test_a_mode_needs_something_to_look_for(recall_tenant: RecallTenant, mode: int) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "QUERY_EMPTY"):
        await recall_tenant.recall("  ", mode=mode)


async def test_an_unknown_mode_is_refused(recall_tenant: RecallTenant) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await recall_tenant.recall("automobile", mode=9)
