from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused
from fix_world import system_identity
from google.protobuf.field_mask_pb2 import FieldMask

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import blocks_pb2, curation_pb2, memory_pb2, memory_pb2_grpc, snapshots_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_memory.snapshots import store as snapshot_store

pb = snapshots_pb2
READY = pb.SNAPSHOT_STATE_READY


async def remember(tenant: Tenant, *names: str, **fields: Any) -> list[str]:
    """Store memories with these external ids and contents; return their ids."""
    memories = [memory_pb2.Memory(content=name, external_id=name, **fields) for name in names]
    made = await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))
    return [memory.memory_id for memory in made.memories]


async def link(tenant: Tenant, start: str, end: str) -> str:
    link = memory_pb2.Link(from_memory_id=start, to_memory_id=end)
    return (await tenant.links.CreateLink(memory_pb2.CreateLinkRequest(link=link))).link.link_id


async def snapshot(tenant: Tenant, label: str = "s", **fields: Any) -> pb.Snapshot:
    return (await tenant.snapshots.CreateSnapshot(pb.CreateSnapshotRequest(label=label, **fields))).snapshot


async def differences(tenant: Tenant, one: pb.Snapshot, other: pb.Snapshot | None = None) -> set[tuple[str, ...]]:
    """Return kind, id, what became of it and the fields, of all that differs."""
    request = pb.DiffSnapshotsRequest(
        snapshot_id=one.snapshot_id, other_snapshot_id=other.snapshot_id if other else "", page_size=3
    )
    results: set[tuple[str, ...]] = set()
    while True:
        page = await tenant.snapshots.DiffSnapshots(request)
        results |= {
            (d.kind, d.item_id, pb.DifferenceType.Name(d.type).removeprefix("DIFFERENCE_TYPE_").lower(), *d.fields)
            for d in page.differences
        }
        if not page.next_page_token:
            return results
        request.page_token = page.next_page_token


async def restore(tenant: Tenant, one: pb.Snapshot, **fields: Any) -> dict[str, int]:
    """Restore in small portions; return what was done."""
    request = pb.RestoreSnapshotRequest(snapshot_id=one.snapshot_id, page_size=2, **fields)
    total: dict[str, int] = {}
    while True:
        done = await tenant.snapshots.RestoreSnapshot(request)
        for name in ("created", "updated", "unchanged", "removed", "refused"):
            for kind, count in getattr(done.counts, name).items():
                total[f"{kind} {name}"] = total.get(f"{kind} {name}", 0) + count
        if not done.next_page_token:
            return total
        request.page_token = done.next_page_token


async def contents(tenant: Tenant) -> list[str]:
    listed = await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest(show_archived=True))
    return sorted(memory.content for memory in listed.memories)


async def everything(tenant: Tenant) -> dict[str, str]:
    """Give a tenant something of every kind; return ids by name."""
    a, b, c = await remember(tenant, "a", "b", "c", tags=["t"])
    linked = await link(tenant, a, b)
    trust = curation_pb2.SetSourceTrustRequest(source="Calendar", trust=0.9)
    await tenant.curation.SetSourceTrust(trust)
    alias = curation_pb2.ResolveEntityRequest(alias_memory_id=c, canonical_memory_id=a)
    await tenant.curation.ResolveEntity(alias)
    conflict = curation_pb2.ResolveConflictRequest(
        a_memory_id=a, b_memory_id=b, status=curation_pb2.CONFLICT_STATUS_DISMISSED, note="no"
    )
    await tenant.curation.ResolveConflict(conflict)
    block = blocks_pb2.Block(block_id="block", label="human", value="v")
    await tenant.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block, agent_id="agent"))
    return {"a": a, "b": b, "c": c, "link": linked}


@pytest.mark.system
async def test_a_snapshot_holds_everything_and_says_how_much(tenant: Tenant) -> None:
    await everything(tenant)
    await remember(tenant, "gone")
    await tenant.delete_memory("gone")

    made = await snapshot(tenant, "before", summary="all is well")

    assert (made.label, made.summary, made.state) == ("before", "all is well", READY)
    assert dict(made.item_counts) == {
        "memory": 3, "link": 1, "source_trust": 1, "alias": 1, "conflict": 1, "block": 1,
    }  # fmt: skip
    assert made.policy["snapshot_retention"] == 50
    assert (await tenant.snapshots.GetSnapshot(pb.GetSnapshotRequest(snapshot_id=made.snapshot_id))).snapshot == made
    assert await differences(tenant, made) == set()


