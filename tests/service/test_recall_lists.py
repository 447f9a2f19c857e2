"""A question for all of something gets more hits, cut by their share of the best one's relevance, and says so."""

from __future__ import annotations

import pytest
from fix_cluster import Tenant
from google.protobuf.field_mask_pb2 import FieldMask

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.tenancy.v1 import subjects_pb2

COUNTRIES = (
    "Austria",
    "Belgium",
    "Cyprus",
    "Denmark",
    "Estonia",
    "Finland",
    "Greece",
    "Hungary",
    "Iceland",
    "Latvia",
    "Malta",
    "Norway",
    "Portugal",
)
ALL = "Which countries has Anna visited?"
ONE = "Which country has Anna visited?"


async def visit(tenant: Tenant) -> None:
    memories = [memory_pb2.Memory(content=f"Anna visited the country {name}.") for name in COUNTRIES]
    await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))


async def recall(tenant: Tenant, query: str, **fields: object) -> pb.RecallResponse:
    return await tenant.gateway.Recall(pb.RecallRequest(query=query, **fields))  # type: ignore[arg-type]


@pytest.mark.system
async def test_a_question_for_all_gets_more_hits_where_no_limit_is_set(tenant: Tenant) -> None:
    await visit(tenant)

    everything = await recall(tenant, ALL)
    one = await recall(tenant, ONE)
    limited = await recall(tenant, ALL, limit=4)

    assert (len(everything.hits), everything.asks_for_all) == (len(COUNTRIES), True)
    assert (len(one.hits), one.asks_for_all) == (10, False)
    assert (len(limited.hits), limited.asks_for_all) == (4, True)


async def test_a_context_has_room_for_what_a_question_for_all_finds(tenant: Tenant) -> None:
    await visit(tenant)

    context = await tenant.gateway.BuildContext(pb.BuildContextRequest(recall=pb.RecallRequest(query=ALL)))
    one = await tenant.gateway.BuildContext(pb.BuildContextRequest(recall=pb.RecallRequest(query=ONE)))

    assert context.asks_for_all
    assert len(context.citations) == len(COUNTRIES)
    assert not one.asks_for_all


@pytest.mark.system
@pytest.mark.parametrize(("query", "is_kept"), [(ALL, True), (ONE, False)])
async def test_a_hit_with_a_share_of_the_best_relevance_is_kept_for_all_alone(
    tenant: Tenant, query: str, *, is_kept: bool
) -> None:
    await visit(tenant)
    policy = subjects_pb2.Policy(recall_min_relevance=0.95, recall_min_best_relevance=0.0)
    mask = FieldMask(paths=["recall_min_relevance", "recall_min_best_relevance"])
    await tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))

    by_policy = await recall(tenant, query)
    by_request = await recall(tenant, query, min_relevance=0.95)

    assert bool(by_policy.hits) is is_kept
    assert not by_request.hits


@pytest.mark.system
async def test_an_answer_for_all_is_replayed_with_the_same_hits(tenant: Tenant) -> None:
    await visit(tenant)
    policy = subjects_pb2.Policy(recall_receipts="all", audit_query_text=True)
    mask = FieldMask(paths=["recall_receipts", "audit_query_text"])
    await tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))
    answer = await recall(tenant, ALL)

    replayed = await tenant.recall.ReplayRecall(recall_pb2.ReplayRecallRequest(receipt_id=answer.receipt_id))

    assert replayed.identical
    assert replayed.response.asks_for_all
    assert [hit.item_id for hit in replayed.response.hits] == [hit.item_id for hit in answer.hits]
