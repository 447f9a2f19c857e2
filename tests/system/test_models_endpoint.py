"""Models behind endpoints in a running recall service: registered by operators, and what happens when one is down."""

from __future__ import annotations

import asyncio
import io
from typing import Any
from uuid import uuid4

import grpc
import pytest
from fix_cluster import refused
from fix_endpoint import DIMENSIONS, Answer, EmbeddingServer
from fix_models import EMBEDDED, WORDS, Deployment, cosine, run_deployment, until

from skein.recall.v1 import recall_pb2 as pb
from skein.recall.v1 import recall_pb2_grpc as rpc
from skein_cluster.embedded.server import Server
from skein_kit.language_model import circuit_breaker
from skein_kit.language_model.circuit_breaker import MAX_FAILURES
from skein_recall.models.similarity_scale import PAIRS


async def listed(stub: rpc.RecallServiceAsyncStub, model: str = WORDS) -> pb.EmbeddingModel:
    response = await stub.ListEmbeddingModels(pb.ListEmbeddingModelsRequest())
    return next(one for one in response.embedding_models if one.model == model)


async def test_an_endpoint_s_url_is_shown_to_operators_only(deployment: Deployment) -> None:
    await deployment.register(remote_model="w-64", batch_size=8, timeout_seconds=3.5, window_characters=900)

    whole, shown = await listed(deployment.operator), await listed(deployment.tenant.stub)

    assert (whole.endpoint, whole.remote_model, whole.batch_size) == (deployment.endpoint.endpoint, "w-64", 8)
    assert (whole.timeout_seconds, whole.window_characters, whole.followed) == (3.5, 900, False)
    assert shown == pb.EmbeddingModel(
        model=WORDS, provider="openai", dimensions=DIMENSIONS, create_time=whole.create_time
    )


@pytest.mark.parametrize(
    "values",
    [
        {"endpoint": ""},
        {"endpoint": "ftp://127.0.0.1/v1"},
        {"endpoint": "http://127.0.0.1:9/v1"},
        {"endpoint": "https://example.com/v1?key=1"},
        {"endpoint": "https://user:secret@example.com/v1"},
        {"window_characters": 20},
        {"batch_size": 1000},
        {"provider": "caller"},
        {"provider": "somebody"},
    ],
)
async def test_an_endpoint_that_cannot_be_asked_is_refused(deployment: Deployment, values: dict[str, Any]) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await deployment.register(**values)


async def test_the_key_goes_to_the_endpoint_and_nowhere_else(
    server: Server, template: str, endpoint: EmbeddingServer, log: io.StringIO
) -> None:
    keys = {"SKEIN_EMBEDDINGS_API_KEY": "everybody-s", "SKEIN_EMBEDDINGS_API_KEY_WORDS": "its-own"}
    async with run_deployment(server, template, endpoint, **keys) as deployment:
        await deployment.register()
        await deployment.register("other")
        await deployment.start()
        await deployment.start("other")
        endpoint.breaks(Answer(b"401 Who"))
        with refused(grpc.StatusCode.UNAVAILABLE, "MODEL_UNAVAILABLE") as caught:
            await deployment.start()
        async with deployment.service.superuser() as connection:
            rows = await connection.fetch("SELECT m::text FROM recall.embedding_models AS m")

    assert list(dict.fromkeys(endpoint.keys)) == ["Bearer its-own", "Bearer everybody-s"]
    visible_text = log.getvalue() + str(caught.value) + str(rows)
    assert "its-own" not in visible_text
    assert "everybody-s" not in visible_text