@pytest.mark.system
async def test_a_snapshot_differs_from_now_by_what_happened_since(tenant: Tenant) -> None:
    ids = await everything(tenant)
    made = await snapshot(tenant)

    await tenant.update_memory("a", content="A", importance=0.9)
    await tenant.delete_memory("b")
    (new,) = await remember(tenant, "new")
    await tenant.links.DeleteLink(memory_pb2.DeleteLinkRequest(link_id=ids["link"]))
    await tenant.blocks.AppendToBlock(blocks_pb2.AppendToBlockRequest(block_id="block", text="w"))
    await tenant.blocks.AttachBlock(blocks_pb2.AttachBlockRequest(block_id="block", agent_id="second"))
    expected = {
        ("memory", ids["a"], "changed", "content", "importance"),
        ("memory", ids["b"], "removed"),
        ("memory", new, "added"),
        ("link", ids["link"], "removed"),
        ("block", "block", "changed", "value", "agent_ids"),
    }

    assert await differences(tenant, made) == expected
    later = await snapshot(tenant)
    assert await differences(tenant, made, later) == expected
    assert await differences(tenant, later) == set()


@pytest.mark.system
async def test_a_restore_brings_back_what_is_missing_and_what_changed(tenant: Tenant) -> None:
    ids = await everything(tenant)
    made = await snapshot(tenant)
    await tenant.update_memory("a", content="A", tags=["other"])
    await tenant.delete_memory("b")
    await remember(tenant, "new")
    await tenant.links.DeleteLink(memory_pb2.DeleteLinkRequest(link_id=ids["link"]))
    await tenant.blocks.DeleteBlock(blocks_pb2.DeleteBlockRequest(block_id="block"))
    await tenant.curation.SetSourceTrust(curation_pb2.SetSourceTrustRequest(source="calendar", trust=0.1))
    await tenant.curation.DeleteAlias(curation_pb2.DeleteAliasRequest(alias_memory_id=ids["c"]))

    done = await restore(tenant, made)

    assert await contents(tenant) == ["a", "b", "c", "new"]
    assert {kind for kind, *_ in await differences(tenant, made)} <= {"memory", "link"}
    assert {entry[2] for entry in await differences(tenant, made) if entry[0] == "memory"} == {"added"}
    assert done["memory updated"] == 2
    assert done["memory unchanged"] == 1
    assert done["link created"] == done["alias created"] == 1
    again = await restore(tenant, made)
    assert not [name for name in again if not name.endswith("unchanged")]
    read = await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id="a"))
    assert (read.memory.memory_id, list(read.memory.tags), read.memory.revision) == (ids["a"], ["t"], 3)


@pytest.mark.system
async def test_a_restore_that_replaces_deletes_the_rest(tenant: Tenant) -> None:
    await everything(tenant)
    made = await snapshot(tenant)
    (new,) = await remember(tenant, "new")
    await link(tenant, "new", "a")
    await tenant.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=blocks_pb2.Block(label="x")))
    await tenant.curation.SetSourceTrust(curation_pb2.SetSourceTrustRequest(source="other", trust=0.1))
    await tenant.delete_memory("c")

    done = await restore(tenant, made, replace=True)

    assert await differences(tenant, made) == set()
    assert await contents(tenant) == ["a", "b", "c"]
    assert (done["memory removed"], done["link removed"], done["block removed"]) == (1, 1, 1)
    assert done["source_trust removed"] == 1
    back = await tenant.memory.UndeleteMemory(memory_pb2.UndeleteMemoryRequest(memory_id=new))
    assert back.memory.content == "new"


async def test_a_key_that_another_fact_took_is_named_and_given_back_by_replacing(tenant: Tenant) -> None:
    await remember(tenant, "old", type="fact", key="k")
    made = await snapshot(tenant)
    await tenant.delete_memory("old")
    await remember(tenant, "new", type="fact", key="k")

    done = await restore(tenant, made)
    assert done == {"memory refused": 1}
    assert await contents(tenant) == ["new"]

    await restore(tenant, made, replace=True)
    assert await contents(tenant) == ["old"]


