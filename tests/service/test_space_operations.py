"""What happens to the memories of a space, for those who see it and those who do not: events, copies, files, counts."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Stubs, Tenant, refused
from fix_contexts import build_with_receipt, replay_context
from fix_receipts import get_context_receipt, get_receipt, listed_ids, recall_with_receipt
from fix_recipes_webhooks import NOWHERE
from fix_spaces import ALL, SPACE_KEY, House, grant, new_key, new_space
from fix_world import system_identity

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import (
    archives_pb2,
    blocks_pb2,
    curation_pb2,
    history_pb2,
    memory_pb2,
    memory_pb2_grpc,
    snapshots_pb2,
    webhooks_pb2,
)
from skein.recall.v1 import recall_pb2
from skein.session.v1 import archives_pb2 as session_archives_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import limits_pb2, spaces_pb2, subjects_pb2

NOT_FOUND = grpc.StatusCode.NOT_FOUND
DENIED = grpc.StatusCode.PERMISSION_DENIED


@pytest.fixture
async def house(tenant: Tenant, cluster: Cluster) -> House:
    return await House.new(tenant, cluster)


async def changed_ids(stubs: Stubs, **fields: object) -> set[str]:
    request = history_pb2.ListChangesRequest(page_size=1000, **fields)  # type: ignore[arg-type]
    return {change.entity_id for change in (await stubs.history.ListChanges(request)).changes}


@pytest.mark.system
async def test_the_log_has_the_events_of_visible_spaces_alone(house: House) -> None:
    in_clinic = await house.doctor.remember("pulse")
    in_kitchen = await house.bound.remember("soup")
    in_default = await house.cook.remember("lamp")
    known = {in_clinic, in_kitchen, in_default}

    async with asyncio.timeout(30):
        while known & await changed_ids(house.cluster.with_key(house.doctor_secret)) != {in_clinic, in_default}:
            await asyncio.sleep(0.05)
        while known & await changed_ids(house.cook) != {in_kitchen, in_default}:
            await asyncio.sleep(0.05)
        while known & await changed_ids(house.bound) != {in_kitchen}:
            await asyncio.sleep(0.05)
    assert not await changed_ids(house.cook, filter=history_pb2.ChangeFilter(entity_id=in_clinic))
    assert not known & await changed_ids(house.bound, newest_first=True) - {in_kitchen}


async def test_streams_of_two_callers_show_each_what_it_sees(house: House) -> None:
    streams = {
        name: stubs.history.StreamChanges(history_pb2.StreamChangesRequest())
        for name, stubs in (("cook", house.cook), ("bound", house.bound), ("doctor", house.doctor))
    }
    for stream in streams.values():
        await stream.read()

    names = {
        await house.doctor.remember("pulse"): "clinic",
        await house.cook.remember("lamp"): "default",
        await house.bound.remember("soup"): "kitchen",
    }
    # The last one of each is seen after those that must not be.
    last = await house.bound.remember("salt"), await house.doctor.remember("fever")

    async def seen(name: str) -> set[str]:
        found = set[str]()
        async with asyncio.timeout(60):
            while True:
                response: Any = await streams[name].read()
                entity_id = response.change.entity_id
                if entity_id in last:
                    streams[name].cancel()
                    return found
                found |= {names[entity_id]} if entity_id in names else set()

    assert await seen("cook") == {"default", "kitchen"}
    assert await seen("bound") == {"kitchen"}
    assert await seen("doctor") == {"clinic"}


@pytest.mark.system
async def test_a_revoked_grant_ends_a_stream_of_events(house: House) -> None:
    stream = house.cluster.with_key(house.doctor_secret).history.StreamChanges(history_pb2.StreamChangesRequest())
    await stream.read()

    await house.tenant.tenancy.RevokeSpaceGrant(
        spaces_pb2.RevokeSpaceGrantRequest(space_id=house.clinic_id, principal=house.doctor_principal)
    )

    with refused(DENIED, "SPACES_CHANGED"):
        async with asyncio.timeout(30):
            while await stream.read() is not grpc.aio.EOF:
                pass


@pytest.mark.system
async def test_statistics_count_what_the_caller_sees(house: House) -> None:
    first, second = [await house.doctor.remember(f"pulse {n}", tags=["heart"]) for n in range(2)]
    await house.doctor.create_link(first, second, relation="precedes")
    request = curation_pb2.ResolveEntityRequest(alias_memory_id=first, canonical_memory_id=second)
    await house.doctor.curation.ResolveEntity(request)
    await house.cook.remember("lamp", tags=["light"])

    seen = await house.doctor.curation.GetStatistics(curation_pb2.GetStatisticsRequest())
    hidden = await house.cook.curation.GetStatistics(curation_pb2.GetStatisticsRequest())
    bound = await house.bound.curation.GetStatistics(curation_pb2.GetStatisticsRequest())

    assert (seen.memory_count, seen.link_count, seen.alias_count, seen.sampled_link_count) == (2, 1, 1, 1)
    assert (hidden.memory_count, hidden.link_count, hidden.alias_count, hidden.sampled_link_count) == (1, 0, 0, 0)
    assert ([one.tag for one in hidden.tags], dict(hidden.relation_counts)) == (["light"], {})
    assert (bound.memory_count, bound.link_count, bound.alias_count, list(bound.tags)) == (0, 0, 0, [])


@pytest.mark.system
async def test_the_usage_of_all_spaces_is_for_who_manages_them(house: House) -> None:
    await house.doctor.remember("pulse")
    _, member = await new_key(house.cluster, house.tenant, [house.kitchen_id], permissions=["tenant.read"])

    usage = (await house.cook.tenancy.GetUsage(limits_pb2.GetUsageRequest())).usage
    assert {one.kind: one.used for one in usage}["memories"] == 1
    with refused(DENIED, "PERMISSION_MISSING"):
        await house.cluster.with_key(member).tenancy.GetUsage(limits_pb2.GetUsageRequest())
    with refused(DENIED, "SPACES_UNSUPPORTED"):
        await house.bound.tenancy.GetUsage(limits_pb2.GetUsageRequest())


async def test_a_receipt_is_read_and_replayed_while_its_items_are_seen(house: House) -> None:
    await house.tenant.set_policy(recall_receipts="all", audit_query_text=True)
    for n in range(3):
        await house.doctor.remember(f"The pulse of patient {n} is fast.")
        await house.cook.remember(f"The soup of guest {n} is hot.")
    await house.bound.remember("The pulse of the cook is fast.")
    reader = house.cluster.with_key(house.doctor_secret)
    answer = await recall_with_receipt(reader, "Whose pulse is fast?", min_relevance=0)
    assert len(answer.hits) == 6
    receipt_id = answer.receipt_id
    get = recall_pb2.GetRecallReceiptRequest(receipt_id=receipt_id)
    replay = recall_pb2.ReplayRecallRequest(receipt_id=receipt_id)

    receipt = (await reader.recall.GetRecallReceipt(get)).receipt
    assert {uuid.UUID(bytes=receipt.statement.space_ids[n : n + 16]) for n in (0, 16)} == {
        uuid.UUID(int=0),
        uuid.UUID(house.clinic_id),
    }
    assert (await reader.recall.ReplayRecall(replay)).identical
    # What the caller sees since then was not searched.
    await grant(house.tenant, house.kitchen_id, house.doctor_principal)
    async with asyncio.timeout(30):
        while len(await reader.list_memories()) != 7:
            await asyncio.sleep(0.1)
    assert (await reader.recall.ReplayRecall(replay)).identical

    # It is another caller's, with audit.read and without the clinic.
    for stubs in (house.cook, house.bound):
        with refused(NOT_FOUND, "RECEIPT_NOT_FOUND"):
            await stubs.recall.GetRecallReceipt(get)
        assert receipt_id not in await listed_ids(stubs)
    assert receipt_id in await listed_ids(reader)
    await house.revoke_doctor()
    for call in (
        reader.recall.GetRecallReceipt(get),
        reader.recall.ReplayRecall(replay),
        reader.recall.DiffRecall(recall_pb2.DiffRecallRequest(receipt_id=receipt_id, other_receipt_id=receipt_id)),
    ):
        with refused(NOT_FOUND, "RECEIPT_NOT_FOUND"):
            await call
    assert receipt_id not in await listed_ids(reader)


async def _fact(house: House) -> None:
    await house.doctor.create_memory("Allergic to nuts", type="fact", key="allergy", subject_id="anna")


async def _message(house: House) -> None:
    await house.doctor.append("talk", "Whose pulse is fast?")


async def _block(house: House) -> None:
    block = blocks_pb2.Block(block_id="chart", label="chart", value="The kettle of the ward is blue.")
    await house.doctor.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block))


async def _profile(house: House) -> None:
    subject = subjects_pb2.Subject(subject_id="anna", display_name="Anna Berg")
    await house.doctor.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))


async def _archive_talk(house: House) -> None:
    await house.doctor.sessions.HideSession(session_pb2.HideSessionRequest(session_id="talk"))
    await house.doctor.sessions.ArchiveSession(session_archives_pb2.ArchiveSessionRequest(session_id="talk"))


@pytest.mark.parametrize(
    ("make", "fields", "change"),
    [
        (_fact, {"recall": {"subject_id": "anna"}}, None),
        (_message, {"session_id": "talk"}, None),
        (_message, {"session_id": "talk"}, _archive_talk),
        (_block, {"recall": {"branches": [gateway_pb2.BRANCH_MEMORIES, gateway_pb2.BRANCH_BLOCKS]}}, None),
        (_profile, {"recall": {"subject_id": "anna"}}, None),
    ],
    ids=["fact", "message", "archived message", "block", "profile"],
)
async def test_the_receipt_of_a_context_is_read_and_listed_while_all_that_it_names_is_seen(
    house: House,
    make: Callable[[House], Awaitable[None]],
    fields: dict[str, Any],
    change: Callable[[House], Awaitable[None]] | None,
) -> None:
    await house.tenant.set_policy(recall_receipts="all", audit_query_text=True)
    await make(house)
    reader = house.cluster.with_key(house.doctor_secret)
    build = gateway_pb2.BuildContextRequest(**fields)
    build.recall.query, build.recall.min_relevance = "kettle", 0.99
    async with asyncio.timeout(60):
        context = await build_with_receipt(reader, build)
    receipt = await get_context_receipt(reader, context.receipt_id)
    assert len(context.citations) == 1
    assert not receipt.hits
    if change is not None:
        await change(house)
    assert context.receipt_id in await listed_ids(reader)

    await house.revoke_doctor()

    with refused(NOT_FOUND, "RECEIPT_NOT_FOUND"):
        await get_receipt(reader, context.receipt_id)
    with refused(NOT_FOUND, "RECEIPT_NOT_FOUND"):
        await replay_context(reader, context.receipt_id)
    assert context.receipt_id not in await listed_ids(reader)


@pytest.mark.system
async def test_a_receipt_tells_the_documents_of_all_spaces_to_who_manages_them(house: House) -> None:
    await house.tenant.set_policy(recall_receipts="all", audit_query_text=True)
    await house.doctor.remember("The pulse is fast.")
    _, member = await new_key(house.cluster, house.tenant, [house.clinic_id])
    for secret, has_counts in ((member, False), (house.doctor_secret, True)):
        reader = house.cluster.with_key(secret)
        answer = await recall_with_receipt(reader, "pulse", min_relevance=0)

        get = recall_pb2.GetRecallReceiptRequest(receipt_id=answer.receipt_id)
        receipt = (await reader.recall.GetRecallReceipt(get)).receipt

        assert [hit.item_id for hit in receipt.hits] == [hit.item_id for hit in answer.hits]
        shown = (receipt.content, receipt.signature, receipt.document, receipt.statement.corpus_documents)
        assert all(shown) if has_counts else not any(shown)
        assert bool(receipt.term_documents) is has_counts


@pytest.mark.system
async def test_a_context_of_a_space_is_replayed_byte_for_byte(house: House) -> None:
    await house.tenant.set_policy(recall_receipts="all", audit_query_text=True)
    await house.bound.remember("The soup needs salt.")
    recall = gateway_pb2.RecallRequest(query="What does the soup need?", min_relevance=0)
    build = gateway_pb2.BuildContextRequest(recall=recall)
    while not (context := await house.bound.gateway.BuildContext(build)).receipt_id:
        await asyncio.sleep(0.05)
    replay = gateway_pb2.ReplayContextRequest(receipt_id=context.receipt_id)

    replayed = await house.bound.gateway.ReplayContext(replay)

    assert replayed.text == context.text
    assert replayed.identical


def snapshot_in(stubs: Stubs) -> Any:
    return stubs.snapshots.CreateSnapshot(snapshots_pb2.CreateSnapshotRequest(label="monday"))


@pytest.mark.system
async def test_a_snapshot_lies_in_a_space_and_holds_what_lies_there(house: House) -> None:
    pulse, fever = await house.doctor.remember("pulse"), await house.doctor.remember("fever")
    await house.doctor.create_link(pulse, fever)
    await house.cook.remember("lamp")
    in_clinic = (await snapshot_in(house.doctor)).snapshot
    in_default = (await snapshot_in(house.cook)).snapshot

    assert dict(in_clinic.item_counts) == {"memory": 2, "link": 1}
    assert dict(in_default.item_counts) == {"memory": 1}
    for stubs in (house.cook, house.bound):
        with refused(NOT_FOUND, "SNAPSHOT_NOT_FOUND"):
            await stubs.snapshots.GetSnapshot(snapshots_pb2.GetSnapshotRequest(snapshot_id=in_clinic.snapshot_id))
        with refused(NOT_FOUND, "SNAPSHOT_NOT_FOUND"):
            await stubs.snapshots.RestoreSnapshot(
                snapshots_pb2.RestoreSnapshotRequest(snapshot_id=in_clinic.snapshot_id, replace=True)
            )
        with refused(NOT_FOUND, "SNAPSHOT_NOT_FOUND"):
            await stubs.snapshots.DeleteSnapshot(snapshots_pb2.DeleteSnapshotRequest(snapshot_id=in_clinic.snapshot_id))
    listed = await house.cook.snapshots.ListSnapshots(snapshots_pb2.ListSnapshotsRequest())
    assert [one.snapshot_id for one in listed.snapshots] == [in_default.snapshot_id]
    # What lies in other spaces is not missing in it.
    difference = await house.cluster.with_key(house.doctor_secret).snapshots.DiffSnapshots(
        snapshots_pb2.DiffSnapshotsRequest(snapshot_id=in_default.snapshot_id)
    )
    assert not difference.differences


@pytest.mark.system
async def test_a_restore_changes_the_space_of_the_snapshot_alone(house: House) -> None:
    pulse = await house.doctor.remember("pulse")
    snapshot = (await snapshot_in(house.doctor)).snapshot
    await house.doctor.update_memory(pulse, content="changed")
    later = await house.doctor.remember("later")
    lamp = await house.cook.remember("lamp")
    request = snapshots_pb2.RestoreSnapshotRequest(snapshot_id=snapshot.snapshot_id, replace=True)
    while True:
        restored = await house.doctor.snapshots.RestoreSnapshot(request)
        if not restored.next_page_token:
            break
        request.page_token = restored.next_page_token

    assert {memory.memory_id: memory.content for memory in await house.doctor.list_memories()} == {pulse: "pulse"}
    with refused(NOT_FOUND, "MEMORY_NOT_FOUND"):
        await house.doctor.get_memory(later)
    assert [memory.memory_id for memory in await house.cook.list_memories()] == [lamp]


async def export(stubs: Stubs) -> list[dict[str, object]]:
    lines, token = "", ""
    while True:
        page = await stubs.snapshots.ExportData(snapshots_pb2.ExportDataRequest(page_token=token))
        lines, token = lines + page.lines, page.next_page_token
        if not token:
            return [json.loads(line) for line in lines.splitlines()]


def contents(lines: list[dict[str, object]]) -> dict[str, str]:
    """Return the contents of exported memories, with their spaces."""
    return {line["memory"]["content"]: str(line.get("space_id", "")) for line in lines if "memory" in line}  # type: ignore[index]


async def import_lines(stubs: Stubs, lines: list[dict[str, object]]) -> snapshots_pb2.ImportDataResponse:
    text = "\n".join(map(json.dumps, lines))
    return await stubs.snapshots.ImportData(snapshots_pb2.ImportDataRequest(lines=text))


@pytest.mark.system
async def test_an_export_holds_what_its_caller_sees_with_the_space_of_each_item(house: House) -> None:
    pulse, fever = await house.doctor.remember("pulse"), await house.doctor.remember("fever")
    await house.doctor.create_link(pulse, fever)
    await house.bound.remember("soup")
    await house.cook.remember("lamp")

    doctors = await export(house.cluster.with_key(house.doctor_secret))
    assert contents(doctors) == {"pulse": house.clinic_id, "fever": house.clinic_id, "lamp": ""}
    assert [line["space_id"] for line in doctors if "link" in line] == [house.clinic_id]
    cooks = await export(house.cook)
    assert contents(cooks) == {"soup": house.kitchen_id, "lamp": ""}
    assert not [line for line in cooks if "link" in line]
    assert contents(await export(house.bound)) == {"soup": house.kitchen_id}


@pytest.mark.system
async def test_an_import_keeps_recorded_spaces_where_its_caller_may_write(house: House) -> None:
    lines: list[dict[str, object]] = [
        {"memory": {"content": "lamp"}},
        {"memory": {"content": "pulse"}, "space_id": house.clinic_id},
        {"memory": {"content": "soup"}, "space_id": house.kitchen_id},
        {"memory": {"content": "nowhere"}, "space_id": str(uuid.uuid4())},
    ]

    answer = await import_lines(house.cluster.with_key(house.doctor_secret), lines)

    assert [(error.line, error.reason) for error in answer.errors] == [
        (3, "SPACE_NOT_FOUND"),
        (4, "SPACE_NOT_FOUND"),
    ]
    assert {memory.content for memory in await house.doctor.list_memories()} == {"pulse"}
    assert {memory.content for memory in await house.cook.list_memories()} == {"lamp"}
    assert await house.bound.list_memories() == []


@pytest.mark.system
async def test_an_import_into_a_named_space_writes_there_and_overwrites_nothing_elsewhere(house: House) -> None:
    pulse = await house.doctor.create_memory("pulse")
    lines = await export(house.cluster.with_key(house.doctor_secret))
    for line in lines:
        if "memory" in line:
            line["memory"]["content"] = "copied"  # type: ignore[index]
    in_kitchen = house.cluster.with_key(house.cook_secret, **{SPACE_KEY: house.kitchen_id})

    answer = await import_lines(in_kitchen, lines)

    assert not answer.errors, answer
    (copy,) = await in_kitchen.list_memories()
    assert (copy.content, copy.external_id) == ("copied", pulse.memory_id)
    assert copy.memory_id != pulse.memory_id
    assert (await house.doctor.get_memory(pulse.memory_id)).content == "pulse"
    # Again, it finds the copy.
    await import_lines(in_kitchen, lines)
    assert [memory.memory_id for memory in await in_kitchen.list_memories()] == [copy.memory_id]


async def test_ratings_are_not_imported_into_a_space(house: House) -> None:
    lines: list[dict[str, object]] = [{"source_trust": {"source_key": "news", "trust": 0.1}}]

    answer = await import_lines(house.bound, lines)

    assert [error.reason for error in answer.errors] == ["SPACES_UNSUPPORTED"]
    trusts = await house.cook.curation.ListSourceTrust(curation_pb2.ListSourceTrustRequest())
    assert not trusts.source_trust


async def archive(stubs: Stubs) -> archives_pb2.Archive:
    request = archives_pb2.ArchiveMemoriesRequest(label="old")
    request.idle_since_time.FromDatetime(datetime.now(UTC))
    return (await stubs.history.ArchiveMemories(request)).archive


async def old_memory(stubs: Stubs, content: str, **fields: object) -> str:
    memory = memory_pb2.Memory(content=content, **fields)  # type: ignore[arg-type]
    memory.create_time.FromDatetime(datetime(2020, 1, 1, tzinfo=UTC))
    request = memory_pb2.CreateMemoryRequest(memory=memory)
    return (await stubs.memory.CreateMemory(request)).memory.memory_id


@pytest.mark.system
async def test_an_archive_lies_in_a_space_and_brings_its_memories_back_there(house: House) -> None:
    pulse = await old_memory(house.doctor, "pulse", key="pulse", type="fact")
    lamp = await old_memory(house.cook, "lamp")

    archived = await archive(house.doctor)

    assert archived.memory_count == 1
    with refused(NOT_FOUND, "MEMORY_NOT_FOUND"):
        await house.doctor.get_memory(pulse)
    assert (await house.cook.get_memory(lamp)).content == "lamp"
    unarchive = archives_pb2.UnarchiveMemoriesRequest(archive_id=archived.archive_id)
    for stubs in (house.cook, house.bound):
        assert not (await stubs.history.ListArchives(archives_pb2.ListArchivesRequest())).archives
        with refused(NOT_FOUND, "ARCHIVE_NOT_FOUND"):
            await stubs.history.UnarchiveMemories(unarchive)
    assert (await house.doctor.history.UnarchiveMemories(unarchive)).unarchived_count == 1
    assert (await house.doctor.get_memory(pulse)).content == "pulse"
    with refused(NOT_FOUND, "MEMORY_NOT_FOUND"):
        await house.cook.get_memory(pulse)


class Webhooks:
    """Deliveries of a tenant, queued by the cluster's own call."""

    def __init__(self, house: House) -> None:
        self.house = house

    async def create(self, stubs: Stubs) -> str:
        webhook = webhooks_pb2.Webhook(display_name="w", event_types=["memory_created"], webhook_url=NOWHERE)
        request = webhooks_pb2.CreateWebhookRequest(webhook=webhook)
        return (await stubs.history.CreateWebhook(request)).webhook.webhook_id

    async def deliver(self) -> None:
        identity = await system_identity(self.house.cluster, str(self.house.tenant.tenant_id))
        async with self.house.cluster.direct("memory") as channel:
            stub = memory_pb2_grpc.MemoryInternalServiceStub(channel)
            headers = (("authorization", f"Bearer {identity}"),)
            await stub.DeliverWebhooks(memory_pb2.DeliverWebhooksRequest(), metadata=headers)

    async def entities(self, webhook_id: str) -> set[str]:
        """Return what the queued events of a webhook are about."""
        async with self.house.cluster.superuser() as connection:
            rows = await connection.fetch(
                "SELECT c.entity_id FROM memory.deliveries AS d"
                " JOIN memory.changes AS c ON c.tenant_id = d.tenant_id AND c.change_id = d.change_id"
                " WHERE d.webhook_id = $1",
                uuid.UUID(webhook_id),
            )
        return {row["entity_id"] for row in rows}


