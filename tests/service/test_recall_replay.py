"""Replays of answers: the same answer whatever was written since, or what of it cannot be had any more."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused
from fix_receipts import TOPICS, recall_with_receipt

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2 as pb


async def replay(tenant: Tenant, receipt_id: str, **fields: Any) -> pb.ReplayRecallResponse:
    return await tenant.recall.ReplayRecall(pb.ReplayRecallRequest(receipt_id=receipt_id, **fields))


def shown(response: pb.RecallResponse) -> list[tuple[str, float, str, int]]:
    """Return what a caller sees of each hit."""
    return [(hit.item_id, hit.score, hit.memory.content, hit.memory.revision) for hit in response.hits]


async def update(tenant: Tenant, memory_id: str, content: str) -> None:
    memory = memory_pb2.Memory(memory_id=memory_id, content=content)
    await tenant.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=memory, update_mask={"paths": ["content"]}))


@pytest.mark.system
async def test_an_answer_replays_after_writes(tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    ids = [await tenant.remember(f"The {topic} belongs to the neighbours of the mill.") for topic in TOPICS]
    responses = [
        await recall_with_receipt(tenant, f"whose is the {topic}?", min_relevance=0, mode=mode)
        for topic in TOPICS[:3]
        for mode in (pb.SEARCH_MODE_HYBRID, pb.SEARCH_MODE_KEYWORD, pb.SEARCH_MODE_SEMANTIC)
    ]
    await update(tenant, ids[0], "The kettle was sold.")
    await tenant.delete_memory(ids[1])
    await tenant.remember("The kettle and the violin belong to the mill itself.")

    for response in responses:
        replayed = await replay(tenant, response.receipt_id)
        assert shown(replayed.response) == shown(response)
        assert replayed.identical, replayed


@pytest.mark.system
async def test_an_answer_replays_with_tokens_or_without_whatever_the_policy_says_now(tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    for topic in TOPICS:
        await tenant.remember(f"The {topic} belongs to the neighbours of the mill.")
    with_tokens, without = [
        await recall_with_receipt(tenant, "whose is the kettle?", min_relevance=0, weights=weights)
        for weights in ({}, {"tokens": 0.0})
    ]

    await tenant.set_policy(recall_token_vectors=False)

    assert [with_tokens.formula, without.formula] == ["scores-8", "scores-7"]
    for response in (with_tokens, without):
        replayed = await replay(tenant, response.receipt_id)
        assert shown(replayed.response) == shown(response)
        assert replayed.identical, replayed


@pytest.mark.system
async def test_random_answers_during_writes_replay(tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    chosen = random.Random(7)
    ids = [await tenant.remember(f"The {chosen.choice(TOPICS)} of house {number}.") for number in range(60)]
    await recall_with_receipt(tenant, "kettle")
    stop = asyncio.Event()

    async def write(seed: int) -> None:
        random_source = random.Random(seed)
        while not stop.is_set():
            action = random_source.random()
            one, other = random_source.choices(TOPICS, k=2)
            text = f"The {one} and the {other} of {random_source.random()}."
            if action < 0.5:
                ids.append(await tenant.remember(text))
            elif action < 0.8:
                await update_if_there(tenant, random_source.choice(ids), text)
            else:
                await delete_if_there(tenant, random_source.choice(ids))

    writers = [asyncio.create_task(write(seed)) for seed in range(3)]
    responses = []
    for _ in range(50):
        query = f"the {chosen.choice(TOPICS)} of the {chosen.choice(TOPICS)}"
        responses.append(await tenant.recall.Recall(pb.RecallRequest(query=query, min_relevance=0)))
    stop.set()
    await asyncio.gather(*writers)

    failures = []
    for response in responses:
        replayed = await replay(tenant, response.receipt_id)
        if not replayed.identical or shown(replayed.response) != shown(response):
            failures.append(response.receipt_id)
    assert not failures, f"{len(failures)} of {len(responses)}"


async def update_if_there(tenant: Tenant, memory_id: str, content: str) -> None:
    try:
        await update(tenant, memory_id, content)
    except grpc.aio.AioRpcError as error:
        if error.code() not in {grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION}:
            raise


async def delete_if_there(tenant: Tenant, memory_id: str) -> None:
    try:
        await tenant.delete_memory(memory_id)
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.NOT_FOUND:
            raise


async def test_a_receipt_with_a_digest_replays_with_its_text(tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all")
    await tenant.remember("The kettle is red.")
    response = await recall_with_receipt(tenant, "which colour has the kettle?")

    with refused(grpc.StatusCode.FAILED_PRECONDITION, "QUERY_TEXT_NEEDED"):
        await replay(tenant, response.receipt_id)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "QUERY_TEXT_MISMATCH"):
        await replay(tenant, response.receipt_id, query="which colour has the violin?")
    replayed = await replay(tenant, response.receipt_id, query="which colour has the kettle?")

    assert replayed.identical
    assert shown(replayed.response) == shown(response)


async def test_a_replay_confirms_no_guess_of_the_query_of_another(cluster: Cluster, tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all")
    await tenant.remember("The kettle is red.")
    query = "which colour has the kettle?"
    asked = await recall_with_receipt(tenant, query)
    permissions = ["recall.read", "memory.read", "audit.read"]
    request = auth_pb2.CreateApiKeyRequest(display_name="auditor", permissions=permissions)
    auditor = cluster.with_key((await tenant.auth.CreateApiKey(request)).secret)
    own = await auditor.recall.Recall(pb.RecallRequest(query=query))

    for guess in (query, "which colour has the violin?"):
        with refused(grpc.StatusCode.PERMISSION_DENIED, "QUERY_TEXT_OF_ANOTHER"):
            await auditor.recall.ReplayRecall(pb.ReplayRecallRequest(receipt_id=asked.receipt_id, query=guess))
    diff = pb.DiffRecallRequest(receipt_id=asked.receipt_id, other_receipt_id=own.receipt_id)
    difference = await auditor.recall.DiffRecall(diff)
    documents = [
        (await auditor.recall.GetRecallReceipt(pb.GetRecallReceiptRequest(receipt_id=one.receipt_id))).receipt
        for one in (asked, own)
    ]

    assert "query" in difference.unknown_inputs
    assert documents[0].statement.query_digest != documents[1].statement.query_digest


@pytest.mark.system
async def test_a_replay_says_which_items_were_purged(tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    ids = [await tenant.remember(f"The {topic} belongs to the mill.") for topic in TOPICS]
    response = await recall_with_receipt(tenant, "the kettle and the garden", min_relevance=0, limit=4)
    purged = next(id_ for id_ in ids if id_ == response.hits[1].item_id)

    selection = memory_pb2.MemorySelection(memory_ids=[purged])
    await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=selection))
    replayed = await replay(tenant, response.receipt_id)

    gaps = {gap.reason: list(gap.item_ids) for gap in replayed.gaps}
    assert gaps[pb.REPLAY_GAP_REASON_ITEMS_PURGED] == [purged]
    assert not replayed.identical
    assert [hit.item_id for hit in replayed.response.hits] == [
        hit.item_id for hit in response.hits if hit.item_id != purged
    ]


async def test_the_difference_of_two_answers_names_the_change_behind_each(tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    changed = await tenant.remember("The kettle belongs to the mill.")
    deleted = await tenant.remember("The kettle of the harbour is lost.")
    kept = await tenant.remember("An orchard lies behind the house.")
    first = await recall_with_receipt(tenant, "where is the kettle?", min_relevance=0)

    await update(tenant, changed, "The kettle, the kettle: it belongs to the mill of the valley.")
    await tenant.delete_memory(deleted)
    created = await tenant.remember("The kettle stands in the attic.")
    second = await recall_with_receipt(tenant, "where is the kettle?", min_relevance=0)
    request = pb.DiffRecallRequest(receipt_id=first.receipt_id, other_receipt_id=second.receipt_id)
    difference = await tenant.recall.DiffRecall(request)

    hits = {hit.item_id: hit for hit in difference.hits}
    events = {id_: [change.event_type for change in hits[id_].changes] for id_ in (changed, deleted, created)}
    assert events == {changed: ["memory_updated"], deleted: ["memory_deleted"], created: ["memory_created"]}
    assert (hits[changed].revision, hits[changed].other_revision) == (1, 2)
    assert {signal.signal for signal in hits[changed].signals} >= {"dense", "lexical"}
    assert (hits[deleted].other_rank, hits[created].rank) == (0, 0)
    assert hits[kept].cause in {"none", "others"}
    assert "corpus" in difference.changed_inputs


@pytest.mark.parametrize("name", ["receipt_id", "other_receipt_id"])
async def test_answers_of_another_tenant_have_no_difference(tenant: Tenant, other_tenant: Tenant, name: str) -> None:
    for each in (tenant, other_tenant):
        await each.set_policy(recall_receipts="all")
    own, foreign = [(await recall_with_receipt(each, "kettle")).receipt_id for each in (tenant, other_tenant)]
    request = pb.DiffRecallRequest(receipt_id=own, other_receipt_id=own)
    setattr(request, name, foreign)

    with refused(grpc.StatusCode.NOT_FOUND, "RECEIPT_NOT_FOUND"):
        await tenant.recall.DiffRecall(request)


async def test_a_receipt_is_hidden_from_an_agent_once_its_memory_is_another_agents(
    cluster: Cluster, tenant: Tenant
) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    secret = (await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="k", agent_id="cook"))).secret
    cook = cluster.with_key(secret)
    moved_id = await cook.remember("The kettle belongs to the mill.")
    response = await recall_with_receipt(cook, "whose is the kettle?", min_relevance=0)
    assert [hit.item_id for hit in response.hits] == [moved_id]
    get = pb.GetRecallReceiptRequest(receipt_id=response.receipt_id)
    listed = pb.ListRecallReceiptsRequest()
    assert (await cook.recall.GetRecallReceipt(get)).receipt.receipt_id == response.receipt_id

    memory = memory_pb2.Memory(memory_id=moved_id, agent_id="gardener", scope=memory_pb2.SCOPE_AGENT)
    await tenant.memory.UpdateMemory(
        memory_pb2.UpdateMemoryRequest(memory=memory, update_mask={"paths": ["agent_id", "scope"]})
    )

    for call in (
        cook.recall.GetRecallReceipt(get),
        cook.recall.ReplayRecall(pb.ReplayRecallRequest(receipt_id=response.receipt_id)),
    ):
        with refused(grpc.StatusCode.NOT_FOUND, "RECEIPT_NOT_FOUND"):
            await call
    assert not (await cook.recall.ListRecallReceipts(listed)).receipts
    assert (await tenant.recall.GetRecallReceipt(get)).receipt.receipt_id == response.receipt_id