@pytest.mark.system
async def test_purged_memories_are_in_no_snapshot_and_do_not_come_back(tenant: Tenant) -> None:
    ids = await everything(tenant)
    made = await snapshot(tenant)
    await tenant.memory.PurgeMemories(
        memory_pb2.PurgeMemoriesRequest(selection=memory_pb2.MemorySelection(memory_ids=[ids["a"]]))
    )

    await restore(tenant, made)

    assert await contents(tenant) == ["b", "c"]
    assert await differences(tenant, made) == set()


@pytest.mark.system
async def test_the_newest_snapshots_are_kept(tenant: Tenant) -> None:
    policy = subjects_pb2.UpdatePolicyRequest(policy=subjects_pb2.Policy(snapshot_retention=2))
    policy.update_mask.paths.append("snapshot_retention")
    await tenant.tenancy.UpdatePolicy(policy)
    await remember(tenant, "a")

    made = [await snapshot(tenant, str(n)) for n in range(4)]

    page = await tenant.snapshots.ListSnapshots(pb.ListSnapshotsRequest(page_size=1))
    response = await tenant.snapshots.ListSnapshots(
        pb.ListSnapshotsRequest(page_size=1, page_token=page.next_page_token)
    )
    assert [*page.snapshots, *response.snapshots] == [made[3], made[2]]
    assert not response.next_page_token
    with refused(grpc.StatusCode.NOT_FOUND, "SNAPSHOT_NOT_FOUND"):
        await tenant.snapshots.GetSnapshot(pb.GetSnapshotRequest(snapshot_id=made[0].snapshot_id))


async def test_a_deleted_snapshot_is_gone(tenant: Tenant) -> None:
    made = await snapshot(tenant)
    request = pb.DeleteSnapshotRequest(snapshot_id=made.snapshot_id, request_id="r")

    await tenant.snapshots.DeleteSnapshot(request)
    await tenant.snapshots.DeleteSnapshot(request)

    for call in gone_calls(tenant, made.snapshot_id):
        with refused(grpc.StatusCode.NOT_FOUND, "SNAPSHOT_NOT_FOUND"):
            await call


def gone_calls(tenant: Tenant, snapshot_id: str) -> Iterable[Any]:
    return (
        tenant.snapshots.GetSnapshot(pb.GetSnapshotRequest(snapshot_id=snapshot_id)),
        tenant.snapshots.DiffSnapshots(pb.DiffSnapshotsRequest(snapshot_id=snapshot_id)),
        tenant.snapshots.RestoreSnapshot(pb.RestoreSnapshotRequest(snapshot_id=snapshot_id)),
        tenant.snapshots.DeleteSnapshot(pb.DeleteSnapshotRequest(snapshot_id=snapshot_id)),
    )


@pytest.mark.system
async def test_a_large_snapshot_is_finished_in_the_background(
    cluster: Cluster, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Instead of thousands of memories.
    monkeypatch.setattr(snapshot_store, "_BATCH_SIZE", 10)
    await remember(tenant, *(f"note {n}" for n in range(220)))
    made = await snapshot(tenant)
    await tenant.update_memory("note 219", content="changed meanwhile")
    assert made.state == pb.SNAPSHOT_STATE_CREATING
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "SNAPSHOT_NOT_READY"):
        await differences(tenant, made)

    token = await system_identity(cluster, str(tenant.tenant_id))
    async with cluster.direct("memory") as channel:
        internal = memory_pb2_grpc.MemoryInternalServiceStub(channel)
        metadata = (("authorization", f"Bearer {token}"),)
        answers = await asyncio.gather(
            *(internal.ContinueSnapshots(memory_pb2.ContinueSnapshotsRequest(), metadata=metadata) for _ in range(3))
        )

    assert not all(answer.more for answer in answers)
    done = (await tenant.snapshots.GetSnapshot(pb.GetSnapshotRequest(snapshot_id=made.snapshot_id))).snapshot
    assert (done.state, dict(done.item_counts)) == (READY, {"memory": 220})
    assert [entry[2:] for entry in await differences(tenant, done)] == [("changed", "content")]