async def test_while_the_endpoint_is_down_words_still_find_and_say_so_at_once(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However slow this machine is, the endpoint is not tried again meanwhile.
    monkeypatch.setattr(circuit_breaker, "FIRST_PAUSE_SECONDS", 3600.0)
    await deployment.tenant.remember("Owls hunt at night.")
    await deployment.change(timeout_seconds=2.0)
    deployment.endpoint.breaks(Answer(hangs=True))
    for number in range(MAX_FAILURES):
        assert (await deployment.tenant.recall(f"owls {number}")).dense_unavailable
    request_count = len(deployment.endpoint.batches)

    answer = await deployment.tenant.recall("owls at night")

    assert (answer.dense_unavailable, answer.model) == (True, WORDS)
    assert [hit.memory.content for hit in answer.hits] == ["Owls hunt at night."]
    # The endpoint was not called, so there was nothing to wait for.
    assert len(deployment.endpoint.batches) == request_count


async def test_while_the_endpoint_is_down_writers_leave_items_to_the_backlog(deployment: Deployment) -> None:
    await deployment.change()
    deployment.endpoint.breaks(Answer(b"401 Who"))
    item_id = await deployment.tenant.remember("Owls hunt at night.", index=False)
    item = pb.IndexItem(item_id=item_id, revision=1, text="Owls hunt at night.")
    with refused(grpc.StatusCode.UNAVAILABLE, "MODEL_UNAVAILABLE"):
        await deployment.tenant.index.IndexItems(pb.IndexItemsRequest(items=[item]))
    assert await deployment.backlog() == 0

    deployment.endpoint.heals()

    assert await deployment.backlog() == 1
    assert (await deployment.tenant.recall("owls")).hits[0].HasField("similarity")


async def test_an_endpoint_that_hangs_holds_no_connection_to_the_database(deployment: Deployment) -> None:
    """Writer and searcher wait for it until their deadline, and block no other call meanwhile."""
    await deployment.change()
    item_id = await deployment.tenant.remember("Owls hunt at night.", index=False)
    item = pb.IndexItem(item_id=item_id, revision=1, text="Owls hunt at night.")
    request_count = len(deployment.endpoint.batches)
    deployment.endpoint.breaks(Answer(hangs=True))

    async def index() -> None:
        await deployment.tenant.index.IndexItems(pb.IndexItemsRequest(items=[item]), timeout=10.0)

    writing = asyncio.create_task(index())
    async with asyncio.timeout(30):
        while len(deployment.endpoint.batches) == request_count:
            await asyncio.sleep(0.01)
    async with deployment.service.superuser() as connection:
        count = await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'skein_recall' "
            "AND datname = current_database() AND state LIKE 'idle in transaction%' "
            # A reader leaves its transaction open for the next one, for a moment.
            "AND state_change < now() - interval '1 second'"
        )
    with pytest.raises(grpc.RpcError) as caught:
        await writing

    assert count == 0
    assert caught.value.code() in {grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE}


async def test_a_long_text_is_cut_to_the_model_s_window_and_its_last_words_are_found(deployment: Deployment) -> None:
    await deployment.register(window_characters=500, similarity_floor=0, similarity_ceiling=1)
    await deployment.start()
    await deployment.work()
    await deployment.use(WORDS)
    filler = "The weather was fair and nobody had much to say about it. " * 200
    item_id = await deployment.tenant.remember(f"{filler}The kiosk sells liquorice.", index=False)

    await deployment.backlog()

    sent = [text for batch in deployment.endpoint.batches for text in batch]
    assert max(map(len, sent)) <= 500
    question = "which kiosk sells liquorice"
    (hit,) = (await deployment.tenant.recall(question)).hits
    assert hit.item_id == item_id
    assert hit.similarity == pytest.approx(max(cosine(question, text) for text in sent[1:]), abs=0.01)
    assert "liquorice" in max(sent[1:], key=lambda text: cosine(question, text))


async def test_texts_are_embedded_by_the_model_in_force(deployment: Deployment) -> None:
    before = await deployment.tenant.stub.EmbedText(pb.EmbedTextRequest(texts=["tea"]))
    await deployment.change()
    after = await deployment.tenant.stub.EmbedText(pb.EmbedTextRequest(texts=["tea"]))
    deployment.endpoint.chokes_on = "gristle"

    assert (before.model, len(before.embeddings[0].values)) == (EMBEDDED, 384)
    assert (after.model, len(after.embeddings[0].values)) == (WORDS, DIMENSIONS)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await deployment.tenant.stub.EmbedText(pb.EmbedTextRequest(texts=["gristle"]))


def sent(endpoint: EmbeddingServer) -> list[str]:
    """The texts that the endpoint got since the last call, in order, without those that measure the model."""
    known = {text for pair in PAIRS for text in pair}
    texts = [text for batch in endpoint.batches for text in batch if text.partition(": ")[2] not in known]
    endpoint.batches.clear()
    return texts


