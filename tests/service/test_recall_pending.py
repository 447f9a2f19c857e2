"""Answers say how many items of the tenant have no vector yet."""

from __future__ import annotations

import uuid

import pytest
from fix_recall import RecallTenant

from skein.recall.v1 import recall_pb2 as pb

BOILER = "The plumber repaired the boiler in the cellar."
QUERIES = (
    {"query": "Who fixed the heating?"},
    # Stop words alone.
    {"query": "what is it"},
    {"query": "Who fixed the heating?", "mode": pb.SEARCH_MODE_SEMANTIC},
    {"embedding": [1.0, *[0.0] * 383]},
    {"query": "Who fixed the heating?", "filter": {"types": ["fact"]}},
)


@pytest.mark.parametrize("query", QUERIES)
async def test_an_answer_says_how_many_items_have_no_vector_yet(recall_tenant: RecallTenant, query: dict) -> None:  # type: ignore[type-arg]
    memory_id = await recall_tenant.remember(BOILER, index=False)
    await recall_tenant.say("The heating is warm again.", index=False)
    await recall_tenant.remember("Green tea.")

    before = await recall_tenant.recall(**query)
    await recall_tenant.embed(uuid.UUID(memory_id), BOILER)
    after = await recall_tenant.recall(**query)

    assert (before.pending_embedding_count, after.pending_embedding_count) == (2, 1)


async def test_a_tenant_without_any_vector_has_all_items_to_come(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember(BOILER, index=False)

    by_both, by_meaning = await recall_tenant.recall("boiler"), await recall_tenant.recall(embedding=[1.0] * 384)

    assert (len(by_both.hits), len(by_meaning.hits)) == (1, 0)
    assert by_both.pending_embedding_count == by_meaning.pending_embedding_count == 1


async def test_what_is_like_an_item_may_have_no_vector_yet(recall_tenant: RecallTenant) -> None:
    memory_id = await recall_tenant.remember(BOILER)
    await recall_tenant.remember("A plumber came.", index=False)

    response = await recall_tenant.stub.FindSimilar(pb.FindSimilarRequest(item_id=memory_id))

    assert response.pending_embedding_count == 1


async def test_words_alone_miss_no_vector(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember(BOILER, index=False)

    response = await recall_tenant.recall("boiler", mode=pb.SEARCH_MODE_KEYWORD)

    assert (len(response.hits), response.pending_embedding_count) == (1, 0)


async def test_items_of_other_tenants_do_not_count(recall_tenant: RecallTenant) -> None:
    other = await recall_tenant.service.new_tenant()
    await other.remember(BOILER, index=False)
    await recall_tenant.remember(BOILER)

    assert (await recall_tenant.recall("boiler")).pending_embedding_count == 0