@pytest.mark.system
async def test_a_webhook_gets_the_events_of_its_space_while_its_maker_sees_it(house: House) -> None:
    webhooks = Webhooks(house)
    in_clinic, in_default = await webhooks.create(house.doctor), await webhooks.create(house.cook)
    in_kitchen = await webhooks.create(house.bound)
    pulse, lamp = await house.doctor.remember("pulse"), await house.cook.remember("lamp")
    soup = await house.bound.remember("soup")
    expected = {in_clinic: {pulse}, in_default: {lamp}, in_kitchen: {soup}}

    async with asyncio.timeout(60):
        while {id_: await webhooks.entities(id_) for id_ in expected} != expected:
            await webhooks.deliver()
            for id_, entities in expected.items():
                assert await webhooks.entities(id_) <= entities
            await asyncio.sleep(0.05)

    get = webhooks_pb2.GetWebhookRequest(webhook_id=in_clinic)
    deliveries = webhooks_pb2.ListWebhookDeliveriesRequest(webhook_id=in_clinic)
    for stubs in (house.cook, house.bound):
        with refused(NOT_FOUND, "WEBHOOK_NOT_FOUND"):
            await stubs.history.GetWebhook(get)
        with refused(NOT_FOUND, "WEBHOOK_NOT_FOUND"):
            await stubs.history.ListWebhookDeliveries(deliveries)
    (delivery,) = (await house.doctor.history.ListWebhookDeliveries(deliveries)).deliveries
    with refused(NOT_FOUND, "DELIVERY_NOT_FOUND"):
        await house.cook.history.RetryWebhookDelivery(
            webhooks_pb2.RetryWebhookDeliveryRequest(delivery_id=delivery.delivery_id)
        )

    manager, secret = await new_key(house.cluster, house.tenant, [house.clinic_id], permissions=ALL)
    assert manager
    await house.revoke_doctor()
    await webhooks.deliver()
    seen = house.cluster.with_key(secret, **{SPACE_KEY: house.clinic_id})
    assert not (await seen.history.GetWebhook(get)).webhook.active
    later = await seen.remember("later")
    await webhooks.deliver()
    assert later not in await webhooks.entities(in_clinic)
    # Those of others are not touched.
    kitchens = webhooks_pb2.GetWebhookRequest(webhook_id=in_kitchen)
    assert (await house.bound.history.GetWebhook(kitchens)).webhook.active


