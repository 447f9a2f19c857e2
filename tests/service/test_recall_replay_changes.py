"""Replays of answers of each kind: with filters, of messages, with other names, cut, archived, as of a time."""

from __future__ import annotations

import asyncio
import random
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant
from fix_receipts import TOPICS, recall_with_receipt

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import access_log_pb2, archives_pb2, curation_pb2, memory_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein.session.v1 import archives_pb2 as session_archives_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2

Filter = memory_pb2.MemoryFilter


async def replay(tenant: Tenant, receipt_id: str, **fields: Any) -> pb.ReplayRecallResponse:
    return await tenant.recall.ReplayRecall(pb.ReplayRecallRequest(receipt_id=receipt_id, **fields))


def shown(response: pb.RecallResponse) -> list[tuple[str, float, str, int]]:
    """Return what a caller sees of each hit."""
    return [
        (hit.item_id, hit.score, hit.memory.content or hit.message.content, hit.memory.revision)
        for hit in response.hits
    ]


async def replays_alike(tenant: Tenant, response: pb.RecallResponse) -> None:
    """Fail unless the receipt of an answer replays to this answer."""
    replayed = await replay(tenant, response.receipt_id)
    assert shown(replayed.response) == shown(response)
    assert replayed.identical, replayed


async def append(tenant: Tenant, *contents: str, session_id: str = "s") -> list[str]:
    messages = [session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=content) for content in contents]
    request = session_pb2.AppendMessagesRequest(session_id=session_id, messages=messages, create_session=True)
    return [message.message_id for message in (await tenant.sessions.AppendMessages(request)).messages]


async def keep_receipts(tenant: Tenant, **values: Any) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True, **values)


@pytest.mark.system
async def test_answers_with_filters_replay(tenant: Tenant) -> None:
    await keep_receipts(tenant)
    ids = [
        await tenant.remember(
            f"The {topic} of house {number} belongs to the mill.",
            tags=["even" if number % 2 else "odd", topic],
            subject_id=f"p{number % 3}",
            importance=number / 20,
            scope=memory_pb2.SCOPE_USER if number % 4 else memory_pb2.SCOPE_GLOBAL,
            metadata={"floor": number % 5},
        )
        for number, topic in enumerate(TOPICS * 2)
    ]
    filters = [
        Filter(tags_any=["even", "violin"]),
        Filter(tags_all=["odd", "kettle"]),
        Filter(subject_id="p1", min_importance=0.2),
        Filter(where="metadata.floor > 2 AND importance < 0.7"),
        Filter(visible_to=memory_pb2.ScopeContext(subject_id="p2")),
        Filter(scopes=[memory_pb2.SCOPE_GLOBAL]),
        Filter(valid_at_time=None),
        Filter(max_importance=0.3),
    ]
    filters[6].valid_at_time.FromDatetime(datetime.now(UTC))
    responses = [
        await recall_with_receipt(tenant, "whose is the kettle?", min_relevance=0, filter=filter_, mode=mode)
        for filter_ in filters
        for mode in (pb.SEARCH_MODE_HYBRID, pb.SEARCH_MODE_KEYWORD, pb.SEARCH_MODE_SEMANTIC)
    ]
    responses.append(await recall_with_receipt(tenant, "kettle", min_relevance=0, min_trust=0.4))
    assert all(responses[index].hits for index in range(0, len(responses), 3))

    for number, memory_id in enumerate(ids):
        match number % 4:
            case 0:
                await tenant.update_memory(memory_id, tags=["gone"], importance=0.9)
            case 1:
                await tenant.update_memory(memory_id, tags=["sold"], content="The kettle, sold.")
            case 2:
                await tenant.delete_memory(memory_id)
            case _:
                await tenant.update_memory(memory_id, metadata={"floor": 4}, importance=0.1)
    for topic in TOPICS:
        await tenant.remember(f"The {topic} and the kettle.", tags=["even"], subject_id="p1", importance=0.5)

    for response in responses:
        await replays_alike(tenant, response)


