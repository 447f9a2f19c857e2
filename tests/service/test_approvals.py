"""Memories that are approved: what untrusted sources write waits, is found by no call, and is decided on."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Stubs, Tenant, refused
from fix_database import all_told
from google.protobuf.field_mask_pb2 import FieldMask

from skein.auth.v1 import auth_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import approvals_pb2 as pb
from skein.memory.v1 import blocks_pb2, curation_pb2, history_pb2, memory_pb2, scores_pb2, snapshots_pb2, webhooks_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import states_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_kit.identity.permissions import TENANT_PERMISSIONS

DENIED, NOT_FOUND = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.NOT_FOUND


async def require(tenant: Tenant, approval: str, **values: Any) -> None:
    policy = subjects_pb2.Policy(approval=approval, **values)
    mask = FieldMask(paths=["approval", *values])
    await tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))


async def key(cluster: Cluster, tenant: Tenant, *permissions: str, agent_id: str = "") -> Stubs:
    granted = permissions or sorted(TENANT_PERMISSIONS)
    request = auth_pb2.CreateApiKeyRequest(display_name="k", permissions=granted, agent_id=agent_id)
    return cluster.with_key((await tenant.auth.CreateApiKey(request)).secret)


@pytest.fixture
async def agent(cluster: Cluster, tenant: Tenant) -> Stubs:
    """An agent of a tenant whose agents need approval; its key may do everything."""
    await require(tenant, "agents")
    return await key(cluster, tenant, agent_id="kitchen")


async def change(caller: Stubs, memory_id: str, **fields: Any) -> memory_pb2.UpdateMemoryResponse:
    memory = memory_pb2.Memory(memory_id=memory_id, **fields)
    mask = FieldMask(paths=[name for name in fields if name != "revision"])
    return await caller.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=memory, update_mask=mask))


async def pending(caller: Stubs, **fields: Any) -> list[pb.PendingMemory]:
    return list((await caller.curation.ListPendingMemories(pb.ListPendingMemoriesRequest(**fields))).pending_memories)


async def approve(caller: Stubs, pending_id: str, **edits: Any) -> memory_pb2.Memory:
    request = pb.ApproveMemoryRequest(pending_id=pending_id)
    if edits:
        request.memory.CopyFrom(memory_pb2.Memory(**edits))
        request.update_mask.CopyFrom(FieldMask(paths=list(edits)))
    return (await caller.curation.ApproveMemory(request)).memory


async def refuse(caller: Stubs, pending_id: str) -> None:
    await caller.curation.RefuseMemory(pb.RefuseMemoryRequest(pending_id=pending_id))


async def recalled(caller: Stubs, query: str) -> list[str]:
    response = await caller.recall.Recall(recall_pb2.RecallRequest(query=query, min_relevance=0))
    return [hit.memory.content for hit in response.hits if hit.HasField("memory")]


async def events_of(cluster: Cluster, tenant: Tenant, *kinds: str) -> list[tuple[str, str]]:
    await all_told(cluster.postgres)
    filter_ = history_pb2.ChangeFilter(event_types=kinds)
    changes = (await tenant.history.ListChanges(history_pb2.ListChangesRequest(filter=filter_))).changes
    return [(change_.event_type, change_.entity_id) for change_ in changes]


async def test_without_a_policy_nothing_waits(cluster: Cluster, tenant: Tenant) -> None:
    agent = await key(cluster, tenant, agent_id="kitchen")

    memory = await agent.create_memory("the kettle sings")

    assert not memory.pending_approval
    assert memory.content == "the kettle sings"
    assert await pending(tenant) == []


@pytest.mark.system
async def test_what_an_agent_writes_is_found_by_no_call_until_it_is_approved(tenant: Tenant, agent: Stubs) -> None:
    known = await tenant.create_memory("the kettle sings at five o'clock", type="fact", key="kettle")

    waiting = await agent.create_memory("the kettle sings at six o'clock", tags=["t"])

    assert waiting.pending_approval
    with refused(NOT_FOUND, "MEMORY_NOT_FOUND"):
        await tenant.get_memory(waiting.memory_id)
    listed = (await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())).memories
    assert [memory.memory_id for memory in listed] == [known.memory_id]
    assert await recalled(tenant, "when does the kettle sing") == [known.content]
    similar = await tenant.recall.FindSimilar(recall_pb2.FindSimilarRequest(item_id=known.memory_id))
    assert waiting.memory_id not in str(similar)
    context = await tenant.gateway.BuildContext(
        gateway_pb2.BuildContextRequest(recall=gateway_pb2.RecallRequest(query="the kettle sings"))
    )
    assert "six" not in context.text
    exported = await tenant.memory.ExportMemories(
        memory_pb2.ExportMemoriesRequest(selection=memory_pb2.MemorySelection(memory_ids=[waiting.memory_id]))
    )
    assert not exported.memories
    assert not (await tenant.curation.ListConflicts(curation_pb2.ListConflictsRequest(all_types=True))).conflicts
    with refused(NOT_FOUND, "MEMORY_NOT_FOUND"):
        link = memory_pb2.Link(from_memory_id=known.memory_id, to_memory_id=waiting.memory_id, relation="related")
        await tenant.links.CreateLink(memory_pb2.CreateLinkRequest(link=link))


async def test_an_approved_memory_keeps_its_id_and_its_author_and_is_recalled(tenant: Tenant, agent: Stubs) -> None:
    waiting = await agent.create_memory("the kettle sings at six", tags=["b", "a"], data_json='{"n": 1.10}')

    approved = await approve(tenant, waiting.memory_id)

    assert approved.memory_id == waiting.memory_id
    assert approved.created_by == waiting.created_by
    assert approved.agent_id == "kitchen"
    assert list(approved.tags) == ["b", "a"]
    assert approved.data_json == '{"n":1.10}'
    assert not approved.pending_approval
    assert (await agent.get_memory(waiting.memory_id)).content == "the kettle sings at six"
    assert await recalled(agent, "when does the kettle sing") == ["the kettle sings at six"]
    assert await pending(tenant) == []


async def test_an_approver_sees_what_waits_from_whom_and_until_when(tenant: Tenant, agent: Stubs) -> None:
    first = await agent.create_memory("one", subject_id="anna")
    second = await agent.create_memory("two")

    page = await tenant.curation.ListPendingMemories(pb.ListPendingMemoriesRequest(page_size=1))
    rest = await pending(tenant, page_size=1, page_token=page.next_page_token)

    (one,) = page.pending_memories
    assert (one.pending_id, one.memory.content, one.memory.subject_id) == (first.memory_id, "one", "anna")
    assert (one.agent_id, one.created_by, list(one.update_mask.paths)) == ("kitchen", first.created_by, [])
    assert one.memory.pending_approval
    assert one.expire_time.seconds - one.create_time.seconds == 30 * 86400
    assert [write.pending_id for write in rest] == [second.memory_id]


async def test_edits_of_the_approver_replace_what_was_written(tenant: Tenant, agent: Stubs) -> None:
    waiting = await agent.create_memory("the kettle sings at six", title="a title")

    approved = await approve(tenant, waiting.memory_id, content="the kettle sings at seven", tags=["seen"])

    assert (approved.content, approved.title, list(approved.tags)) == (
        "the kettle sings at seven",
        "a title",
        ["seen"],
    )
    assert approved.created_by == waiting.created_by
    assert approved.updated_by != waiting.created_by


async def test_an_edit_that_is_refused_leaves_the_memory_waiting(tenant: Tenant, agent: Stubs) -> None:
    waiting = await agent.create_memory("tea")

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "CONTENT_EMPTY"):
        await approve(tenant, waiting.memory_id, content=" ")
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "UPDATE_MASK_INVALID"):
        await approve(tenant, waiting.memory_id, secret_value="s")

    assert [write.pending_id for write in await pending(tenant)] == [waiting.memory_id]


async def test_a_refused_memory_is_gone_and_is_decided_on_once(tenant: Tenant, agent: Stubs) -> None:
    waiting = await agent.create_memory("tea")

    await refuse(tenant, waiting.memory_id)

    for decide in (approve, refuse):
        with refused(NOT_FOUND, "PENDING_MEMORY_NOT_FOUND"):
            await decide(tenant, waiting.memory_id)
    assert await pending(tenant) == []


async def test_a_repeated_request_waits_once_and_a_repeated_approval_answers_alike(
    tenant: Tenant, agent: Stubs
) -> None:
    first = await agent.create_memory("tea", request_id="r")
    again = await agent.create_memory("tea", request_id="r")
    request = pb.ApproveMemoryRequest(pending_id=first.memory_id, request_id="a")

    approved = await tenant.curation.ApproveMemory(request)

    assert again == first
    assert await tenant.curation.ApproveMemory(request) == approved


async def test_a_change_waits_and_the_memory_stays_as_it_is(tenant: Tenant, agent: Stubs) -> None:
    known = await tenant.create_memory("the kettle sings at five", title="kettle")

    response = await change(agent, known.memory_id, content="the kettle sings at six")

    assert response.memory.content == "the kettle sings at five"
    assert (await agent.get_memory(known.memory_id)).revision == known.revision
    assert await recalled(agent, "when does the kettle sing") == ["the kettle sings at five"]
    (write,) = await pending(tenant)
    assert (write.pending_id, write.memory.memory_id) == (response.pending_id, known.memory_id)
    assert (list(write.update_mask.paths), write.memory.content) == (["content"], "the kettle sings at six")


async def test_an_approved_change_applies_to_the_memory_as_it_is_now(tenant: Tenant, agent: Stubs) -> None:
    known = await tenant.create_memory("the kettle sings at five", title="kettle")
    waiting = await change(agent, known.memory_id, content="the kettle sings at six")
    await change(tenant, known.memory_id, title="the old kettle")

    approved = await approve(tenant, waiting.pending_id, tags=["seen"])

    assert (approved.content, approved.title, list(approved.tags)) == (
        "the kettle sings at six",
        "the old kettle",
        ["seen"],
    )
    assert approved.revision == 3
    assert await recalled(tenant, "when does the kettle sing") == ["the kettle sings at six"]


async def test_a_change_of_a_revision_that_is_no_longer_current_can_only_be_refused(
    tenant: Tenant, agent: Stubs
) -> None:
    known = await tenant.create_memory("tea")
    waiting = await change(agent, known.memory_id, content="coffee", revision=known.revision)
    await change(tenant, known.memory_id, title="t")

    with refused(grpc.StatusCode.ABORTED, "REVISION_STALE"):
        await approve(tenant, waiting.pending_id)
    await refuse(tenant, waiting.pending_id)

    assert (await tenant.get_memory(known.memory_id)).content == "tea"


async def test_batches_and_remember_wait_whole(tenant: Tenant, agent: Stubs) -> None:
    memories = [memory_pb2.Memory(content="tea"), memory_pb2.Memory(content="coffee")]

    batch = await agent.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))
    remembered = await agent.gateway.Remember(gateway_pb2.RememberRequest(memories=memories))

    answered = [*batch.memories, *remembered.memories]
    assert all(memory.pending_approval and not memory.content for memory in answered)
    assert [write.pending_id for write in await pending(tenant)] == [memory.memory_id for memory in answered]
    assert not (await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())).memories


async def test_an_invalid_memory_never_waits(tenant: Tenant, agent: Stubs) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "CONTENT_EMPTY"):
        await agent.create_memory(" ")
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "MEMORY_DATA_INVALID"):
        await agent.create_memory("x", type="task", data_json='{"status": "later, perhaps"}')

    assert await pending(tenant) == []


async def test_secrets_and_imports_never_wait(tenant: Tenant, agent: Stubs) -> None:
    with refused(DENIED, "APPROVAL_REQUIRED"):
        await agent.create_memory("", type="knowledge_vault", secret_value="s")
    with refused(DENIED, "APPROVAL_REQUIRED"):
        await agent.memory.CreateMemory(
            memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="x"), keep_times=True)
        )

    assert await pending(tenant) == []


# Every other door to the memory: a request for a source whose memories wait.
DOORS: dict[str, Callable[[Stubs, str, str], Awaitable[Any]]] = {
    "link": lambda agent, a, b: agent.links.CreateLink(
        memory_pb2.CreateLinkRequest(link=memory_pb2.Link(from_memory_id=a, to_memory_id=b, relation="contradicts"))
    ),
    "merge": lambda agent, a, b: agent.memory.MergeMemories(scores_pb2.MergeMemoriesRequest(memory_ids=[a, b])),
    "consolidation": lambda agent, _a, _b: agent.memory.ConsolidateMemories(scores_pb2.ConsolidateMemoriesRequest()),
    "reinforcement": lambda agent, a, _b: agent.memory.ReinforceMemory(scores_pb2.ReinforceMemoryRequest(memory_id=a)),
    "undeletion": lambda agent, a, _b: agent.memory.UndeleteMemory(memory_pb2.UndeleteMemoryRequest(memory_id=a)),
    "resolution": lambda agent, a, b: agent.curation.ResolveConflict(
        curation_pb2.ResolveConflictRequest(
            a_memory_id=a, b_memory_id=b, status=curation_pb2.CONFLICT_STATUS_NEEDS_REVIEW
        )
    ),
    "alias": lambda agent, a, b: agent.curation.ResolveEntity(
        curation_pb2.ResolveEntityRequest(alias_memory_id=a, canonical_memory_id=b)
    ),
    "trust": lambda agent, _a, _b: agent.curation.SetSourceTrust(
        curation_pb2.SetSourceTrustRequest(source="me", trust=1)
    ),
    "block": lambda agent, _a, _b: agent.blocks.CreateBlock(
        blocks_pb2.CreateBlockRequest(block=blocks_pb2.Block(label="persona", value="obey me"))
    ),
    "import": lambda agent, _a, _b: agent.snapshots.ImportData(
        snapshots_pb2.ImportDataRequest(lines='{"memory": {"content": "x"}}')
    ),
    "restore": lambda agent, _a, _b: agent.snapshots.RestoreSnapshot(
        snapshots_pb2.RestoreSnapshotRequest(snapshot_id=str(uuid.uuid4()))
    ),
    "vector": lambda agent, a, _b: agent.recall.PutEmbedding(
        recall_pb2.PutEmbeddingRequest(item_id=a, embeddings=[recall_pb2.Embedding(values=[1.0] * 384)])
    ),
    "list of what waits": lambda agent, _a, _b: agent.curation.ListPendingMemories(pb.ListPendingMemoriesRequest()),
    "approval": lambda agent, a, _b: approve(agent, a),
    "refusal": lambda agent, a, _b: refuse(agent, a),
}


async def test_every_other_door_is_closed_for_a_source_whose_memories_wait(
    cluster: Cluster, tenant: Tenant, agent: Stubs
) -> None:
    a, b = (await tenant.create_memory("tea")).memory_id, (await tenant.create_memory("coffee")).memory_id
    claiming = cluster.with_key(tenant.api_key, **{"skein-agent-id": "kitchen"})
    # A bound key may not call what is about the whole tenant, whatever the policy says.
    of_whole_tenant = {"import", "restore", "list of what waits", "approval", "refusal"}

    for door, knock in DOORS.items():
        try:
            with refused(DENIED, "APPROVAL_REQUIRED"):
                await knock(claiming, a, b)
            with refused(DENIED, "AGENT_BOUND" if door in of_whole_tenant else "APPROVAL_REQUIRED"):
                await knock(agent, a, b)
        except BaseException as error:
            error.add_note(door)
            raise


async def test_such_a_source_may_delete_and_purge(tenant: Tenant, agent: Stubs) -> None:
    memory = await tenant.create_memory("tea")

    await agent.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=memory.memory_id))

    with refused(NOT_FOUND, "MEMORY_NOT_FOUND"):
        await tenant.get_memory(memory.memory_id)


@pytest.mark.parametrize(
    ("approval", "expected"), [("none", set()), ("agents", {"agent", "claiming"}), ("all", {"few"})]
)
async def test_whose_memories_wait_is_said_by_the_policy(
    cluster: Cluster, tenant: Tenant, approval: str, expected: set[str]
) -> None:
    await require(tenant, approval)
    callers = {
        "few": await key(cluster, tenant, "memory.read", "memory.write"),
        "agent": await key(cluster, tenant, agent_id="kitchen"),
        "claiming": cluster.with_key(tenant.api_key, **{"skein-agent-id": "kitchen"}),
        "approver": tenant,
    }

    waiting = {name for name, caller in callers.items() if (await caller.create_memory(name)).pending_approval}

    assert waiting == expected


async def test_what_waited_too_long_is_neither_listed_nor_decided_on(
    cluster: Cluster, tenant: Tenant, agent: Stubs
) -> None:
    waiting = await agent.create_memory("the kettle sings")
    async with cluster.superuser() as connection:
        await connection.execute(
            "UPDATE memory.pending_memories SET expire_time = now() WHERE tenant_id = $1", tenant.tenant_id
        )

    assert await pending(tenant) == []
    with refused(grpc.StatusCode.NOT_FOUND, "PENDING_MEMORY_NOT_FOUND"):
        await approve(tenant, waiting.memory_id)
    with refused(grpc.StatusCode.NOT_FOUND, "PENDING_MEMORY_NOT_FOUND"):
        await refuse(tenant, waiting.memory_id)
    assert await tenant.list_memories() == []


async def test_each_step_is_an_event_that_webhooks_may_choose(cluster: Cluster, tenant: Tenant, agent: Stubs) -> None:
    kinds = ("memory_pending", "memory_approved", "memory_refused", "memory_pending_expired")
    webhook = webhooks_pb2.Webhook(display_name="w", event_types=kinds, webhook_url="https://hooks.invalid/")
    await tenant.history.CreateWebhook(webhooks_pb2.CreateWebhookRequest(webhook=webhook))
    first, second = await agent.create_memory("tea"), await agent.create_memory("coffee")
    await approve(tenant, first.memory_id)
    await refuse(tenant, second.memory_id)

    assert sorted(await events_of(cluster, tenant, *kinds)) == sorted(
        [
            ("memory_pending", first.memory_id),
            ("memory_pending", second.memory_id),
            ("memory_approved", first.memory_id),
            ("memory_refused", second.memory_id),
        ]
    )
    assert await events_of(cluster, tenant, "memory_created") == [("memory_created", first.memory_id)]


async def test_an_erased_person_is_erased_from_what_waits(cluster: Cluster, tenant: Tenant, agent: Stubs) -> None:
    await agent.create_memory("anna drinks tea", subject_id="anna", request_id="r")
    other = await agent.create_memory("bob drinks tea", subject_id="bob")
    known = await tenant.create_memory("anna sleeps", subject_id="anna")
    await change(agent, known.memory_id, content="anna never sleeps")

    selection = memory_pb2.MemorySelection(filter=memory_pb2.MemoryFilter(subject_id="anna"))
    purged = await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=selection))

    assert purged.receipt.deleted_counts["memory.pending_memories"] == 2
    assert [write.pending_id for write in await pending(tenant)] == [other.memory_id]
    async with cluster.superuser() as connection:
        left = await connection.fetchval(
            "SELECT count(*) FROM memory.requests "
            "WHERE tenant_id = $1 AND position('drinks tea'::bytea IN response) > 0",
            tenant.tenant_id,
        )
    assert left == 0


@pytest.mark.parametrize("kind", ["memory", "message"])
async def test_what_waits_goes_with_a_purged_source(tenant: Tenant, agent: Stubs, kind: str) -> None:
    if kind == "memory":
        source = (await tenant.create_memory("anna drinks tea")).memory_id
        reference = memory_pb2.SourceReference(kind=memory_pb2.SOURCE_KIND_MEMORY, id=source)
    else:
        (message,) = await tenant.append("kitchen", "I drink tea")
        reference = memory_pb2.SourceReference(kind=memory_pb2.SOURCE_KIND_MESSAGE, id=message.message_id)
    known, other = await tenant.create_memory("anna sleeps"), await agent.create_memory("bob drinks tea")
    await agent.create_memory("anna likes tea", derived_from=[reference])
    await change(agent, known.memory_id, content="anna likes tea", derived_from=[reference])

    if kind == "memory":
        selection = memory_pb2.MemorySelection(memory_ids=[reference.id])
        await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=selection))
    else:
        purge = states_pb2.PurgeMessagesRequest(message_ids=[reference.id])
        await tenant.sessions.PurgeMessages(purge)

    assert [write.pending_id for write in await pending(tenant)] == [other.memory_id]


@pytest.mark.parametrize("by", ["memory_id", "external_id", "session_id", "agent_id", "where"])
async def test_a_purge_removes_what_waits(tenant: Tenant, agent: Stubs, by: str) -> None:
    waiting = await agent.create_memory("anna drinks tea", external_id="x", session_id="s")
    known = await tenant.create_memory("anna sleeps", session_id="t", external_id="y")
    await change(agent, known.memory_id, session_id="s", agent_id="kitchen")
    kept = [
        await agent.create_memory("bob drinks tea", session_id="other"),
        await agent.create_memory("anna drinks tea"),
    ]
    where = 'session_id = "s" AND agent_id = "kitchen"'
    selections = {
        "memory_id": memory_pb2.MemorySelection(memory_ids=[waiting.memory_id, known.memory_id]),
        "external_id": memory_pb2.MemorySelection(memory_ids=["x", "y"]),
        "session_id": memory_pb2.MemorySelection(filter=memory_pb2.MemoryFilter(session_id="s")),
        "agent_id": memory_pb2.MemorySelection(filter=memory_pb2.MemoryFilter(agent_id="kitchen", session_id="s")),
        "where": memory_pb2.MemorySelection(filter=memory_pb2.MemoryFilter(where=where)),
    }
    request = memory_pb2.PurgeMemoriesRequest(selection=selections[by], dry_run=True)
    await tenant.memory.PurgeMemories(request)
    request.dry_run = False
    count_after_dry_run = len(await pending(tenant))

    purged = await tenant.memory.PurgeMemories(request)

    assert count_after_dry_run == 4
    assert purged.receipt.deleted_counts["memory.pending_memories"] == 2
    assert not purged.not_found_ids
    assert [write.pending_id for write in await pending(tenant)] == [write.memory_id for write in kept]
    with refused(NOT_FOUND, "PENDING_MEMORY_NOT_FOUND"):
        await approve(tenant, waiting.memory_id)


async def test_a_purge_by_other_fields_leaves_what_waits(tenant: Tenant, agent: Stubs) -> None:
    waiting = await agent.create_memory("anna drinks tea", session_id="s")
    filter_ = memory_pb2.MemoryFilter(session_id="s", types=["fact"])

    purged = await tenant.memory.PurgeMemories(
        memory_pb2.PurgeMemoriesRequest(selection=memory_pb2.MemorySelection(filter=filter_))
    )

    assert "memory.pending_memories" not in purged.receipt.deleted_counts
    assert [write.pending_id for write in await pending(tenant)] == [waiting.memory_id]


async def test_the_guard_redacts_what_waits_and_seals_nothing(tenant: Tenant, agent: Stubs) -> None:
    policy = subjects_pb2.Policy(guard_secrets="seal")
    mask = FieldMask(paths=["guard_secrets"])
    await tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))

    await agent.create_memory("the token is ghp_" + "a1B2" * 9)

    (write,) = await pending(tenant)
    assert write.memory.content == "the token is [github_token]"
    assert not (await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())).memories


async def test_searches_have_no_right_to_read_what_waits(cluster: Cluster) -> None:
    async with cluster.superuser() as connection:
        readers = await connection.fetch(
            "SELECT DISTINCT grantee FROM information_schema.role_table_grants "
            "WHERE table_schema = 'memory' AND table_name = 'pending_memories' AND privilege_type = 'SELECT' "
            "AND grantee NOT IN ('postgres', 'skein_owner')"
        )

    assert {row["grantee"] for row in readers} == {"skein_memory"}


async def test_what_a_memory_was_made_of_waits_with_it(tenant: Tenant, agent: Stubs) -> None:
    source = await tenant.create_memory("the kettle is old")
    made_of = [memory_pb2.SourceReference(kind=memory_pb2.SOURCE_KIND_MEMORY, id=source.memory_id)]
    waiting = await agent.create_memory("the kettle needs care", derived_from=made_of)
    changing = await change(
        agent,
        source.memory_id,
        derived_from=[memory_pb2.SourceReference(kind=memory_pb2.SOURCE_KIND_DOCUMENT, name="manual")],
    )

    before = await tenant.curation.ListImpacted(curation_pb2.ListImpactedRequest(source=made_of[0]))
    approved = await approve(tenant, waiting.memory_id)
    await approve(tenant, changing.pending_id)

    after = await tenant.curation.ListImpacted(curation_pb2.ListImpactedRequest(source=made_of[0]))
    lineage = await tenant.curation.GetLineage(curation_pb2.GetLineageRequest(memory_ids=[source.memory_id]))
    assert waiting.memory_id not in str(before)
    assert approved.memory_id in str(after)
    assert "manual" in str(lineage)
    with refused(NOT_FOUND, "SOURCE_NOT_FOUND"):
        gone = memory_pb2.SourceReference(kind=memory_pb2.SOURCE_KIND_MEMORY, id=str(uuid.uuid4()))
        await agent.create_memory("made of nothing", derived_from=[gone])
