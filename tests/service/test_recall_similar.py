"""Items that are like a stored one: what each mode finds, and what is refused."""

from __future__ import annotations

import uuid
from typing import Any

import grpc
import pytest
from fix_cluster import refused
from fix_recall import RecallServer, RecallTenant, serving

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein_recall.search.weights import VERSION, Weights

KEYWORD, SEMANTIC, HYBRID = pb.SEARCH_MODE_KEYWORD, pb.SEARCH_MODE_SEMANTIC, pb.SEARCH_MODE_HYBRID


async def similar(recall_tenant: RecallTenant, item_id: str, **request: Any) -> pb.FindSimilarResponse:
    return await recall_tenant.stub.FindSimilar(pb.FindSimilarRequest(item_id=item_id, **request))


def contents(response: pb.FindSimilarResponse) -> list[str]:
    return [hit.memory.content or hit.message.content for hit in response.hits]


async def test_the_nearest_items_come_first_by_meaning_and_never_the_item_itself(recall_tenant: RecallTenant) -> None:
    cat = await recall_tenant.remember("The cat caught a mouse.")
    await recall_tenant.remember("Gravel arrived on Monday.")
    await recall_tenant.say("Our kitten hunts rodents.")

    response = await similar(recall_tenant, cat, mode=SEMANTIC)

    assert contents(response) == ["Our kitten hunts rodents.", "Gravel arrived on Monday."]
    assert [hit.score for hit in response.hits] == [pytest.approx(max(0.0, hit.similarity)) for hit in response.hits]
    assert (response.formula, response.model) == (f"semantic-{VERSION}", "all-minilm-l6-v2")


async def test_the_text_as_a_query_finds_by_meaning_what_its_item_finds(recall_tenant: RecallTenant) -> None:
    cat = await recall_tenant.remember("The cat caught a mouse.")
    await recall_tenant.remember("Gravel arrived on Monday.")
    await recall_tenant.remember("Our kitten hunts rodents.")

    by_item = await similar(recall_tenant, cat, mode=SEMANTIC)
    by_text = await recall_tenant.recall("The cat caught a mouse.", mode=SEMANTIC)

    assert by_text.hits[0].item_id == cat
    assert [hit.item_id for hit in by_item.hits] == [hit.item_id for hit in by_text.hits[1:]]
    assert [hit.score for hit in by_item.hits] == pytest.approx([hit.score for hit in by_text.hits[1:]], abs=0.01)


async def test_similar_items_by_keyword_share_a_word(recall_tenant: RecallTenant) -> None:
    cat = await recall_tenant.remember("The cat caught a mouse.")
    await recall_tenant.remember("Our kitten hunts rodents.")
    shared = await recall_tenant.say("Two mouse traps are in the cellar.")

    response = await similar(recall_tenant, cat, mode=KEYWORD)

    assert [hit.item_id for hit in response.hits] == [shared]
    assert (response.model, response.dense_path, response.formula) == ("", "none", f"keyword-{VERSION}")


async def test_hybrid_weighs_the_cosine_and_words_alone_whatever_the_items_tell_of_times(
    recall_tenant: RecallTenant,
) -> None:
    meeting = await recall_tenant.say("The meeting is on 3 May 2024 at noon.")
    await recall_tenant.say("Where does it take place?")
    await recall_tenant.remember("The meeting of May was moved.")

    response = await similar(recall_tenant, meeting)

    assert contents(response)[0] == "The meeting of May was moved."
    weights = Weights()
    both = weights.dense + weights.lexical
    for hit in response.hits:
        shares = {component.signal: component.weight for component in hit.components if component.weight}
        assert shares == {
            "dense": pytest.approx(weights.dense / both),
            "lexical": pytest.approx(weights.lexical / both),
        }
    assert response.formula == f"similar-{VERSION}"
    assert response == await similar(recall_tenant, meeting, mode=HYBRID)


@pytest.mark.system
async def test_an_item_of_several_chunks_is_compared_by_all_of_them(recall_tenant: RecallTenant) -> None:
    long = await recall_tenant.remember("The cat caught a mouse. " * 80 + "Gravel arrived by lorry. " * 80)
    await recall_tenant.remember("Our kitten hunts rodents.")
    await recall_tenant.remember("A truck brought stones.")
    await recall_tenant.remember("She plays the violin.")

    response = await similar(recall_tenant, long, mode=SEMANTIC)

    assert contents(response)[2] == "She plays the violin."


@pytest.mark.system
async def test_an_item_without_a_vector_is_embedded_for_the_call(
    recall_server: RecallServer, recall_tenant: RecallTenant
) -> None:
    cat = await recall_tenant.remember("The cat caught a mouse.", index=False)
    await recall_tenant.remember("Our kitten hunts rodents.")

    assert contents(await similar(recall_tenant, cat, mode=SEMANTIC)) == ["Our kitten hunts rodents."]
    async with serving(recall_server.url, recall_server.key, SKEIN_ADVANCED_RECALL_EMBED_TIMEOUT_SECONDS="0") as late:
        elsewhere = RecallTenant(late, recall_tenant.tenant_id)
        with refused(grpc.StatusCode.UNAVAILABLE, "MODEL_UNAVAILABLE"):
            await similar(elsewhere, cat, mode=SEMANTIC)