async def test_a_queued_text_that_was_deleted_or_changed_meanwhile_is_not_embedded(deployment: Deployment) -> None:
    await deployment.change()
    kept, changed = [await deployment.tenant.remember(text, index=False) for text in ("green tea", "black tea")]
    queued = [
        pb.IndexItem(item_id=str(uuid4()), revision=1, text="a deleted text"),
        pb.IndexItem(item_id=changed, revision=7, text="another text"),
        pb.IndexItem(item_id=kept, revision=1, text="green tea"),
    ]
    deployment.endpoint.batches.clear()

    await deployment.tenant.index.IndexItems(pb.IndexItemsRequest(items=queued, defer_embedding=True))

    async def is_embedded() -> bool:
        return kept in await deployment.vectors(WORDS)

    await until(is_embedded)
    assert deployment.endpoint.batches == [["green tea"]]


async def test_queries_and_stored_texts_are_embedded_behind_their_prefixes(deployment: Deployment) -> None:
    stub, endpoint = deployment.tenant.stub, deployment.endpoint
    item_id = await deployment.tenant.remember("Gravel arrived.")
    await deployment.change(query_prefix="ask: ", passage_prefix="tell: ")

    assert sent(endpoint) == ["tell: Gravel arrived."]
    await deployment.tenant.recall("Gravel arrived.")
    await deployment.tenant.recall("Gravel arrived.")
    assert sent(endpoint) == ["ask: Gravel arrived."]
    await stub.EmbedText(pb.EmbedTextRequest(texts=["tea"]))
    await stub.EmbedText(pb.EmbedTextRequest(texts=["tea"], purpose=pb.EMBED_PURPOSE_PASSAGE))
    await stub.EmbedText(pb.EmbedTextRequest(texts=["tea"], purpose=pb.EMBED_PURPOSE_QUERY))
    assert sent(endpoint) == ["tell: tea", "tell: tea", "ask: tea"]
    async with deployment.service.superuser() as connection:
        await connection.execute("DELETE FROM recall.embeddings_words")
    await stub.FindSimilar(pb.FindSimilarRequest(item_id=item_id))
    # The query of the same words is cached, as a query.
    assert sent(endpoint) == ["tell: Gravel arrived."]


async def test_chunks_leave_room_for_the_prefix(deployment: Deployment) -> None:
    await deployment.change(passage_prefix="tell: " * 10, window_characters=300)
    await deployment.tenant.remember("The weather was fair and nobody had much to say about it. " * 30)

    lengths = [len(text) for text in sent(deployment.endpoint)]

    assert len(lengths) > 5
    assert max(lengths) <= 300


async def test_the_first_reindex_measures_the_range_of_a_model_s_cosines(deployment: Deployment) -> None:
    await deployment.register()
    before = await listed(deployment.tenant.stub)

    await deployment.start()

    after = await listed(deployment.tenant.stub)
    assert not before.HasField("similarity_floor")
    assert not before.HasField("similarity_ceiling")
    assert -1 < after.similarity_floor < after.similarity_ceiling
    deployment.endpoint.batches.clear()
    await deployment.start()
    assert len(deployment.endpoint.batches) == 1
    assert await listed(deployment.tenant.stub) == after


async def test_a_registered_range_is_kept_and_scales_meaning_in_the_score_alone(deployment: Deployment) -> None:
    await deployment.change(similarity_floor=0.4, similarity_ceiling=0.9)
    await deployment.tenant.remember("Gravel arrived at noon.")

    (hit,) = (await deployment.tenant.recall("gravel arrived on Monday")).hits

    expected = cosine("Gravel arrived at noon.", "gravel arrived on Monday")
    (dense,) = [part for part in hit.components if part.signal == "dense"]
    assert hit.similarity == pytest.approx(expected, abs=0.01)
    assert dense.raw == pytest.approx(expected, abs=0.01)
    assert dense.value == pytest.approx((expected - 0.4) / 0.5, abs=0.02)
    model = await listed(deployment.tenant.stub)
    assert (model.similarity_floor, model.similarity_ceiling) == (0.4, 0.9)


@pytest.mark.parametrize(
    "values",
    [
        {"similarity_floor": 0.2},
        {"similarity_ceiling": 0.2},
        {"similarity_floor": 0.5, "similarity_ceiling": 0.5},
        {"similarity_floor": -2, "similarity_ceiling": 1},
        {"query_prefix": "x" * 101},
        {"provider": "caller", "endpoint": "", "passage_prefix": "tell: "},
    ],
)
async def test_prefixes_and_ranges_that_do_not_fit_are_refused(deployment: Deployment, values: dict[str, Any]) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await deployment.register(**values)
