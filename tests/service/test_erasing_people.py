"""Erasing a person for good: no table and no file keeps a word of what was said by or about them."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from fix_calls import struct
from fix_cluster import Cluster, Tenant, refused
from fix_database import all_told
from fix_marker import files_with, places_of
from fix_world import system_identity
from google.protobuf.field_mask_pb2 import FieldMask

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import (
    access_log_pb2,
    archives_pb2,
    blocks_pb2,
    curation_pb2,
    memory_pb2,
    memory_pb2_grpc,
    snapshots_pb2,
    webhooks_pb2,
)
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2

if TYPE_CHECKING:
    from fix_marker import Connection

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
NOT_FOUND = grpc.StatusCode.NOT_FOUND


async def update(tenant: Tenant, memory_id: str, **fields: Any) -> None:
    memory = memory_pb2.Memory(memory_id=memory_id, **fields)
    mask = FieldMask(paths=list(fields))
    await tenant.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=memory, update_mask=mask, request_id="u"))


async def block(tenant: Tenant, block_id: str, value: str, **fields: Any) -> None:
    block = blocks_pb2.Block(block_id=block_id, label="human", value=value, **fields)
    request = blocks_pb2.CreateBlockRequest(block=block, agent_id=f"agent {block_id}", request_id=f"b {block_id}")
    await tenant.blocks.CreateBlock(request)


async def append(tenant: Tenant, block_id: str, text: str) -> None:
    request = blocks_pb2.AppendToBlockRequest(block_id=block_id, text=text, request_id=f"a {block_id}")
    await tenant.blocks.AppendToBlock(request)


async def snapshot(tenant: Tenant) -> snapshots_pb2.Snapshot:
    return (await tenant.snapshots.CreateSnapshot(snapshots_pb2.CreateSnapshotRequest(label="s"))).snapshot


async def cold(tenant: Tenant, content: str, **fields: Any) -> str:
    """Store a memory that was made long ago, in cold storage, by itself."""
    memory = memory_pb2.Memory(content=content, session_id=f"cold {uuid.uuid4()}", **fields)
    memory.create_time.FromDatetime(LONG_AGO)
    created = await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))
    request = archives_pb2.ArchiveMemoriesRequest(session_id=memory.session_id, idle_since_time=datetime.now(UTC))
    assert (await tenant.history.ArchiveMemories(request)).archive.memory_count == 1
    return created.memory.memory_id


def of_subject(subject_id: str, **fields: Any) -> memory_pb2.PurgeMemoriesRequest:
    selection = memory_pb2.MemorySelection(filter=memory_pb2.MemoryFilter(subject_id=subject_id))
    return memory_pb2.PurgeMemoriesRequest(selection=selection, **fields)


async def blocks(tenant: Tenant) -> list[str]:
    page = await tenant.blocks.ListBlocks(blocks_pb2.ListBlocksRequest(show_deleted=True))
    return [one.block_id for one in page.blocks]


@pytest.mark.system
async def test_blocks_about_a_person_are_purged_with_the_person(tenant: Tenant, connection: Connection) -> None:
    marker = f"marker{uuid.uuid4().hex}"
    await block(tenant, "of ann", f"{marker} 1", subject_id="ann", description=marker)
    await append(tenant, "of ann", f"{marker} 2")
    await block(tenant, "gone", marker, subject_id="ann", metadata=struct(a=marker))
    await block(tenant, "of bob", "bob's", subject_id="bob")
    await block(tenant, "of nobody", "nobody's")
    taken = await snapshot(tenant)
    await tenant.blocks.DeleteBlock(blocks_pb2.DeleteBlockRequest(block_id="gone"))
    assert len(await places_of(connection, marker)) > 4

    dry = (await tenant.memory.PurgeMemories(of_subject("ann", dry_run=True))).receipt
    assert len(await blocks(tenant)) == 4
    response = await tenant.memory.PurgeMemories(of_subject("ann"))

    assert await places_of(connection, marker) == []
    counts = dict(response.receipt.deleted_counts)
    assert counts == dict(dry.deleted_counts)
    assert counts == {
        "memory.blocks": 2, "memory.block_agents": 2, "memory.revisions": 2, "memory.snapshot_items": 2,
        "memory.requests": 3,
    }  # fmt: skip
    assert not response.next_page_token
    assert await blocks(tenant) == ["of bob", "of nobody"]
    await tenant.snapshots.RestoreSnapshot(snapshots_pb2.RestoreSnapshotRequest(snapshot_id=taken.snapshot_id))
    assert await blocks(tenant) == ["of bob", "of nobody"]


@pytest.mark.system
async def test_a_purged_block_does_not_come_back_by_an_import_but_may_be_made_anew(tenant: Tenant) -> None:
    await block(tenant, "of ann", "likes tea", subject_id="ann")
    exported = await tenant.snapshots.ExportData(snapshots_pb2.ExportDataRequest())
    await tenant.memory.PurgeMemories(of_subject("ann"))

    imported = await tenant.snapshots.ImportData(snapshots_pb2.ImportDataRequest(lines=exported.lines))

    assert [(error.kind, error.reason) for error in imported.errors] == [("block", "PURGED")]
    assert await blocks(tenant) == []
    # The stored answer of the first is emptied: the same request does nothing.
    await block(tenant, "of ann", "likes tea", subject_id="ann")
    assert await blocks(tenant) == []
    await tenant.blocks.CreateBlock(
        blocks_pb2.CreateBlockRequest(block=blocks_pb2.Block(block_id="of ann", label="human", subject_id="ann"))
    )
    assert await blocks(tenant) == ["of ann"]


async def test_a_block_s_revisions_about_a_person_go_and_the_block_stays(
    tenant: Tenant, connection: Connection
) -> None:
    marker = f"marker{uuid.uuid4().hex}"
    await block(tenant, "shared", marker, subject_id="ann")
    await snapshot(tenant)
    changed = blocks_pb2.Block(block_id="shared", value="of nobody", subject_id="")
    mask = FieldMask(paths=["value", "subject_id"])
    await tenant.blocks.UpdateBlock(blocks_pb2.UpdateBlockRequest(block=changed, update_mask=mask))

    receipt = (await tenant.memory.PurgeMemories(of_subject("ann"))).receipt

    assert await places_of(connection, marker) == []
    assert "memory.blocks" not in receipt.deleted_counts
    read = await tenant.blocks.GetBlock(blocks_pb2.GetBlockRequest(block_id="shared"))
    assert read.block.value == "of nobody"


@pytest.mark.system
async def test_many_memories_and_blocks_of_a_person_go_page_by_page(tenant: Tenant) -> None:
    for n in range(3):
        await tenant.remember(f"about ann {n}", subject_id="ann")
        await block(tenant, f"of ann {n}", "x", subject_id="ann")
    await block(tenant, "of bob", "x", subject_id="bob")
    for dry_run in (True, False):
        removed, token = {"memory.memories": 0, "memory.blocks": 0}, ""
        while True:
            request = of_subject("ann", page_size=2, page_token=token, dry_run=dry_run)
            response = await tenant.memory.PurgeMemories(request)
            removed = {table: n + response.receipt.deleted_counts[table] for table, n in removed.items()}
            token = response.next_page_token
            if not token:
                break
        assert removed == {"memory.memories": 3, "memory.blocks": 3}

    assert await blocks(tenant) == ["of bob"]


async def test_a_purge_that_names_more_than_a_person_leaves_blocks(tenant: Tenant) -> None:
    await block(tenant, "of ann", "x", subject_id="ann")
    filter_ = memory_pb2.MemoryFilter(subject_id="ann", types=["journal"])
    selection = memory_pb2.MemorySelection(filter=filter_)

    await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=selection))

    assert await blocks(tenant) == ["of ann"]


async def test_a_purge_of_blocks_is_in_the_change_log(tenant: Tenant, connection: Connection) -> None:
    await block(tenant, "of ann", "x", subject_id="ann")

    receipt = (await tenant.memory.PurgeMemories(of_subject("ann"))).receipt

    rows = await connection.fetch(
        "SELECT entity_id, payload::jsonb ->> 'receipt_id' AS receipt_id FROM memory.changes "
        "WHERE tenant_id = $1 AND event_type = 'block_purged'",
        tenant.tenant_id,
    )
    assert [tuple(row) for row in rows] == [("of ann", receipt.receipt_id)]


@pytest.mark.system
async def test_no_word_of_a_person_is_left_in_any_service(
    tenant: Tenant, cluster: Cluster, connection: Connection
) -> None:
    marker = f"marker{uuid.uuid4().hex}"
    await a_profile(tenant, marker)
    session = session_pb2.Session(session_id="s", subject_id="ann", title=marker)
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session, request_id="s"))
    message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=marker)
    await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id="s", messages=[message], request_id="m")
    )
    await tenant.remember(marker, subject_id="ann", request_id="c")
    await block(tenant, "of ann", marker, subject_id="ann")
    await append(tenant, "of ann", marker)
    in_cold = [await cold(tenant, f"{marker} {n}", subject_id="ann") for n in range(2)]
    await snapshot(tenant)
    columns = await places_of(connection, marker)
    assert {"tenancy.requests.response", "tenancy.subjects.profile", "memory.blocks.value"} <= set(columns)
    assert len(files_with(cluster, marker)) == 2

    dry = await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="ann", dry_run=True))
    response = await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="ann", request_id="f"))

    assert await places_of(connection, marker) == []
    assert files_with(cluster, marker) == []
    for one in (dry, response):
        of_memory = next(erasure for erasure in one.erasures if erasure.service == "memory")
        expected = {"memory.memories": 1, "memory.blocks": 1, "memory.archived_memories": len(in_cold)}
        assert {table: of_memory.deleted_counts[table] for table in expected} == expected
    assert not response.more


async def a_profile(tenant: Tenant, marker: str) -> None:
    """Make a subject and change it, with requests whose answers are kept."""
    subject = subjects_pb2.Subject(
        subject_id="ann", display_name=marker, profile=struct(name=marker), preferences=struct(likes=marker)
    )
    await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject, request_id="c"))
    mask = FieldMask(paths=["display_name"])
    await tenant.tenancy.UpdateSubject(
        subjects_pb2.UpdateSubjectRequest(subject=subject, update_mask=mask, request_id="u")
    )


@pytest.mark.system
async def test_a_purged_subject_is_in_no_stored_answer_and_others_stay_there(
    tenant: Tenant, connection: Connection
) -> None:
    marker = f"marker{uuid.uuid4().hex}"
    await a_profile(tenant, marker)
    # An id that begins like the other's.
    anna = subjects_pb2.Subject(subject_id="anna", display_name="Anna")
    request = subjects_pb2.CreateSubjectRequest(subject=anna, request_id="anna")
    made = await tenant.tenancy.CreateSubject(request)

    await tenant.tenancy.PurgeSubject(subjects_pb2.PurgeSubjectRequest(subject_id="ann"))

    assert await places_of(connection, marker) == []
    assert await tenant.tenancy.CreateSubject(request) == made
    await a_profile_again(tenant, marker)
    assert await places_of(connection, marker) == []


async def a_profile_again(tenant: Tenant, marker: str) -> None:
    """Repeat a request whose subject was deleted: it does nothing and shows nothing."""
    subject = subjects_pb2.Subject(
        subject_id="ann", display_name=marker, profile=struct(name=marker), preferences=struct(likes=marker)
    )
    request = subjects_pb2.CreateSubjectRequest(subject=subject, request_id="c")
    assert await tenant.tenancy.CreateSubject(request) == subjects_pb2.CreateSubjectResponse()


@pytest.mark.system
async def test_nothing_that_hangs_on_a_purged_memory_keeps_a_word(
    tenant: Tenant, cluster: Cluster, connection: Connection
) -> None:
    marker = f"marker{uuid.uuid4().hex}"
    other = await tenant.remember("another one")
    task = await tenant.remember(marker, type="task", title=marker, data=struct(result=marker), request_id="t")
    vault = await tenant.remember(
        marker, type="knowledge_vault", title=marker, secret_value=f"secret {marker}", request_id="v"
    )
    in_cold = await cold(tenant, marker)
    imported = await tenant.snapshots.ImportData(
        snapshots_pb2.ImportDataRequest(
            lines=json.dumps({"memory": {"content": f"imported {marker}", "external_id": "i"}}), request_id="i"
        )
    )
    assert dict(imported.counts.created) == {"memory": 1}
    webhook = webhooks_pb2.Webhook(display_name="w", event_types=["*"], webhook_url="https://127.0.0.1/hook")
    webhook_id = (
        await tenant.history.CreateWebhook(webhooks_pb2.CreateWebhookRequest(webhook=webhook))
    ).webhook.webhook_id
    gone = await tenant.remember(marker, metadata=struct(a=marker), tags=[marker], request_id="g")
    await update(tenant, gone, content=f"later {marker}")
    link = memory_pb2.Link(from_memory_id=other, to_memory_id=gone, label=marker, metadata=struct(a=marker))
    linked = await tenant.links.CreateLink(memory_pb2.CreateLinkRequest(link=link, request_id="l"))
    for n in range(2):
        note = f"{marker} {n}"
        changed = memory_pb2.Link(link_id=linked.link.link_id, label=note)
        mask = FieldMask(paths=["label"])
        await tenant.links.UpdateLink(memory_pb2.UpdateLinkRequest(link=changed, update_mask=mask, request_id=f"l {n}"))
        await tenant.curation.ResolveEntity(
            curation_pb2.ResolveEntityRequest(
                alias_memory_id=gone, canonical_memory_id=other, note=note, request_id=f"e {n}"
            )
        )
        await tenant.curation.ResolveConflict(
            curation_pb2.ResolveConflictRequest(
                a_memory_id=gone,
                b_memory_id=task,
                status=curation_pb2.CONFLICT_STATUS_NEEDS_REVIEW,
                note=note,
                request_id=f"k {n}",
            )
        )
    await snapshot(tenant)
    await tenant.memory.RevealSecret(memory_pb2.RevealSecretRequest(memory_id=vault, request_id="r"))
    await deliver(cluster, tenant)
    deliveries = await tenant.history.ListWebhookDeliveries(
        webhooks_pb2.ListWebhookDeliveriesRequest(webhook_id=webhook_id)
    )
    assert len(deliveries.deliveries) > 0
    columns = {place.rpartition(".")[0] for place in await places_of(connection, marker)}
    assert columns >= {
        "memory.versions", "memory.links", "memory.aliases", "memory.conflict_resolutions",
        "memory.revisions", "memory.snapshot_items", "memory.tags", "memory.requests",
    }  # fmt: skip
    assert len(files_with(cluster, marker)) == 1

    purging = memory_pb2.MemorySelection(memory_ids=[task, vault, in_cold, "i", gone])
    response = await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=purging))

    assert await places_of(connection, marker) == []
    assert files_with(cluster, marker) == []
    assert list(response.archived_memory_ids) == [in_cold]
    counts = dict(response.receipt.deleted_counts)
    assert (counts["memory.memories"], counts["memory.secrets"], counts["memory.tasks"]) == (4, 1, 1)
    with refused(NOT_FOUND, "MEMORY_NOT_FOUND"):
        await tenant.memory.RevealSecret(memory_pb2.RevealSecretRequest(memory_id=vault, request_id="r"))


async def deliver(cluster: Cluster, tenant: Tenant) -> None:
    """Do what the worker does for the tenant's webhooks."""
    await all_told(cluster.postgres)
    identity = await system_identity(cluster, str(tenant.tenant_id))
    async with cluster.direct("memory") as channel:
        stub = memory_pb2_grpc.MemoryInternalServiceStub(channel)
        headers = (("authorization", f"Bearer {identity}"),)
        await stub.DeliverWebhooks(memory_pb2.DeliverWebhooksRequest(), metadata=headers)


@pytest.mark.system
async def test_a_revealed_secret_is_in_no_log(tenant: Tenant, connection: Connection) -> None:
    secret = f"secret{uuid.uuid4().hex}"
    name = await tenant.remember("", type="knowledge_vault", title="t", secret_value=secret, request_id="c")
    revealing = memory_pb2.RevealSecretRequest(memory_id=name, request_id="r")
    revealed = await tenant.memory.RevealSecret(revealing)
    recorded: list[access_log_pb2.AccessEvent] = []
    while not recorded:
        page = await tenant.history.ListAccessLog(access_log_pb2.ListAccessLogRequest(memory_id=name))
        recorded = [one for one in page.access_events if one.method.endswith("RevealSecret")]

    assert revealed.secret_value == secret
    assert secret not in str(recorded)
    assert await places_of(connection, secret) == []
