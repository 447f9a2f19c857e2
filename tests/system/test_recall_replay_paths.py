"""Replays of answers found by approximate codes, without pending vectors, or by another formula."""

from __future__ import annotations

import hashlib
from pathlib import Path
from uuid import UUID

import pytest
from fix_cluster import Cluster, Tenant, running_cluster, test_environment
from fix_models import REINDEX_NOW, until, until_scanned
from fix_receipts import TOPICS, recall_beside_a_purged_message, recall_with_receipt
from fix_world import identity

from skein.auth.v1 import auth_pb2_grpc, certificates_pb2
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein.session.v1 import session_pb2
from skein_recall import service


async def replay(tenant: Tenant, response: pb.RecallResponse) -> pb.ReplayRecallResponse:
    return await tenant.recall.ReplayRecall(pb.ReplayRecallRequest(receipt_id=response.receipt_id))


def shown(response: pb.RecallResponse) -> list[tuple[str, float, str]]:
    """Return what a caller sees of each hit."""
    return [(hit.item_id, hit.score, hit.memory.content or hit.message.content) for hit in response.hits]


def _told_by_words(response: pb.RecallResponse) -> list[str]:
    """Return the messages that the words of the query tell, their own or those beside them."""
    return [
        hit.message.content
        for hit in response.hits
        if any(part.signal == "lexical" and part.raw > 0 for part in hit.components)
    ]


async def append(tenant: Tenant, *contents: str) -> None:
    role = session_pb2.MESSAGE_ROLE_USER
    messages = [session_pb2.Message(role=role, content=content) for content in contents]
    request = session_pb2.AppendMessagesRequest(session_id="s", messages=messages, create_session=True)
    await tenant.sessions.AppendMessages(request)


async def test_an_answer_without_pending_vectors_replays_after_they_came(cluster: Cluster, tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    for topic in TOPICS:
        await tenant.remember(f"The {topic} belongs to the mill.")
    query = "where is the kettle of the mill?"
    response = await recall_with_receipt(tenant, query, min_relevance=0, limit=100)
    # The worker makes the vectors of a large batch, unless it happens to be there already.
    while not response.pending_embedding_count:
        await append(tenant, *(f"The {TOPICS[number % 8]} of house {number}." for number in range(100)))
        response = await tenant.search(query, min_relevance=0, limit=100)
    without_vectors = [hit for hit in response.hits if not hit.HasField("similarity")]

    async def has_vectors() -> bool:
        return not (await tenant.search(query, limit=1)).pending_embedding_count

    await until_scanned(cluster, has_vectors)
    later = await tenant.search(query, min_relevance=0, limit=100)
    replayed = await replay(tenant, response)

    assert without_vectors
    assert all(hit.HasField("similarity") for hit in later.hits)
    assert shown(replayed.response) == shown(response)
    assert replayed.response.pending_embedding_count == response.pending_embedding_count
    assert replayed.identical, replayed


async def test_an_answer_that_approximate_codes_found_replays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Whatever share of the neighbours the codes of so few vectors find.
    monkeypatch.setattr(service, "MIN_RECALL", 0.0)
    environment = {
        **test_environment(),
        "SKEIN_ADVANCED_RECALL_CACHE_EXACT_CHUNKS": "0",
    }
    async with running_cluster(tmp_path, environment, form="one") as cluster:
        tenant = await cluster.new_tenant()
        await tenant.set_policy(recall_receipts="all", audit_query_text=True)
        ids = [await tenant.remember(f"The {topic} of house {number}.") for number, topic in enumerate(TOPICS * 5)]
        await recall_with_receipt(tenant, "the kettle of the house", min_relevance=0)

        async def is_approximate() -> bool:
            return (await tenant.search("the kettle", min_relevance=0)).dense_path == "approximate"

        await until(is_approximate)
        response = await tenant.search("the kettle of the house", min_relevance=0)

        for memory_id in ids[::3]:
            await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=memory_id))
        await tenant.remember("The kettle stands in the house of the kettles.")
        replayed = await replay(tenant, response)

    assert shown(replayed.response) == shown(response)
    assert response.dense_path == replayed.response.dense_path == "approximate"
    assert replayed.identical, replayed