async def test_an_item_without_words_is_like_no_other_by_keyword(recall_tenant: RecallTenant) -> None:
    blank = await recall_tenant.remember(" ", index=False)
    vector = [1.0] + [0.0] * 383
    await recall_tenant.stub.PutEmbedding(
        pb.PutEmbeddingRequest(item_id=blank, embeddings=[pb.Embedding(values=vector)])
    )

    assert not (await similar(recall_tenant, blank, mode=SEMANTIC)).hits
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "QUERY_EMPTY"):
        await similar(recall_tenant, blank, mode=KEYWORD)


@pytest.mark.system
async def test_its_vectors_need_no_model(recall_server: RecallServer, recall_tenant: RecallTenant) -> None:
    cat = await recall_tenant.remember("The cat caught a mouse.")
    await recall_tenant.remember("Our kitten hunts rodents.")

    async with serving(recall_server.url, recall_server.key, SKEIN_ADVANCED_RECALL_EMBED_TIMEOUT_SECONDS="0") as late:
        result = await similar(RecallTenant(late, recall_tenant.tenant_id), cat, mode=SEMANTIC)

    assert contents(result) == ["Our kitten hunts rodents."]


async def test_limit_kinds_and_similarity_hold(recall_tenant: RecallTenant) -> None:
    cat = await recall_tenant.remember("The cat caught a mouse.")
    await recall_tenant.remember("Our kitten hunts rodents.")
    await recall_tenant.remember("Gravel arrived on Monday.")
    message = await recall_tenant.say("Cats catch mice.")

    assert len((await similar(recall_tenant, cat, limit=1)).hits) == 1
    of_messages = await similar(recall_tenant, cat, kinds=[pb.ITEM_KIND_MESSAGE])
    assert [hit.item_id for hit in of_messages.hits] == [message]
    assert len((await similar(recall_tenant, cat, mode=SEMANTIC, min_similarity=0.3)).hits) == 2


async def test_a_filter_that_leaves_nothing_but_the_item_is_named(recall_tenant: RecallTenant) -> None:
    fact = await recall_tenant.remember("The automobile is red.", type="fact")
    await recall_tenant.remember("We took the automobile.", type="journal")

    response = await similar(recall_tenant, fact, filter=memory_pb2.MemoryFilter(types=["fact"]))

    assert (list(response.hits), response.filter_emptied, list(response.emptied_by)) == ([], True, ["types"])


async def test_an_item_is_named_by_the_id_of_another_system_too(
    recall_server: RecallServer, recall_tenant: RecallTenant
) -> None:
    cat = await recall_tenant.remember("The cat caught a mouse.")
    await recall_tenant.remember("Our kitten hunts rodents.")
    async with recall_server.superuser() as connection:
        await connection.execute(
            "INSERT INTO memory.external_ids (tenant_id, external_id, memory_id) VALUES ($1, 'cat', $2)",
            recall_tenant.tenant_id,
            uuid.UUID(cat),
        )

    by_external_id = await recall_tenant.stub.FindSimilar(pb.FindSimilarRequest(external_id="cat"))

    assert by_external_id == await similar(recall_tenant, cat)
    with refused(grpc.StatusCode.NOT_FOUND, "DOCUMENT_NOT_FOUND"):
        await recall_tenant.stub.FindSimilar(pb.FindSimilarRequest(external_id="cat", kind=pb.ITEM_KIND_MESSAGE))


async def test_an_item_that_is_not_there_or_is_gone_or_of_another_tenant_is_not_found(
    recall_server: RecallServer, recall_tenant: RecallTenant
) -> None:
    gone = await recall_tenant.remember("The cat caught a mouse.")
    theirs = await (await recall_server.new_tenant()).remember("The cat caught a mouse.")
    async with recall_server.superuser() as connection:
        await connection.execute(
            "UPDATE memory.memories SET expire_time = now() - interval '1 hour' WHERE tenant_id = $1",
            recall_tenant.tenant_id,
        )

    for item_id in (gone, theirs, str(uuid.uuid4())):
        with refused(grpc.StatusCode.NOT_FOUND, "DOCUMENT_NOT_FOUND"):
            await similar(recall_tenant, item_id)


@pytest.mark.parametrize(
    "request_",
    [
        {"item_id": ""},
        {"item_id": "cat"},
        {"external_id": "cat"},
        {"limit": 101},
        {"mode": 9},
        {"mode": KEYWORD, "min_similarity": 1},
    ],
    ids=str,
)
async def test_a_malformed_request_is_refused(recall_tenant: RecallTenant, request_: dict[str, Any]) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await similar(recall_tenant, **{"item_id": str(uuid.uuid4()), **request_})