@pytest.mark.system
async def test_a_webhook_of_the_default_space_ends_when_its_maker_is_bound(house: House) -> None:
    webhooks = Webhooks(house)
    webhook_id = await webhooks.create(house.cluster.with_key(house.doctor_secret))

    await grant(house.tenant, house.clinic_id, house.doctor_principal, bind=True)
    await webhooks.deliver()

    webhook = (await house.cook.history.GetWebhook(webhooks_pb2.GetWebhookRequest(webhook_id=webhook_id))).webhook
    assert not webhook.active


@pytest.mark.system
async def test_a_space_with_a_snapshot_is_not_deleted(house: House) -> None:
    space_id = await new_space(house.tenant, "empty")
    principal, secret = await new_key(house.cluster, house.tenant, [space_id], permissions=ALL)
    await snapshot_in(house.cluster.with_key(secret, **{SPACE_KEY: space_id}))
    await house.tenant.tenancy.RevokeSpaceGrant(
        spaces_pb2.RevokeSpaceGrantRequest(space_id=space_id, principal=principal)
    )
    async with house.cluster.superuser() as connection:
        await connection.execute(
            "UPDATE tenancy.spaces SET grant_end_time = grant_end_time - interval '1 hour' WHERE space_id = $1",
            uuid.UUID(space_id),
        )

    with refused(grpc.StatusCode.FAILED_PRECONDITION, "SPACE_NOT_EMPTY"):
        await house.tenant.tenancy.DeleteSpace(spaces_pb2.DeleteSpaceRequest(space_id=space_id))