@pytest.mark.system
async def test_answers_of_messages_replay(tenant: Tenant) -> None:
    await keep_receipts(tenant)
    ids = await append(
        tenant,
        "Where did I put the kettle?",
        "It stands on the stove, next to the lantern.",
        "And the violin?",
        "In the attic, I think, behind the bicycle.",
        "Thank you, the kettle was there.",
    )
    await append(tenant, "The kettle of the harbour was stolen in May.", session_id="t")
    await tenant.remember("The kettle is red.")
    responses = [
        await recall_with_receipt(tenant, query, min_relevance=0, kinds=kinds)
        for query in ("where is the kettle?", "what stands on the stove?")
        for kinds in ([pb.ITEM_KIND_MESSAGE], [])
    ]
    responses.append(await recall_with_receipt(tenant, "kettle", min_relevance=0, filter=Filter(session_id="t")))

    await append(tenant, "The kettle stands on the stove again.", "Next to the violin.")
    await tenant.sessions.UpdateMessage(
        session_pb2.UpdateMessageRequest(
            message=session_pb2.Message(message_id=ids[1], content="It was sold."), update_mask={"paths": ["content"]}
        )
    )

    for response in responses:
        assert response.hits
        await replays_alike(tenant, response)


@pytest.mark.system
async def test_answers_with_other_names_and_typos_replay(tenant: Tenant) -> None:
    await keep_receipts(tenant)
    alias = await tenant.remember("an entity", title="GHA", type="entity")
    canonical = await tenant.remember("an entity", title="GitHub Actions", type="entity")
    request = curation_pb2.ResolveEntityRequest(alias_memory_id=alias, canonical_memory_id=canonical)
    await tenant.curation.ResolveEntity(request)
    slow = await tenant.remember("The workflow of GitHub Actions takes nine minutes.")
    await tenant.remember("GHA got slower after the upgrade.")
    orchard = await tenant.remember("The orchard lies behind the house.")
    while True:
        named = await recall_with_receipt(tenant, "how slow is GHA?", min_relevance=0)
        if named.query_expansions:
            break
        await asyncio.sleep(0.05)
    misspelt = await recall_with_receipt(tenant, "where is the orchrad?", min_relevance=0)
    assert [each.reason for each in misspelt.query_expansions] == [pb.QUERY_EXPANSION_REASON_TYPO]

    other = await tenant.remember("an entity", title="Octocat", type="entity")
    request = curation_pb2.ResolveEntityRequest(alias_memory_id=other, canonical_memory_id=canonical)
    await tenant.curation.ResolveEntity(request)
    await tenant.update_memory(canonical, title="Workflows")
    await tenant.update_memory(slow, content="Octocat takes nine minutes.")
    await tenant.delete_memory(alias)
    await tenant.update_memory(orchard, content="It was felled.")
    await tenant.remember("The orchrad is written with one typo.")

    await replays_alike(tenant, misspelt)
    await replays_alike(tenant, named)


@pytest.mark.system
async def test_an_answer_replays_after_the_policy_changed(tenant: Tenant) -> None:
    await keep_receipts(tenant)
    for topic in TOPICS:
        await tenant.remember(f"The {topic} belongs to the neighbours of the running mills.")
    responses = [await recall_with_receipt(tenant, "whose is the kettle of the mill?") for _ in range(2)]

    await tenant.set_policy(
        search_language="german", recall_fusion="ranks", recall_min_relevance=0.9, recall_receipts="off"
    )

    for response in responses:
        await replays_alike(tenant, response)