@pytest.mark.parametrize("token", ["nonsense", "W10="])
async def test_a_place_that_is_none_is_refused(tenant: Tenant, token: str) -> None:
    made = await snapshot(tenant)

    for call in (
        tenant.snapshots.DiffSnapshots(pb.DiffSnapshotsRequest(snapshot_id=made.snapshot_id, page_token=token)),
        tenant.snapshots.RestoreSnapshot(pb.RestoreSnapshotRequest(snapshot_id=made.snapshot_id, page_token=token)),
        tenant.snapshots.ExportData(pb.ExportDataRequest(page_token=token)),
    ):
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "PAGE_TOKEN_INVALID"):
            await call
    with refused(grpc.StatusCode.NOT_FOUND, "SNAPSHOT_NOT_FOUND"):
        await tenant.snapshots.GetSnapshot(pb.GetSnapshotRequest(snapshot_id=str(uuid.uuid4())))


@pytest.mark.system
async def test_a_repeated_restore_that_replaces_makes_no_link_anew(tenant: Tenant) -> None:
    a, b = await remember(tenant, "a", "b")
    linked = await link(tenant, a, b)
    made = await snapshot(tenant)
    await tenant.links.DeleteLink(memory_pb2.DeleteLinkRequest(link_id=linked))
    await restore(tenant, made, replace=True)
    once = await links_of(tenant, a)

    again = await restore(tenant, made, replace=True)

    assert await links_of(tenant, a) == once
    assert {name: count for name, count in again.items() if not name.endswith("unchanged")} == {}


async def test_a_restore_that_replaces_takes_a_link_whose_relation_changed(tenant: Tenant) -> None:
    a, b = await remember(tenant, "a", "b")
    link_id = await link(tenant, a, b)
    made = await snapshot(tenant)
    changed = memory_pb2.Link(link_id=link_id, relation="contradicts")
    await tenant.links.UpdateLink(memory_pb2.UpdateLinkRequest(link=changed, update_mask=FieldMask(paths=["relation"])))

    await restore(tenant, made, replace=True)

    assert [relation for _, relation in await links_of(tenant, a)] == ["related"]


async def links_of(tenant: Tenant, memory_id: str) -> list[tuple[str, str]]:
    listed = await tenant.links.ListLinks(memory_pb2.ListLinksRequest(memory_id=memory_id))
    return [(each.link_id, each.relation) for each in listed.links]


@pytest.mark.system
async def test_what_is_purged_is_not_counted_in_snapshots(tenant: Tenant) -> None:
    ids = await everything(tenant)
    made = await snapshot(tenant)
    selection = memory_pb2.MemorySelection(memory_ids=[ids["b"]])
    await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=selection))
    await tenant.blocks.DeleteBlock(blocks_pb2.DeleteBlockRequest(block_id="block"))
    await tenant.blocks.PurgeBlock(blocks_pb2.PurgeBlockRequest(block_id="block"))

    kept = (await tenant.snapshots.GetSnapshot(pb.GetSnapshotRequest(snapshot_id=made.snapshot_id))).snapshot

    assert dict(kept.item_counts) == {"memory": 2, "source_trust": 1, "alias": 1}


async def trust_of(tenant: Tenant, memory_id: str) -> float:
    memories = [memory_id]
    lineage = await tenant.curation.GetLineage(curation_pb2.GetLineageRequest(memory_ids=memories))
    return lineage.nodes[0].trust


@pytest.mark.system
async def test_a_restored_text_has_the_trust_of_its_writer(cluster: Cluster, tenant: Tenant) -> None:
    key = await tenant.auth.CreateApiKey(
        auth_pb2.CreateApiKeyRequest(display_name="w", permissions=["memory.read", "memory.write"])
    )
    writer, name = cluster.with_key(key.secret), f"api_key:{key.api_key.api_key_id}"
    await tenant.curation.SetSourceTrust(curation_pb2.SetSourceTrustRequest(source=name, trust=0.1))
    (created, changed) = await remember(tenant, "created", "changed")
    memory = memory_pb2.Memory(content="by the writer", external_id="written")
    written = (await writer.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))).memory.memory_id
    revised = memory_pb2.Memory(memory_id=changed, content="changed by the writer")
    mask = FieldMask(paths=["content"])
    await writer.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=revised, update_mask=mask))
    made = await snapshot(tenant)
    before = {id_: await trust_of(tenant, id_) for id_ in (created, changed, written)}
    for id_ in before:
        await tenant.update_memory(id_, content=f"other words for {id_}")

    await restore(tenant, made)

    assert {id_: await trust_of(tenant, id_) for id_ in before} == before
    assert [before[written], before[changed]] == pytest.approx([0.1, 0.1])
