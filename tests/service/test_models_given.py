"""Vectors that callers bring: for items that are there, in chunks, of any registered model."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused
from fix_models import EMBEDDED, WORDS, Deployment
from fix_recall import RecallTenant

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein.session.v1 import session_pb2
from skein_client import Client

SIZE = 384


def axis(position: int, size: int = SIZE) -> list[float]:
    """A vector along one axis."""
    return [float(number == position) for number in range(size)]


def embeddings(*places: int, size: int = SIZE) -> list[pb.Embedding]:
    return [pb.Embedding(values=axis(position, size)) for position in places]


async def similarity(recall_tenant: RecallTenant, number: int, item_id: str) -> float:
    hits = (await recall_tenant.recall(embedding=axis(number), limit=100)).hits
    return next((hit.similarity for hit in hits if hit.item_id == item_id), 0.0)


@pytest.mark.system
async def test_the_vectors_brought_take_the_place_of_those_made(recall_tenant: RecallTenant) -> None:
    item_id = await recall_tenant.remember("Owls hunt at night.")

    response = await recall_tenant.stub.PutEmbedding(
        pb.PutEmbeddingRequest(item_id=item_id, embeddings=embeddings(1, 2, 3))
    )

    assert (response.item_id, response.model, response.vector_count) == (item_id, EMBEDDED, 3)
    assert [await similarity(recall_tenant, number, item_id) for number in (1, 2, 3)] == pytest.approx([1.0] * 3)
    assert await similarity(recall_tenant, 4, item_id) == pytest.approx(0.0)


async def test_an_item_without_vectors_is_no_longer_the_backlog_s(recall_tenant: RecallTenant) -> None:
    item_id = await recall_tenant.remember("Owls hunt at night.", index=False)

    await recall_tenant.stub.PutEmbedding(pb.PutEmbeddingRequest(item_id=item_id, embeddings=embeddings(7)))

    assert (await recall_tenant.index.IndexBacklog(pb.IndexBacklogRequest())).indexed_count == 0
    assert await similarity(recall_tenant, 7, item_id) == pytest.approx(1.0)


async def test_late_embeddings_do_not_replace_caller_vectors(recall_tenant: RecallTenant) -> None:
    item_id = await recall_tenant.remember("Owls hunt at night.", index=False)
    await recall_tenant.stub.PutEmbedding(pb.PutEmbeddingRequest(item_id=item_id, embeddings=embeddings(7)))

    item = pb.IndexItem(item_id=item_id, revision=1, text="Owls hunt at night.")
    await recall_tenant.index.IndexItems(pb.IndexItemsRequest(items=[item]))

    assert await similarity(recall_tenant, 7, item_id) == pytest.approx(1.0)


@pytest.mark.system
async def test_vectors_of_a_following_model_leave_the_other_s_to_be_made(deployment: Deployment) -> None:
    await deployment.register()
    await deployment.start()
    await deployment.work()
    item_id = await deployment.tenant.remember("Owls hunt at night.", index=False)

    put = pb.PutEmbeddingRequest(item_id=item_id, model=WORDS, embeddings=embeddings(7, size=64))
    await deployment.tenant.stub.PutEmbedding(put)
    await deployment.backlog()
    await deployment.use(WORDS)

    (hit,) = (await deployment.tenant.recall(embedding=axis(7, 64))).hits
    assert hit.similarity == pytest.approx(1.0)
    assert item_id in await deployment.vectors(EMBEDDED)


async def test_an_invalid_value_is_refused(recall_tenant: RecallTenant) -> None:
    item_id = await recall_tenant.remember("Owls hunt at night.")

    async def put(**values: Any) -> None:
        fields: dict[str, Any] = {"item_id": item_id, "embeddings": embeddings(1)} | values
        await recall_tenant.stub.PutEmbedding(pb.PutEmbeddingRequest(**fields))

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "DIMENSIONS_MISMATCH"):
        await put(embeddings=[*embeddings(1), pb.Embedding(values=[1.0, 2.0])])
    for wrong in ([], embeddings(*[1] * 65), embeddings(SIZE), [pb.Embedding(values=[float("nan")] * SIZE)]):
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
            await put(embeddings=wrong)
    with refused(grpc.StatusCode.NOT_FOUND, "DOCUMENT_NOT_FOUND"):
        await put(item_id=str(uuid4()))
    with refused(grpc.StatusCode.NOT_FOUND, "DOCUMENT_NOT_FOUND"):
        await put(item_id="", external_id="nobody-s")
    with refused(grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND"):
        await put(model="nobody-s")
    for names in ({"item_id": ""}, {"external_id": "x"}, {"item_id": "x"}):
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
            await put(**names)


async def test_vectors_of_an_earlier_text_are_refused(tenant: Tenant) -> None:
    created = (await tenant.memory.CreateMemory(request_of("Owls hunt at night."))).memory
    changed = memory_pb2.Memory(memory_id=created.memory_id, content="Foxes hunt at dusk.")
    update = memory_pb2.UpdateMemoryRequest(memory=changed)
    update.update_mask.paths.append("content")
    current = (await tenant.memory.UpdateMemory(update)).memory
    put = pb.PutEmbeddingRequest(item_id=created.memory_id, revision=created.revision, embeddings=embeddings(1))

    with refused(grpc.StatusCode.ABORTED, "REVISION_STALE"):
        await tenant.recall.PutEmbedding(put)
    put.revision = current.revision
    await tenant.recall.PutEmbedding(put)

    (hit,) = (await tenant.recall.Recall(pb.RecallRequest(embedding=axis(1)))).hits
    assert hit.similarity == pytest.approx(1.0)


async def test_items_are_named_by_the_ids_of_other_systems_through_the_gateway(tenant: Tenant) -> None:
    memory = (await tenant.memory.CreateMemory(request_of("Owls hunt at night.", external_id="m-1"))).memory
    message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="Good evening.", external_id="c-1")
    remembered = await tenant.gateway.Remember(gateway_pb2.RememberRequest(session_id="s", messages=[message]))
    kind = pb.ITEM_KIND_MESSAGE

    first = await tenant.recall.PutEmbedding(pb.PutEmbeddingRequest(external_id="m-1", embeddings=embeddings(1)))
    second = await tenant.recall.PutEmbedding(
        pb.PutEmbeddingRequest(external_id="c-1", kind=kind, embeddings=embeddings(2))
    )

    assert (first.item_id, second.item_id) == (memory.memory_id, remembered.messages[0].message_id)
    response = await tenant.gateway.Recall(gateway_pb2.RecallRequest(embedding=axis(2), limit=1))
    assert response.hits[0].message.content == "Good evening."


async def test_the_client_brings_vectors_like_any_other_call(cluster: Cluster, tenant: Tenant) -> None:
    async with Client(endpoint=cluster.endpoint, api_key=tenant.api_key) as skein:
        (memory,) = (await skein.remember(["Owls hunt at night."])).memories

        await skein.index.PutEmbedding(pb.PutEmbeddingRequest(item_id=memory.memory_id, embeddings=embeddings(5)))

        (hit,) = (await skein.index.Recall(pb.RecallRequest(embedding=axis(5)))).hits
    assert hit.similarity == pytest.approx(1.0)


def request_of(content: str, **values: Any) -> memory_pb2.CreateMemoryRequest:
    return memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content=content, type="note", **values))


async def states(recall_tenant: RecallTenant, *item_ids: str, **fields: Any) -> pb.BatchGetIndexStatesResponse:
    return await recall_tenant.stub.BatchGetIndexStates(pb.BatchGetIndexStatesRequest(item_ids=item_ids, **fields))


async def test_an_item_s_index_state_says_who_made_its_vectors(recall_tenant: RecallTenant) -> None:
    made = await recall_tenant.remember("Owls hunt at night.")
    brought = await recall_tenant.remember("Bats hunt at night.")
    waiting = await recall_tenant.remember("Cats hunt at night.", index=False)
    put = pb.PutEmbeddingRequest(item_id=brought, embeddings=embeddings(1, 2), provider="sentence-transformers")
    await recall_tenant.stub.PutEmbedding(put)

    answer = await states(recall_tenant, made, brought, waiting, str(uuid4()), "nobody's")
    first, second, third = answer.states

    assert [state.item_id for state in answer.states] == [made, brought, waiting]
    assert [(one.model, one.provider, one.dimensions, one.vector_count, one.from_caller) for one in first.vectors] == [
        (EMBEDDED, "embedded", SIZE, 1, False)
    ]
    (kept,) = second.vectors
    assert (kept.provider, kept.dimensions, kept.vector_count, kept.active) == ("sentence-transformers", SIZE, 2, True)
    assert kept.from_caller
    assert kept.HasField("put_time")
    assert not kept.embeddings
    assert (third.pending, len(third.vectors), first.pending) == (True, 0, False)
    assert len(answer.not_found_ids) == 2


@pytest.mark.system
async def test_an_index_state_shows_the_vectors_where_they_are_asked_for(deployment: Deployment) -> None:
    await deployment.register()
    item_id = await deployment.tenant.remember("Owls hunt at night.")
    put = pb.PutEmbeddingRequest(item_id=item_id, model=WORDS, embeddings=embeddings(7, size=64))
    await deployment.tenant.stub.PutEmbedding(put)

    (state,) = (await states(deployment.tenant, item_id, show_embeddings=True)).states

    shown = {one.model: one for one in state.vectors}
    assert list(shown[WORDS].embeddings[0].values) == axis(7, 64)
    assert (shown[WORDS].provider, shown[WORDS].active) == ("caller", False)
    assert len(shown[EMBEDDED].embeddings[0].values) == SIZE