@pytest.mark.system
async def test_an_answer_as_of_a_time_replays(tenant: Tenant) -> None:
    await keep_receipts(tenant)
    ids = [await tenant.remember(f"The {topic} belongs to the mill.") for topic in TOPICS]
    await recall_with_receipt(tenant, "kettle")
    then = datetime.now(UTC)
    await tenant.update_memory(ids[0], content="The kettle was sold to the mill.")
    start = datetime.now(UTC)
    response = await recall_with_receipt(tenant, "the kettle of the mill", min_relevance=0, as_of_time=then)

    await tenant.delete_memory(ids[0])

    await replays_alike(tenant, response)
    request = pb.GetRecallReceiptRequest(receipt_id=response.receipt_id)
    receipt = (await tenant.recall.GetRecallReceipt(request)).receipt
    assert receipt.create_time.ToDatetime(UTC) >= start - timedelta(milliseconds=1)


@pytest.mark.system
async def test_an_answer_that_was_cut_to_the_size_of_a_response_replays(tenant: Tenant) -> None:
    await keep_receipts(tenant)
    for number in range(24):
        data = {"notes": [f"{number} {letter}" + letter * 120_000 for letter in "ab"]}
        await tenant.remember(f"The kettle of house {number}.", data=data)
    response = await recall_with_receipt(tenant, "the kettle", min_relevance=0, limit=30)
    assert 0 < len(response.hits) < 24

    await replays_alike(tenant, response)


@pytest.mark.system
async def test_a_replay_tells_archived_items_from_purged_ones(tenant: Tenant) -> None:
    await keep_receipts(tenant)
    purged = await tenant.remember("The kettle belongs to the mill.")
    for topic in TOPICS[1:]:
        await tenant.remember(f"The {topic} belongs to the mill.", session_id="old")
    await append(tenant, "The kettle stands in the mill.", session_id="talk")
    response = await recall_with_receipt(tenant, "the kettle of the mill", min_relevance=0)

    await tenant.memory.PurgeMemories(
        memory_pb2.PurgeMemoriesRequest(selection=memory_pb2.MemorySelection(memory_ids=[purged]))
    )
    archived_count = 0
    while archived_count < len(TOPICS) - 1:
        request = archives_pb2.ArchiveMemoriesRequest(session_id="old", idle_since_time=datetime.now(UTC))
        archived_count += (await tenant.history.ArchiveMemories(request)).archive.memory_count
    await tenant.sessions.HideSession(session_pb2.HideSessionRequest(session_id="talk"))
    await tenant.sessions.ArchiveSession(session_archives_pb2.ArchiveSessionRequest(session_id="talk"))
    replayed = await replay(tenant, response.receipt_id)

    gaps = {gap.reason: list(gap.item_ids) for gap in replayed.gaps}
    ids = [hit.item_id for hit in response.hits]
    assert gaps == {
        pb.REPLAY_GAP_REASON_ITEMS_PURGED: [purged],
        pb.REPLAY_GAP_REASON_ITEMS_ARCHIVED: [id_ for id_ in ids if id_ != purged],
    }
    assert not replayed.identical


@pytest.mark.system
async def test_answers_replay_while_others_write(tenant: Tenant) -> None:
    await keep_receipts(tenant)
    chosen = random.Random(7)
    for number in range(60):
        await tenant.remember(f"The {chosen.choice(TOPICS)} of house {number}.")
    await recall_with_receipt(tenant, "kettle")
    stop = asyncio.Event()

    async def write(seed: int) -> None:
        random_source = random.Random(seed)
        while not stop.is_set():
            one, other = random_source.choices(TOPICS, k=2)
            await tenant.remember(f"The {one} and the {other} of {random_source.random()}.")

    writers = [asyncio.create_task(write(seed)) for seed in range(4)]
    failures = []
    try:
        for _ in range(20):
            query = f"the {chosen.choice(TOPICS)} of the {chosen.choice(TOPICS)}"
            response = await tenant.recall.Recall(pb.RecallRequest(query=query, min_relevance=0))
            replayed = await replay(tenant, response.receipt_id)
            if not replayed.identical or shown(replayed.response) != shown(response):
                failures.append(replayed)
    finally:
        stop.set()
        await asyncio.gather(*writers)
    assert not failures, f"{len(failures)} of 20"