async def test_an_answer_of_another_formula_is_shown_and_not_called_the_same(cluster: Cluster, tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    for topic in TOPICS:
        await tenant.remember(f"The {topic} belongs to the mill.")
    response = await recall_with_receipt(tenant, "the kettle of the mill", min_relevance=0)
    before = await replay(tenant, response)
    await _sign_as_formula(cluster, tenant, response.receipt_id, "scores-1999-12")

    after = await replay(tenant, response)

    assert before.identical
    assert [(gap.reason, gap.name) for gap in after.gaps] == [(pb.REPLAY_GAP_REASON_FORMULA_CHANGED, "scores-1999-12")]
    assert shown(after.response) == shown(response)
    assert not after.identical


async def test_an_answer_of_the_former_formula_is_replayed_by_it(cluster: Cluster, tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    ids = [await tenant.remember(f"The kettle of the mill is kept by {name}.") for name in ("Ines", "Bruno")]
    for topic in TOPICS[1:]:
        await tenant.remember(f"The {topic} belongs to the harbour.")
    asked = ["the violin of the harbour", "who keeps the kettle of the mill?"]
    unchanged, changed = [await recall_with_receipt(tenant, query, weights={"tokens": 0.0}) for query in asked]
    for response in (unchanged, changed):
        assert (await replay(tenant, response)).identical
        await _sign_as_formula(cluster, tenant, response.receipt_id, "scores-4")

    replayed, former = [await replay(tenant, response) for response in (unchanged, changed)]

    assert [hit.item_id for hit in changed.hits[:2]] == ids[::-1]
    assert list(changed.hits[0].older_ids) == ids[:1]
    assert not replayed.gaps
    assert not former.gaps
    assert not any(hit.older_ids for hit in former.response.hits)
    assert set(ids) <= set(former.differing_ids)


async def test_an_answer_of_the_version_before_is_replayed_with_its_cuts(cluster: Cluster, tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    for topic in TOPICS:
        await tenant.remember(f"The {topic} belongs to the harbour.")
    response = await recall_with_receipt(tenant, "which violins are in the harbour?", min_relevance=0)
    assert (await replay(tenant, response)).identical
    await _sign_as_formula(cluster, tenant, response.receipt_id, "scores-6", weights=9)

    replayed = await replay(tenant, response)

    assert not replayed.gaps
    assert replayed.identical, replayed
    assert replayed.response.formula == "scores-6"


async def test_an_answer_of_the_version_before_is_replayed_with_two_neighbours_on_each_side(
    cluster: Cluster, tenant: Tenant
) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    turns = ["The accordion is broken.", "Oh no!", "How come?", "It fell down.", "From the shelf?"]
    await append(tenant, *turns)
    response = await recall_with_receipt(tenant, "accordion", min_relevance=0)
    assert (await replay(tenant, response)).identical
    await _sign_as_formula(cluster, tenant, response.receipt_id, "scores-6", weights=9)

    former = (await replay(tenant, response)).response

    assert set(_told_by_words(response)) == set(turns)
    assert set(_told_by_words(former)) == set(turns[:3])


async def test_an_answer_of_a_model_replays_as_before_relevance_was_fitted_to_it(
    cluster: Cluster, tenant: Tenant
) -> None:
    model = pb.EmbeddingModel(model="e5-small-v2", provider="embedded", dimensions=384)
    await cluster.operator.recall.RegisterEmbeddingModel(pb.RegisterEmbeddingModelRequest(embedding_model=model))
    await cluster.operator.recall.OfferEmbeddingModel(pb.OfferEmbeddingModelRequest(model=model.model))
    await tenant.set_policy(recall_receipts="all", audit_query_text=True, embedding_model=model.model)
    for topic in TOPICS:
        await tenant.remember(f"The {topic} belongs to the harbour.")

    async def is_switched() -> bool:
        async with cluster.superuser() as connection:
            await connection.execute(REINDEX_NOW)
        return (await tenant.search("the kettle")).model == model.model

    await until(is_switched)
    response = await recall_with_receipt(tenant, "which violins are in the harbour?", min_relevance=0)
    present = await replay(tenant, response)
    await _sign_as_formula(cluster, tenant, response.receipt_id, "scores-7")

    former = await replay(tenant, response)

    assert response.formula == "scores-9"
    assert present.identical, present
    assert former.identical, former
    assert all(hit.HasField("relevance") for hit in present.response.hits)
    assert not any(hit.HasField("relevance") for hit in former.response.hits)


async def test_a_replay_says_that_what_stood_beside_the_hits_was_purged(tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    await tenant.remember("The lantern hangs in the cellar.")
    about_cellar = await recall_with_receipt(tenant, "the cellar", kinds=[pb.ITEM_KIND_MEMORY])
    about_attic = await recall_beside_a_purged_message(tenant)
    unaffected, affected = await replay(tenant, about_cellar), await replay(tenant, about_attic)

    assert len(about_attic.hits) == 1
    assert unaffected.identical, unaffected
    assert not affected.identical
    assert [(gap.reason, gap.count, list(gap.item_ids)) for gap in affected.gaps] == [
        (pb.REPLAY_GAP_REASON_OTHERS_PURGED, 1, [])
    ]
    assert [hit.item_id for hit in affected.response.hits] == [hit.item_id for hit in about_attic.hits]


async def _sign_as_formula(
    cluster: Cluster, tenant: Tenant, receipt_id: str, formula: str, *, weights: int = 8
) -> None:
    """Make a receipt that of a version of Skein that ranked by another formula, with a valid signature."""
    token = await identity(cluster, tenant.api_key)
    async with cluster.superuser() as connection, cluster.direct("auth") as channel:
        row: tuple[str, UUID] = (receipt_id, tenant.tenant_id)
        read = "SELECT content FROM recall.receipts WHERE receipt_id = $1 AND tenant_id = $2"
        content = pb.ReceiptContent.FromString(await connection.fetchval(read, *row))
        content.formula = formula
        # The first versions had none of tokens.
        del content.weights[weights:]
        signed = content.SerializeToString(deterministic=True)
        request = certificates_pb2.SignRecallReceiptsRequest(
            receipt_ids=[bytes.fromhex(receipt_id.replace("-", ""))], digests=[hashlib.sha256(signed).digest()]
        )
        response = await auth_pb2_grpc.AuthInternalServiceStub(channel).SignRecallReceipts(
            request, metadata=(("authorization", f"Bearer {token}"),)
        )
        await connection.execute(
            "UPDATE recall.receipts SET content = $3, key_id = $4, signature = $5"
            " WHERE receipt_id = $1 AND tenant_id = $2",
            *row,
            signed,
            response.key_id,
            response.signatures[0],
        )
