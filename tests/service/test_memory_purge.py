"""Forgetting for good: what goes, what stays, and that nothing of the content is left anywhere."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import asyncpg
import grpc
import pytest
from fix_calls import struct
from fix_cluster import Tenant, refused
from fix_marker import places_of
from google.protobuf.field_mask_pb2 import FieldMask

from skein.memory.v1 import curation_pb2, snapshots_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein.tenancy.v1 import limits_pb2

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]


async def create(tenant: Tenant, request_id: str = "", **fields: Any) -> pb.Memory:
    request = pb.CreateMemoryRequest(memory=pb.Memory(**fields), request_id=request_id)
    return (await tenant.memory.CreateMemory(request)).memory


async def ids(tenant: Tenant) -> list[str]:
    request = pb.ListMemoriesRequest(show_archived=True, show_deleted=True)
    return [memory.memory_id for memory in (await tenant.memory.ListMemories(request)).memories]


def by_ids(*memory_ids: str, **fields: Any) -> pb.PurgeMemoriesRequest:
    return pb.PurgeMemoriesRequest(selection=pb.MemorySelection(memory_ids=memory_ids), **fields)


def by_filter(*, dry_run: bool = False, page_size: int = 0, page_token: str = "", **conditions: Any) -> Any:
    selection = pb.MemorySelection(filter=pb.MemoryFilter(**conditions))
    return pb.PurgeMemoriesRequest(selection=selection, dry_run=dry_run, page_size=page_size, page_token=page_token)


@pytest.mark.system
async def test_nothing_of_what_was_purged_is_left_in_the_database(tenant: Tenant, connection: Connection) -> None:
    marker, name = f"marker{uuid.uuid4().hex}", f"name{uuid.uuid4().hex}"
    other = await create(tenant, content="another one")
    memory = await create(
        tenant, "r1", external_id=f"x-{name}", type="fact", key=f"k-{marker}", title=marker, content=f"says {marker}",
        data=struct(a=marker), metadata=struct(b=[marker]), tags=[marker], source=marker, source_agent=marker,
        agent_id=name, subject_id=name, session_id=name,
    )  # fmt: skip
    await tenant.memory.UpdateMemory(
        pb.UpdateMemoryRequest(
            memory=pb.Memory(memory_id=memory.memory_id, content=f"said later {marker}", title="plain"),
            update_mask=FieldMask(paths=["content", "title"]),
            request_id="r2",
        )
    )
    link = pb.Link(
        from_memory_id=other.memory_id, to_memory_id=memory.memory_id, label=marker, metadata=struct(c=marker)
    )
    created = await tenant.links.CreateLink(pb.CreateLinkRequest(link=link, request_id="r3"))
    changed = pb.Link(link_id=created.link.link_id, label=f"later {marker}")
    await tenant.links.UpdateLink(pb.UpdateLinkRequest(link=changed, update_mask=FieldMask(paths=["label"])))
    await tenant.snapshots.CreateSnapshot(snapshots_pb2.CreateSnapshotRequest(label="before"))
    await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=f"x-{name}"))
    await tenant.recall.Recall(recall_pb2.RecallRequest(query=marker))
    assert len(await places_of(connection, marker)) > 10

    receipt = (await tenant.memory.PurgeMemories(by_ids(memory.memory_id, request_id="p1"))).receipt

    assert await places_of(connection, marker) == []
    # The record of accesses keeps ids, and no words; it is written behind the calls.
    assert {place.split(".")[1][:10] for place in await places_of(connection, name)} <= {"access_log"}
    assert list(receipt.memory_ids) == [memory.memory_id]
    assert len(receipt.digest) == 64
    assert {
        table: receipt.deleted_counts[table]
        for table in ("memory.memories", "memory.versions", "memory.links", "memory.tags", "recall.documents")
    } == {"memory.memories": 1, "memory.versions": 1, "memory.links": 1, "memory.tags": 1, "recall.documents": 1}
    assert receipt.deleted_counts["memory.requests"] >= 2
    assert await ids(tenant) == [other.memory_id]
    with refused(grpc.StatusCode.NOT_FOUND, "LINK_NOT_FOUND"):
        await tenant.links.DeleteLink(pb.DeleteLinkRequest(link_id=created.link.link_id))


@pytest.mark.parametrize("purged", [0, 1])
async def test_what_was_noted_of_a_conflict_goes_with_whichever_of_its_memories_is_purged(
    tenant: Tenant, connection: Connection, purged: int
) -> None:
    marker = f"marker{uuid.uuid4().hex}"
    ids = [(await create(tenant, type="fact", content=content)).memory_id for content in ("red", "blue")]
    resolution = curation_pb2.ResolveConflictRequest(
        a_memory_id=ids[0], b_memory_id=ids[1], status=curation_pb2.CONFLICT_STATUS_DISMISSED, note=marker
    )
    await tenant.curation.ResolveConflict(resolution)
    resolution.status = curation_pb2.CONFLICT_STATUS_NEEDS_REVIEW
    await tenant.curation.ResolveConflict(resolution)
    assert "memory.conflict_resolutions_history.note" in await places_of(connection, marker)

    await tenant.memory.PurgeMemories(by_ids(ids[purged]))

    assert await places_of(connection, marker) == []


async def test_a_request_that_stored_what_was_purged_neither_shows_it_nor_stores_it_again(tenant: Tenant) -> None:
    memory = await create(tenant, "r1", content="gone soon")
    kept = await create(tenant, "r2", content="stays")
    await tenant.memory.PurgeMemories(by_ids(memory.memory_id))

    assert await create(tenant, "r1", content="gone soon") == pb.Memory()
    assert await create(tenant, "r2", content="stays") == kept
    assert await ids(tenant) == [kept.memory_id]


async def test_a_purge_by_metadata_takes_those_that_pass_and_no_other(tenant: Tenant) -> None:
    gone = [await create(tenant, content=f"n {n}", metadata=struct(customer={"plan": "trial"})) for n in range(3)]
    kept = await create(tenant, content="paid", metadata=struct(customer={"plan": "paid"}))
    await tenant.memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id=gone[0].memory_id))

    response = await tenant.memory.PurgeMemories(by_filter(where='metadata.customer.plan = "trial"'))

    assert set(response.receipt.memory_ids) == {memory.memory_id for memory in gone}
    assert response.next_page_token == ""
    assert await ids(tenant) == [kept.memory_id]


@pytest.mark.system
async def test_a_purge_of_a_person_goes_on_page_by_page_until_nothing_is_left(tenant: Tenant) -> None:
    for n in range(5):
        await create(tenant, content=f"about ann {n}", subject_id="ann")
    bob = await create(tenant, content="about bob", subject_id="bob")
    purged, token = 0, ""

    while True:
        response = await tenant.memory.PurgeMemories(by_filter(subject_id="ann", page_size=2, page_token=token))
        purged += len(response.receipt.memory_ids)
        token = response.next_page_token
        if not token:
            break

    assert purged == 5
    assert await ids(tenant) == [bob.memory_id]


async def test_a_dry_run_says_what_would_go_and_removes_nothing(tenant: Tenant) -> None:
    memory = await create(tenant, content="stays", tags=["a", "b"])

    dry = (await tenant.memory.PurgeMemories(by_filter(tags_any=["a"], dry_run=True))).receipt
    wet = (await tenant.memory.PurgeMemories(by_filter(tags_any=["a"]))).receipt

    assert dry.dry_run
    assert not wet.dry_run
    assert list(dry.memory_ids) == list(wet.memory_ids) == [memory.memory_id]
    assert dict(dry.deleted_counts) == dict(wet.deleted_counts)
    assert dry.deleted_counts["memory.tags"] == 2


@pytest.mark.parametrize("method", ["PurgeMemories", "DeleteMemories", "ExportMemories"])
async def test_everything_is_never_meant_by_saying_nothing(tenant: Tenant, method: str) -> None:
    await create(tenant, content="stays")
    requests = {
        "PurgeMemories": pb.PurgeMemoriesRequest, "DeleteMemories": pb.DeleteMemoriesRequest,
        "ExportMemories": pb.ExportMemoriesRequest,
    }  # fmt: skip

    for empty in (pb.MemorySelection(), pb.MemorySelection(filter=pb.MemoryFilter(where=" "))):
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "SELECTION_EMPTY"):
            await getattr(tenant.memory, method)(requests[method](selection=empty))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "FILTER_FIELD_UNKNOWN"):
        selection = pb.MemorySelection(filter=pb.MemoryFilter(where="colour = red"))
        await getattr(tenant.memory, method)(requests[method](selection=selection))
    assert len(await ids(tenant)) == 1


async def test_ids_that_name_nothing_are_named_and_another_tenant_s_stay(tenant: Tenant, other_tenant: Tenant) -> None:
    theirs = await create(other_tenant, content="theirs", external_id="x1")
    own = await create(tenant, content="own", external_id="x2")

    response = await tenant.memory.PurgeMemories(by_ids(theirs.memory_id, "x1", "x2"))

    assert list(response.not_found_ids) == [theirs.memory_id, "x1"]
    assert list(response.receipt.memory_ids) == [own.memory_id]
    assert await ids(other_tenant) == [theirs.memory_id]


async def test_ids_and_a_filter_mean_those_of_the_ids_that_pass(tenant: Tenant) -> None:
    note = await create(tenant, content="a note")
    fact = await create(tenant, content="a fact", type="fact")
    selection = pb.MemorySelection(memory_ids=[note.memory_id, fact.memory_id], filter=pb.MemoryFilter(types=["fact"]))

    response = await tenant.memory.PurgeMemories(pb.PurgeMemoriesRequest(selection=selection))

    assert list(response.receipt.memory_ids) == [fact.memory_id]


async def test_names_and_room_are_free_again_after_a_purge(tenant: Tenant) -> None:
    memory = await create(tenant, content="one", type="fact", key="k", external_id="x")
    before = await usage(tenant)

    await tenant.memory.PurgeMemories(by_ids(memory.memory_id))

    assert before - await usage(tenant) == 1
    # The same words, said again, are no import.
    again = await create(tenant, content="one", type="fact", key="k", external_id="x")
    assert again.memory_id != memory.memory_id


async def usage(tenant: Tenant) -> int:
    response = await tenant.tenancy.GetUsage(limits_pb2.GetUsageRequest())
    return next(one.used for one in response.usage if one.kind == "memories")


async def test_a_purge_leaves_events_and_tombstones_without_content(tenant: Tenant, connection: Connection) -> None:
    memory = await create(tenant, content="gone", external_id="x")

    receipt = (await tenant.memory.PurgeMemories(by_ids("x"))).receipt

    events = await connection.fetch(
        "SELECT event_type, payload::jsonb ->> 'receipt_id' AS receipt_id FROM memory.changes "
        "WHERE tenant_id = $1 AND entity_id = $2 ORDER BY change_id",
        tenant.tenant_id,
        memory.memory_id,
    )
    assert [tuple(row) for row in events] == [("memory_created", None), ("memory_purged", receipt.receipt_id)]
    count = "SELECT count(*) FROM memory.tombstones WHERE tenant_id = $1"
    assert await connection.fetchval(count, tenant.tenant_id) == 3


def forgetting(*, purge: bool = False, **conditions: Any) -> pb.DeleteMemoriesRequest:
    selection = pb.MemorySelection(filter=pb.MemoryFilter(**conditions))
    return pb.DeleteMemoriesRequest(selection=selection, purge=purge)


async def test_softly_forgotten_memories_can_be_undeleted(tenant: Tenant) -> None:
    memory = await create(tenant, content="unimportant", importance=0.1, tags=["a"])
    kept = await create(tenant, content="important", importance=0.9, tags=["a"])

    response = await tenant.memory.DeleteMemories(forgetting(tags_any=["a"], max_importance=0.2))
    again = await tenant.memory.DeleteMemories(forgetting(tags_any=["a"], max_importance=0.2))

    assert list(response.memory_ids) == [memory.memory_id]
    assert not response.HasField("receipt")
    assert list(again.memory_ids) == []
    listed = await tenant.memory.ListMemories(pb.ListMemoriesRequest())
    assert [one.memory_id for one in listed.memories] == [kept.memory_id]
    restored = await tenant.memory.UndeleteMemory(pb.UndeleteMemoryRequest(memory_id=memory.memory_id))
    assert restored.memory.content == "unimportant"


async def test_hard_forgetting_purges_memories_deleted_or_not(tenant: Tenant) -> None:
    memory = await create(tenant, content="unimportant", tags=["a"])
    await tenant.memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id=memory.memory_id))

    response = await tenant.memory.DeleteMemories(forgetting(tags_any=["a"], purge=True))

    assert list(response.memory_ids) == list(response.receipt.memory_ids) == [memory.memory_id]
    assert await ids(tenant) == []


async def test_an_export_takes_the_same_set_along_first(tenant: Tenant) -> None:
    other = await create(tenant, content="other")
    memory = await create(tenant, content="first", subject_id="ann")
    await tenant.memory.UpdateMemory(
        pb.UpdateMemoryRequest(
            memory=pb.Memory(memory_id=memory.memory_id, content="second"), update_mask=FieldMask(paths=["content"])
        )
    )
    link = pb.Link(from_memory_id=memory.memory_id, to_memory_id=other.memory_id)
    await tenant.links.CreateLink(pb.CreateLinkRequest(link=link))
    await tenant.memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id=memory.memory_id))
    selection = pb.MemorySelection(filter=pb.MemoryFilter(subject_id="ann"))

    response = await tenant.memory.ExportMemories(pb.ExportMemoriesRequest(selection=selection))

    (exported,) = response.memories
    assert exported.memory.content == "second"
    assert [version.memory.content for version in exported.versions] == ["second", "first"]
    assert [one.to_memory_id for one in exported.links] == [other.memory_id]
    assert not exported.truncated
    assert response.next_page_token == ""