@pytest.mark.system
async def test_the_access_log_says_which_memories_a_replay_showed(tenant: Tenant) -> None:
    await keep_receipts(tenant)
    memory_id = await tenant.remember("The kettle is red.")
    response = await recall_with_receipt(tenant, "kettle", min_relevance=0)
    await replay(tenant, response.receipt_id)

    request = access_log_pb2.ListAccessLogRequest(page_size=1000)
    while True:
        events = (await tenant.history.ListAccessLog(request)).access_events
        found = [event for event in events if event.method == "ReplayRecall"]
        if found:
            break
        await asyncio.sleep(0.05)
    assert [(event.memory_id, event.operation) for event in found] == [
        (memory_id, access_log_pb2.ACCESS_OPERATION_SEARCH)
    ]


async def test_hits_that_the_index_does_not_find_any_more_are_shown_and_named(tenant: Tenant, cluster: Cluster) -> None:
    await keep_receipts(tenant)
    for topic in TOPICS:
        await tenant.remember(f"The {topic} belongs to the mill.")
    response = await recall_with_receipt(tenant, "the kettle of the mill", min_relevance=0)

    async with cluster.superuser() as connection:
        # Without triggers, which would keep former rows.
        await connection.execute("SET session_replication_role = replica")
        await connection.execute("DELETE FROM recall.documents WHERE tenant_id = $1", tenant.tenant_id)
    replayed = await replay(tenant, response.receipt_id)

    assert shown(replayed.response) == shown(response)
    assert not replayed.identical
    assert list(replayed.differing_ids) == [hit.item_id for hit in response.hits]


async def test_a_difference_does_not_compare_what_was_erased(tenant: Tenant) -> None:
    await keep_receipts(tenant)
    await tenant.tenancy.CreateSubject(
        subjects_pb2.CreateSubjectRequest(subject=subjects_pb2.Subject(subject_id="anna-7", display_name="Anna Berg"))
    )
    await tenant.remember("The kettle is red.")
    first = await recall_with_receipt(tenant, "has Anna Berg the kettle?", min_relevance=0)
    second = await recall_with_receipt(tenant, "does the kettle of Anna Berg shine?", min_relevance=0, limit=3)
    request = pb.DiffRecallRequest(receipt_id=first.receipt_id, other_receipt_id=second.receipt_id)
    before = await tenant.recall.DiffRecall(request)

    await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="anna-7"))
    after = await tenant.recall.DiffRecall(request)

    assert {"query", "request"} <= set(before.changed_inputs)
    assert not before.unknown_inputs
    assert list(after.unknown_inputs) == ["query", "request"]
    assert not {"query", "request"} & set(after.changed_inputs)


@pytest.mark.system
async def test_a_text_that_was_changed_past_skein_is_named(cluster: Cluster, tenant: Tenant) -> None:
    await keep_receipts(tenant)
    ids = [await tenant.remember(f"The {topic} belongs to the mill.") for topic in TOPICS[:3]]
    await append(tenant, "The mill grinds.")
    response = await recall_with_receipt(tenant, "mill")
    async with cluster.superuser() as connection:
        # As an operator could, or a thief: no revision says so.
        await connection.execute("SET session_replication_role = replica")
        await connection.execute(
            "UPDATE memory.memories SET content = 'The mill burns.' WHERE tenant_id = $1 AND memory_id = $2",
            tenant.tenant_id,
            uuid.UUID(ids[1]),
        )

    replayed = await replay(tenant, response.receipt_id)

    assert not replayed.identical
    assert [(gap.reason, list(gap.item_ids)) for gap in replayed.gaps] == [
        (pb.REPLAY_GAP_REASON_TEXTS_ALTERED, [ids[1]])
    ]
