"""Facts whose keys are taken: refused, changed with their history, returned, or superseded, at every door."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Stubs, Tenant, metadata_in, refused
from fix_mcp import Mcp
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from skein.auth.v1 import auth_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import approvals_pb2, curation_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein.tenancy.v1 import limits_pb2, subjects_pb2
from skein_client import Client

FAIL, UPDATE, RETURN = pb.ON_CONFLICT_FAIL, pb.ON_CONFLICT_UPDATE, pb.ON_CONFLICT_RETURN
SUPERSEDE = pb.ON_CONFLICT_SUPERSEDE
TOKEN = "ghp_" + "a1B2" * 9
TAKEN = (grpc.StatusCode.ALREADY_EXISTS, "FACT_KEY_TAKEN")


def fact(content: str, **fields: Any) -> pb.Memory:
    return pb.Memory(**{"content": content, "type": "fact", "key": "city", "subject_id": "anna", **fields})


async def create(
    caller: Stubs, memory: pb.Memory, on_conflict: pb.OnConflict = FAIL, **fields: Any
) -> pb.CreateMemoryResponse:
    return await caller.memory.CreateMemory(
        pb.CreateMemoryRequest(memory=memory, on_conflict=on_conflict, defer_embedding=True, **fields)
    )


async def stored(caller: Stubs) -> Sequence[pb.Memory]:
    return (await caller.memory.ListMemories(pb.ListMemoriesRequest())).memories


async def key(cluster: Cluster, tenant: Tenant, *permissions: str, agent_id: str = "") -> Stubs:
    request = auth_pb2.CreateApiKeyRequest(display_name="k", permissions=permissions, agent_id=agent_id)
    return cluster.with_key((await tenant.auth.CreateApiKey(request)).secret)


async def test_an_update_keeps_id_history_and_what_the_write_leaves_out(tenant: Tenant) -> None:
    first = (await create(tenant, fact("Lives in Graz", tags=["home"], importance=0.9))).memory

    changed = await create(tenant, fact("Lives in Oslo", key="City", source="chat"), UPDATE)

    versions = await tenant.memory.ListMemoryVersions(pb.ListMemoryVersionsRequest(memory_id=first.memory_id))
    before = await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=first.memory_id, as_of_time=first.record_time))
    assert changed.is_existing
    assert (changed.memory.memory_id, changed.memory.revision) == (first.memory_id, 2)
    assert (changed.memory.content, changed.memory.source, changed.memory.key) == ("Lives in Oslo", "chat", "City")
    assert (list(changed.memory.tags), changed.memory.importance) == (["home"], 0.9)
    assert [version.memory.content for version in versions.versions][-1] == "Lives in Graz"
    assert before.memory.content == "Lives in Graz"
    assert len(await stored(tenant)) == 1


async def test_the_same_write_again_makes_no_revision(tenant: Tenant) -> None:
    responses = [await create(tenant, fact("Lives in Graz", tags=["home"]), UPDATE) for _ in range(3)]

    assert [response.is_existing for response in responses] == [False, True, True]
    assert [response.memory.revision for response in responses] == [1, 1, 1]
    assert len(await stored(tenant)) == 1


async def test_a_return_changes_nothing_and_says_so(tenant: Tenant) -> None:
    first = (await create(tenant, fact("Lives in Graz"))).memory

    returned = await create(tenant, fact("Lives in Oslo"), RETURN, suggest_links=True)

    assert returned == pb.CreateMemoryResponse(memory=first, is_existing=True)


@pytest.mark.parametrize("on_conflict", [pb.ON_CONFLICT_UNSPECIFIED, FAIL])
async def test_by_default_a_taken_key_is_refused_and_names_the_fact(tenant: Tenant, on_conflict: pb.OnConflict) -> None:
    first = (await create(tenant, fact("Lives in Graz"))).memory

    with refused(*TAKEN) as caught:
        await create(tenant, fact("Lives in Oslo"), on_conflict)

    assert metadata_in(caught)["memory_id"] == first.memory_id


@pytest.mark.parametrize("fields", [{"external_id": "x"}, {"embedding": [1.0] * 384}])
async def test_what_an_update_cannot_change_is_refused(tenant: Tenant, fields: dict[str, Any]) -> None:
    await create(tenant, fact("Lives in Graz"))

    with refused(*TAKEN):
        await create(tenant, fact("Lives in Oslo", **fields), UPDATE)


async def test_an_import_is_refused(tenant: Tenant) -> None:
    await create(tenant, fact("Lives in Graz"))

    with refused(*TAKEN):
        await create(tenant, fact("Lives in Oslo"), UPDATE, keep_times=True)


async def test_a_batch_changes_returns_and_adds_each_in_its_place(tenant: Tenant) -> None:
    await create(tenant, fact("Lives in Graz"))
    memories = [pb.Memory(content="Tea is hot"), fact("Lives in Oslo"), fact("Likes tea", key="drink")]

    batch = await tenant.memory.BatchCreateMemories(
        pb.BatchCreateMemoriesRequest(memories=memories, on_conflict=UPDATE)
    )

    assert list(batch.existing_indexes) == [1]
    assert [memory.revision for memory in batch.memories] == [1, 2, 1]
    assert [memory.content for memory in batch.memories] == ["Tea is hot", "Lives in Oslo", "Likes tea"]
    assert len(await stored(tenant)) == 3


async def test_a_deleted_an_expired_and_an_archived_fact(tenant: Tenant) -> None:
    deleted = (await create(tenant, fact("Lives in Graz"))).memory
    await tenant.memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id=deleted.memory_id))

    new = await create(tenant, fact("Lives in Oslo", archive_time=Timestamp(seconds=1)), UPDATE)
    back = await create(tenant, fact("Lives in Rome"), UPDATE)

    assert not new.is_existing
    assert back.memory.memory_id == new.memory.memory_id
    assert not back.memory.HasField("archive_time")


@pytest.mark.system
async def test_writes_at_the_same_time_make_one_fact(tenant: Tenant) -> None:
    cities = ["Graz", "Oslo", "Rome", "Bonn", "Lyon", "Bern"]

    responses = await asyncio.gather(*(create(tenant, fact(f"Lives in {city}"), UPDATE) for city in cities))

    assert len({response.memory.memory_id for response in responses}) == 1
    assert sorted(response.memory.revision for response in responses) == [1, 2, 3, 4, 5, 6]


async def test_an_update_costs_no_quota(cluster: Cluster, tenant: Tenant) -> None:
    operator = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": str(tenant.tenant_id)})
    await operator.tenancy.UpdateQuota(
        limits_pb2.UpdateQuotaRequest(quota=limits_pb2.Quota(memories=1), update_mask=FieldMask(paths=["memories"]))
    )
    await create(tenant, fact("Lives in Graz"))

    changed = await create(tenant, fact("Lives in Oslo"), UPDATE)

    assert changed.memory.revision == 2
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED"):
        await create(tenant, fact("Likes tea", key="drink"), UPDATE)


async def test_a_caller_that_may_not_read_gets_no_stored_fact(cluster: Cluster, tenant: Tenant) -> None:
    writer = await key(cluster, tenant, "memory.write")

    with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
        await create(writer, fact("Lives in Oslo"), RETURN)


async def test_a_fact_of_another_agent_is_neither_changed_nor_returned(cluster: Cluster, tenant: Tenant) -> None:
    mine = fact("Lives in Graz", scope=pb.SCOPE_AGENT, agent_id="butler")
    await create(tenant, mine)
    cook = await key(cluster, tenant, agent_id="cook")

    for on_conflict in (UPDATE, RETURN, SUPERSEDE):
        with refused(*TAKEN):
            await create(cook, fact("Lives in Oslo", agent_id="cook"), on_conflict)

    assert [memory.content for memory in await stored(tenant)] == ["Lives in Graz"]


async def test_an_update_reaches_no_further_readers(tenant: Tenant) -> None:
    await create(tenant, fact("Lives in Graz", scope=pb.SCOPE_USER))

    with refused(grpc.StatusCode.FAILED_PRECONDITION, "READERS_WIDENED"):
        await create(tenant, fact("Lives in Oslo", scope=pb.SCOPE_GLOBAL), UPDATE)


async def test_the_content_guard_reads_a_change(tenant: Tenant) -> None:
    policy = subjects_pb2.Policy(guard_secrets="refuse")
    mask = FieldMask(paths=["guard_secrets"])
    await tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))
    await create(tenant, fact("Lives in Graz"))

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "CONTENT_REFUSED"):
        await create(tenant, fact(f"The token is {TOKEN}"), UPDATE)


async def test_a_sealed_secret_of_a_change_is_in_the_vault(tenant: Tenant) -> None:
    policy = subjects_pb2.Policy(guard_secrets="seal")
    mask = FieldMask(paths=["guard_secrets"])
    await tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))
    await create(tenant, fact("Lives in Graz"))

    changed = await create(tenant, fact(f"The token is {TOKEN}"), UPDATE)

    vault = [memory for memory in await stored(tenant) if memory.type == "knowledge_vault"]
    assert len(vault) == 1
    assert vault[0].memory_id in changed.memory.content


async def test_a_change_of_an_agent_that_needs_approval_waits(cluster: Cluster, tenant: Tenant) -> None:
    policy, mask = subjects_pb2.Policy(approval="agents"), FieldMask(paths=["approval"])
    await tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))
    first = (await create(tenant, fact("Lives in Graz", tags=["home"]))).memory
    agent = await key(cluster, tenant, agent_id="kitchen")

    returned = await create(agent, fact("Lives in Oslo"), RETURN)
    waiting = await create(agent, fact("Lives in Oslo"), UPDATE)
    meanwhile = (await stored(tenant))[0].content
    (pending,) = (
        await tenant.curation.ListPendingMemories(approvals_pb2.ListPendingMemoriesRequest())
    ).pending_memories
    approved = await tenant.curation.ApproveMemory(approvals_pb2.ApproveMemoryRequest(pending_id=pending.pending_id))

    assert (returned.is_existing, returned.memory) == (True, first)
    assert (waiting.is_existing, waiting.memory.pending_approval, waiting.memory.content) == (True, True, "")
    assert meanwhile == "Lives in Graz"
    assert (approved.memory.memory_id, approved.memory.content) == (first.memory_id, "Lives in Oslo")
    assert (approved.memory.revision, list(approved.memory.tags)) == (2, ["home"])


@pytest.mark.parametrize(
    ("on_conflict", "content", "revision"), [(UPDATE, "Lives in Oslo", 2), (RETURN, "Lives in Graz", 1)]
)
async def test_a_key_that_is_taken_while_a_fact_waits_ends_as_its_source_asked(
    cluster: Cluster, tenant: Tenant, on_conflict: pb.OnConflict, content: str, revision: int
) -> None:
    policy, mask = subjects_pb2.Policy(approval="agents"), FieldMask(paths=["approval"])
    await tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))
    agent = await key(cluster, tenant, agent_id="kitchen")
    await create(agent, fact("Lives in Oslo", source="chat"), on_conflict)
    meanwhile = (await create(tenant, fact("Lives in Graz", tags=["home"], importance=0.9))).memory
    (pending,) = (
        await tenant.curation.ListPendingMemories(approvals_pb2.ListPendingMemoriesRequest())
    ).pending_memories

    approved = await tenant.curation.ApproveMemory(approvals_pb2.ApproveMemoryRequest(pending_id=pending.pending_id))

    assert pending.key_holder_id == meanwhile.memory_id
    assert (approved.memory.memory_id, approved.memory.revision) == (meanwhile.memory_id, revision)
    assert (approved.memory.content, list(approved.memory.tags), approved.memory.importance) == (content, ["home"], 0.9)
    assert [memory.memory_id for memory in await stored(tenant)] == [meanwhile.memory_id]


async def test_a_key_that_is_taken_while_a_fact_waits_is_refused_by_name_by_default(
    cluster: Cluster, tenant: Tenant
) -> None:
    policy, mask = subjects_pb2.Policy(approval="agents"), FieldMask(paths=["approval"])
    await tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))
    agent = await key(cluster, tenant, agent_id="kitchen")
    await create(agent, fact("Lives in Oslo"))
    await create(agent, fact("Has a cat", key="pet", agent_id="kitchen"), UPDATE)
    meanwhile = (await create(tenant, fact("Lives in Graz"))).memory
    hidden = fact("Has a dog", key="pet", agent_id="cellar", scope=pb.SCOPE_AGENT)
    await create(tenant, hidden)
    listed = await tenant.curation.ListPendingMemories(approvals_pb2.ListPendingMemoriesRequest())

    for pending in listed.pending_memories:
        with refused(*TAKEN) as caught:
            await tenant.curation.ApproveMemory(approvals_pb2.ApproveMemoryRequest(pending_id=pending.pending_id))
        if pending.memory.key == "city":
            assert metadata_in(caught)["memory_id"] == meanwhile.memory_id
    still = await tenant.curation.ListPendingMemories(approvals_pb2.ListPendingMemoriesRequest())
    assert len(still.pending_memories) == len(listed.pending_memories) == 2


@pytest.mark.system
async def test_the_list_of_what_waits_names_the_visible_fact_that_has_the_key(cluster: Cluster, tenant: Tenant) -> None:
    policy, mask = subjects_pb2.Policy(approval="agents"), FieldMask(paths=["approval"])
    await tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))
    agent = await key(cluster, tenant, agent_id="kitchen")
    changed = (await create(tenant, fact("Likes tea", key="drink"))).memory
    note = (await create(tenant, pb.Memory(content="Lives in Linz", type="note", key="City"))).memory
    for memory, path in (
        (pb.Memory(memory_id=changed.memory_id, key="CITY"), "key"),
        (pb.Memory(memory_id=changed.memory_id, content="Likes Assam"), "content"),
        (pb.Memory(memory_id=changed.memory_id, key="tea"), "key"),
    ):
        await agent.memory.UpdateMemory(pb.UpdateMemoryRequest(memory=memory, update_mask=FieldMask(paths=[path])))
    to_fact = pb.Memory(memory_id=note.memory_id, type="fact", subject_id="anna")
    mask = FieldMask(paths=["type", "subject_id"])
    await agent.memory.UpdateMemory(pb.UpdateMemoryRequest(memory=to_fact, update_mask=mask))
    for memory in (fact("Lives in Oslo"), fact("Bob lives in Rome", subject_id="bob"), fact("Has a cat", key="pet")):
        await create(agent, memory)
    free = (await tenant.curation.ListPendingMemories(approvals_pb2.ListPendingMemoriesRequest())).pending_memories
    holder = (await create(tenant, fact("Lives in Graz"))).memory
    # An expired fact has its key until another one takes it, and stands in no way.
    past = Timestamp(seconds=1_400_000_000)
    expired = fact("Has a dog", key="pet", create_time=past, update_time=past, expire_time=past)
    await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=expired, keep_times=True))

    listed = await tenant.curation.ListPendingMemories(approvals_pb2.ListPendingMemoriesRequest())

    assert {write.key_holder_id for write in free} == {""}
    assert [write.key_holder_id for write in listed.pending_memories] == [
        holder.memory_id, "", "", holder.memory_id, holder.memory_id, "", "",
    ]  # fmt: skip


async def test_declared_sources_of_a_change_are_its_lineage(tenant: Tenant) -> None:
    first = (await create(tenant, fact("Lives in Graz"))).memory
    letter = (await create(tenant, pb.Memory(content="A letter from Oslo"))).memory

    source = pb.SourceReference(kind=pb.SOURCE_KIND_MEMORY, id=letter.memory_id)
    await create(tenant, fact("Lives in Oslo", derived_from=[source]), UPDATE)

    lineage = await tenant.curation.GetLineage(curation_pb2.GetLineageRequest(memory_ids=[first.memory_id]))
    assert letter.memory_id in str(lineage)


async def test_the_clients_remember_keyed_facts_and_the_same_text_once(cluster: Cluster, tenant: Tenant) -> None:
    async with Client(endpoint=cluster.endpoint, api_key=tenant.api_key) as skein:
        texts = [await skein.remember("Ben lives in Oslo", subject_id="ben") for _ in range(3)]
        for city in ("Graz", "Oslo"):
            changed = await skein.remember(fact(f"Lives in {city}"), on_conflict="update")
        with pytest.raises(ValueError, match="OnConflict is fail, update, return, supersede"):
            await skein.remember(fact("Lives in Rome"), on_conflict="merge")  # type: ignore[arg-type]

    assert len({response.memories[0].memory_id for response in texts}) == 1
    assert list(texts[-1].similar_indexes) == [0]
    assert (list(changed.existing_indexes), changed.memories[0].revision) == ([0], 2)
    assert len(await stored(tenant)) == 2


async def test_a_caller_that_may_not_read_remembers_the_same_text_each_time(cluster: Cluster, tenant: Tenant) -> None:
    writer = await key(cluster, tenant, "memory.write")
    request = gateway_pb2.RememberRequest(memories=[{"content": "Ben lives in Oslo"}])

    for _ in range(2):
        response = await writer.gateway.Remember(request)

    assert not response.similar_indexes
    assert len(await stored(tenant)) == 2


@pytest.mark.system
async def test_a_model_remembers_once_and_changes_a_fact(cluster: Cluster, tenant: Tenant) -> None:
    async with Mcp.of(cluster.addresses["http"], tenant.api_key, "?toolsets=core,memories") as mcp:
        same = [await mcp.call("remember", content="Ben lives in Oslo") for _ in range(3)]
        both = await mcp.call("remember", content="Ben lives in Oslo", on_similar="keep")
        many = await mcp.call("remember_many", memories=[{"content": "Ben lives in Oslo"}])
        known = {"type": "fact", "key": "city"}
        await mcp.call("remember", content="Graz", **known)
        reason, text = await mcp.refused("remember", content="Oslo", **known)
        changed = await mcp.call("remember", content="Oslo", on_conflict="update", **known)

    assert len({each["memory"]["memory_id"] for each in same}) == 1
    assert both["memory"]["memory_id"] != same[0]["memory"]["memory_id"]
    assert many["similar_indexes"] == [0]
    assert (reason, changed["memory"]["memory_id"] in text) == ("FACT_KEY_TAKEN", True)
    assert (changed["is_existing"], changed["memory"]["revision"]) == (True, 2)
