"""Recall as of a time: it finds, ranks and shows what the same call found, ranked and showed then."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused
from fix_histories import History, Moment, change, contents, distinct_share, drain, recall, remember
from fix_recall import RecallServer, RecallTenant, serving
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from skein.memory.v1 import curation_pb2, memory_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_kit.ids import now


@pytest.mark.parametrize(("seed", "count"), [(1, 3), pytest.param(2, 6, marks=pytest.mark.system)])
async def test_it_answers_as_the_same_call_answered_then(tenant: Tenant, seed: int, count: int) -> None:
    history = History(tenant, random.Random(seed))
    await history.begin()
    moments = []
    for _ in range(count):
        await history.go_on(8)
        await drain(tenant)
        moments.append(await Moment.take(tenant))

    await history.go_on(20)

    assert distinct_share(moments) > 0.5
    for moment in moments:
        assert await moment.differences(tenant) == []


async def test_a_changed_text_is_found_and_shown_in_its_former_words(tenant: Tenant) -> None:
    memory = await remember(tenant, memory_pb2.Memory(content="Marta lives in Graz.", title="Home"))
    (shown_then,) = (await recall(tenant, query="Graz", mode=pb.SEARCH_MODE_KEYWORD)).hits
    before = now()
    await change(tenant, memory.memory_id, content="Marta lives in Linz.", title="Residence")

    (hit,) = (await recall(tenant, before, query="Graz", mode=pb.SEARCH_MODE_KEYWORD)).hits
    by_title = await contents(tenant, before, query="home", mode=pb.SEARCH_MODE_KEYWORD)

    assert hit == shown_then
    assert by_title == ["Marta lives in Graz."]
    assert await contents(tenant, before, query="Linz residence", mode=pb.SEARCH_MODE_KEYWORD) == []
    assert await contents(tenant, query="Graz home", mode=pb.SEARCH_MODE_KEYWORD) == []


async def test_a_new_title_alone_leaves_the_former_one_to_the_past(tenant: Tenant) -> None:
    memory = await remember(tenant, memory_pb2.Memory(content="Marta lives in Graz.", title="Home"))
    before = now()
    await change(tenant, memory.memory_id, title="Residence")
    between = now()
    await change(tenant, memory.memory_id, title="Flat")

    found = {
        word: [
            bool(await contents(tenant, at, query=word, mode=pb.SEARCH_MODE_KEYWORD)) for at in (before, between, None)
        ]
        for word in ("home", "residence", "flat")
    }

    assert found == {
        "home": [True, False, False], "residence": [False, True, False], "flat": [False, False, True],
    }  # fmt: skip


async def test_a_deleted_memory_and_a_deleted_message_are_found_as_of_before(tenant: Tenant) -> None:
    history = History(tenant, random.Random(1))
    await history.create()
    await history.say()
    await drain(tenant)
    before = now()
    there = await contents(tenant, query="Marta", mode=pb.SEARCH_MODE_SEMANTIC)
    await history.delete()
    await history.unsay()

    assert await contents(tenant, before, query="Marta", mode=pb.SEARCH_MODE_SEMANTIC) == there
    assert len(there) == 2
    assert await contents(tenant, query="Marta", mode=pb.SEARCH_MODE_SEMANTIC) == []


async def test_a_pending_item_is_pending_as_of_then(tenant: Tenant) -> None:
    request = memory_pb2.BatchCreateMemoriesRequest(
        memories=[memory_pb2.Memory(content=f"Marta owns {number} cats.") for number in range(3)], defer_embedding=True
    )
    await tenant.memory.BatchCreateMemories(request)
    before = now()
    pending = (await recall(tenant, before, query="cats")).pending_embedding_count
    await drain(tenant)

    later = await recall(tenant, before, query="cats")

    assert later.pending_embedding_count == pending
    assert (await recall(tenant, now(), query="cats")).pending_embedding_count == 0


@pytest.mark.system
async def test_purged_items_are_never_found_again(cluster: Cluster, tenant: Tenant) -> None:
    history = History(tenant, random.Random(1))
    await history.create()
    await history.say()
    (memory_id,), (message_id,) = history.memory_ids, history.message_ids
    await change(tenant, memory_id, content="Marta hides a purple umbrella.", title="Secret")
    edited = session_pb2.Message(message_id=message_id, content="Marta hides a purple umbrella.")
    await tenant.sessions.UpdateMessage(
        session_pb2.UpdateMessageRequest(message=edited, update_mask=FieldMask(paths=["content"]))
    )
    await drain(tenant)
    before = now()
    for _ in range(3):
        await history.update()
        await history.edit()
    assert len(await contents(tenant, before, query="purple umbrella")) == 2

    selection = memory_pb2.MemorySelection(memory_ids=[memory_id])
    await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=selection))
    await tenant.sessions.PurgeMessages(states_pb2.PurgeMessagesRequest(message_ids=[message_id]))

    for mode in (pb.SEARCH_MODE_HYBRID, pb.SEARCH_MODE_KEYWORD, pb.SEARCH_MODE_SEMANTIC):
        assert await contents(tenant, before, query="purple umbrella", mode=mode) == []
    assert await former_rows(cluster, tenant) == [0, 0, 0]


@pytest.mark.system
async def test_a_purged_person_is_not_found_in_former_versions_of_memories_about_others(
    cluster: Cluster, tenant: Tenant
) -> None:
    anna = memory_pb2.MemoryFilter(subject_id="anna")
    memory = await remember(tenant, memory_pb2.Memory(content="Juri has two black cats.", subject_id="juri"))
    text = "Anna hides a purple umbrella."
    await change(tenant, memory.memory_id, content=text, subject_id="anna")
    await drain(tenant)
    before = now()
    await change(tenant, memory.memory_id, content="Marta likes green tea.", subject_id="marta")
    assert await contents(tenant, before, query="purple umbrella", filter=anna) == [text]

    selection = memory_pb2.MemorySelection(filter=anna)
    purged = await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=selection))

    assert purged.receipt.deleted_counts["memory.versions"] == 1
    for mode in (pb.SEARCH_MODE_HYBRID, pb.SEARCH_MODE_KEYWORD, pb.SEARCH_MODE_SEMANTIC):
        assert await contents(tenant, before, query="purple umbrella", mode=mode) == []
    assert await former_rows(cluster, tenant) == [0, 0, 0]
    then = memory_pb2.GetMemoryRequest(memory_id=memory.memory_id)
    then.as_of_time.FromDatetime(before)
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await tenant.memory.GetMemory(then)
    assert await contents(tenant, query="green tea") == ["Marta likes green tea."]


@pytest.mark.system
async def test_a_purged_session_leaves_no_former_rows_in_the_index(cluster: Cluster, tenant: Tenant) -> None:
    history = History(tenant, random.Random(1))
    for _ in range(4):
        await history.say()
        await history.edit()
    await drain(tenant)
    await history.edit()
    await history.unsay()

    for session_id in ("s1", "s2"):
        await tenant.sessions.PurgeSession(states_pb2.PurgeSessionRequest(session_id=session_id))

    assert await former_rows(cluster, tenant) == [0, 0, 0]


async def former_rows(cluster: Cluster, tenant: Tenant) -> list[int]:
    """Count the former documents, postings and vectors."""
    async with cluster.superuser() as connection:
        return [
            await connection.fetchval(
                f"SELECT count(*) FROM recall.{table}_history WHERE tenant_id = $1",  # noqa: S608 - our names.
                tenant.tenant_id,
            )
            for table in ("documents", "postings", "embeddings_all_minilm_l6_v2")
        ]


@pytest.mark.system
async def test_expiry_is_judged_as_of_then(tenant: Tenant) -> None:
    memory = memory_pb2.Memory(content="Marta is on holiday.")
    expire_time = now() + timedelta(seconds=1)
    memory.expire_time.FromDatetime(expire_time)
    await remember(tenant, memory)
    before = now()
    async with asyncio.timeout(30):
        while await contents(tenant, query="holiday", mode=pb.SEARCH_MODE_KEYWORD):
            pass

    assert await contents(tenant, before, query="holiday", mode=pb.SEARCH_MODE_KEYWORD) == ["Marta is on holiday."]


@pytest.mark.system
async def test_a_name_is_read_as_its_aliases_of_then_and_policies_of_then_decide(tenant: Tenant) -> None:
    for note in ("GHA got slower after the upgrade.", "The dishwasher is broken."):
        await remember(tenant, memory_pb2.Memory(content=note))
    alias, canonical = [
        (await remember(tenant, memory_pb2.Memory(content="an entity", title=title, type="entity"))).memory_id
        for title in ("GHA", "GitHub Actions")
    ]
    before = now()
    await tenant.curation.ResolveEntity(
        curation_pb2.ResolveEntityRequest(alias_memory_id=alias, canonical_memory_id=canonical)
    )
    with_alias = now()
    await tenant.curation.DeleteAlias(curation_pb2.DeleteAliasRequest(alias_memory_id=alias))
    await tenant.tenancy.UpdatePolicy(
        subjects_pb2.UpdatePolicyRequest(
            policy=subjects_pb2.Policy(recall_fusion="ranks"), update_mask=FieldMask(paths=["recall_fusion"])
        )
    )
    after = now()

    answers = [await recall(tenant, at, query="How fast is GitHub Actions?") for at in (before, with_alias, after)]

    assert [[one.read_as for one in answer.query_expansions] for answer in answers] == [[], ["GHA"], []]
    assert [answer.formula.partition("-")[0] for answer in answers] == ["scores", "scores", "ranks"]


@pytest.mark.system
async def test_searches_of_then_take_from_the_tenants_budget_what_they_may_read(
    recall_server: RecallServer, recall_tenant: RecallTenant
) -> None:
    for number in range(10):
        await recall_tenant.remember(f"The cat caught {number} mice.")
    then = Timestamp()
    then.FromDatetime(now())

    async with serving(
        recall_server.url, recall_server.key, SKEIN_ADVANCED_SCAN_MEBIBYTES_PER_SECOND="0.00002"
    ) as limited:
        limited_tenant = RecallTenant(limited, recall_tenant.tenant_id)
        first = await limited_tenant.recall("mice", as_of_time=then)
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "READ_TOO_COSTLY"):
            await limited_tenant.recall("mice", as_of_time=then)
        present = await limited_tenant.recall("mice")

    assert len(first.hits) == len(present.hits) == 10


async def test_a_time_in_the_future_and_one_before_the_tenant_are_refused(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await recall(tenant, now() + timedelta(hours=1), query="tea")
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "NOT_KNOWN_THEN"):
        await recall(tenant, now() - timedelta(days=400), query="tea")
