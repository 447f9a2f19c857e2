"""Imports keep the times of what they bring; when Skein recorded it stays Skein's own."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused
from fix_database import all_told
from google.protobuf.timestamp_pb2 import Timestamp

from skein.memory.v1 import blocks_pb2, history_pb2, memory_pb2, scores_pb2
from skein.memory.v1 import snapshots_pb2 as pb
from skein.recall.v1 import recall_pb2

OLD, NEWER, NEWEST = "2017-03-01T10:00:00Z", "2019-05-02T11:00:00.250Z", "2021-07-03T12:00:00Z"
OF_2017 = {"content": "the kettle is red", "external_id": "kettle", "create_time": OLD, "update_time": OLD}


async def imported(tenant: Tenant, *items: dict[str, Any], **fields: Any) -> pb.ImportDataResponse:
    lines = "\n".join(json.dumps(item) for item in items)
    done = await tenant.snapshots.ImportData(pb.ImportDataRequest(lines=lines, **fields))
    assert not done.errors
    return done


async def read(tenant: Tenant, name: str, **fields: Any) -> memory_pb2.Memory:
    return (await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=name, **fields))).memory


def stamp(text: str) -> Timestamp:
    time = Timestamp()
    time.FromJsonString(text)
    return time


@pytest.mark.parametrize("mode", [pb.IMPORT_MODE_MERGE, pb.IMPORT_MODE_OVERWRITE])
async def test_an_import_keeps_when_a_memory_was_made_and_changed(tenant: Tenant, mode: pb.ImportMode) -> None:
    before = datetime.now(UTC)

    await imported(tenant, {"memory": {**OF_2017, "update_time": NEWER}}, mode=mode)

    memory = await read(tenant, "kettle")
    assert (memory.create_time, memory.update_time) == (stamp(OLD), stamp(NEWER))
    assert memory.record_time.ToDatetime(tzinfo=UTC) >= before


async def test_the_later_change_wins_whatever_was_imported_first(tenant: Tenant) -> None:
    second = {"memory": {**OF_2017, "content": "the kettle is green", "update_time": NEWER}}
    third = {"memory": {**OF_2017, "content": "the kettle is blue", "update_time": NEWEST}}

    async def after(*items: dict[str, Any]) -> tuple[str, Timestamp, dict[str, int]]:
        done = await imported(tenant, *items)
        memory = await read(tenant, "kettle")
        return memory.content, memory.update_time, dict(done.counts.updated)

    await imported(tenant, {"memory": OF_2017})
    assert await after(third) == ("the kettle is blue", stamp(NEWEST), {"memory": 1})
    assert await after(second) == ("the kettle is blue", stamp(NEWEST), {})
    assert await after(third) == ("the kettle is blue", stamp(NEWEST), {})


async def test_a_change_made_here_is_later_than_what_was_changed_elsewhere_before(tenant: Tenant) -> None:
    await imported(tenant, {"memory": OF_2017})
    changed = memory_pb2.Memory(memory_id="kettle", content="the kettle is black", update_time=stamp(OLD))
    await tenant.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=changed, update_mask={"paths": ["content"]}))

    await imported(tenant, {"memory": {**OF_2017, "content": "the kettle is blue", "update_time": NEWEST}})

    assert (await read(tenant, "kettle")).content == "the kettle is black"


async def test_the_later_change_of_links_blocks_and_trust_wins(tenant: Tenant) -> None:
    def items(update_time: str, text: str) -> list[dict[str, Any]]:
        times = {"create_time": OLD, "update_time": update_time}
        block = {"block_id": "b", "label": "human", "value": text, **times}
        return [
            {"link": {"from_memory_id": "kettle", "to_memory_id": "cup", "label": text, **times}},
            {"source_trust": {"source_key": "calendar", "trust": 0.75, "notes": text, **times}},
            {"alias": {"alias_memory_id": "cup", "canonical_memory_id": "kettle", "note": text, **times}},
            {"conflict": {"a_memory_id": "cup", "b_memory_id": "kettle", "status": "CONFLICT_STATUS_DISMISSED",
                          "note": text, **times}},
            {"block": {"block": block}},
        ]  # fmt: skip

    async def stored_times() -> set[tuple[str, str, str]]:
        lines = (await tenant.snapshots.ExportData(pb.ExportDataRequest(page_size=100))).lines.splitlines()
        payloads = [json.loads(line) for line in lines[3:]]
        return {
            (one.get("label") if "from_memory_id" in one else one.get("value") or one.get("notes") or one.get("note"),
             one["create_time"], one["update_time"])
            for item in payloads for one in [item["block"]["block"] if "block" in item else next(iter(item.values()))]
        }  # fmt: skip

    await imported(tenant, {"memory": OF_2017}, {"memory": {**OF_2017, "content": "a cup", "external_id": "cup"}})
    await imported(tenant, *items(OLD, "first"))
    assert await stored_times() == {("first", OLD, OLD)}
    assert not (await imported(tenant, *items(OLD, "other"))).counts.updated
    assert sum((await imported(tenant, *items(NEWEST, "third"))).counts.updated.values()) == 5
    assert not (await imported(tenant, *items(NEWER, "second"))).counts.updated
    assert await stored_times() == {("third", OLD, NEWEST)}


async def test_a_fact_of_2017_is_no_newer_for_being_imported_today(tenant: Tenant) -> None:
    await tenant.memory.CreateMemory(
        memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="the kettle is red", external_id="today"))
    )
    await imported(tenant, {"memory": OF_2017})

    async def terms(name: str) -> dict[str, float]:
        explained = await tenant.memory.ExplainScore(scores_pb2.ExplainScoreRequest(memory_id=name))
        return {one.name: one.value for one in [*explained.importance_components, *explained.confidence_components]}

    old, new = await terms("kettle"), await terms("today")
    assert old["recency"] < new["recency"]
    assert old["stale"] < new["stale"]
    listed = await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest(order_by="update_time desc"))
    assert [memory.external_id for memory in listed.memories] == ["today", "kettle"]


async def test_as_of_reads_go_by_when_skein_recorded_a_memory(tenant: Tenant) -> None:
    await imported(tenant, {"memory": OF_2017}, {"memory": {**OF_2017, "content": "a cup", "external_id": "cup"}})
    await imported(tenant, {"link": {"from_memory_id": "kettle", "to_memory_id": "cup", "create_time": OLD}})
    recorded = (await read(tenant, "kettle")).record_time
    await imported(tenant, {"memory": {**OF_2017, "content": "the kettle is blue", "update_time": NEWEST}})

    then = await read(tenant, "kettle", as_of_time=recorded)
    listed = await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest(as_of_time=stamp(NEWEST)))
    links_then = memory_pb2.ListLinksRequest(memory_id="kettle", as_of_time=stamp(NEWEST))
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "NOT_KNOWN_THEN"):
        # Before the tenant was created.
        await tenant.links.ListLinks(links_then)
    links_now = await tenant.links.ListLinks(memory_pb2.ListLinksRequest(memory_id="kettle"))

    assert (then.content, then.update_time, then.record_time) == ("the kettle is red", stamp(OLD), recorded)
    assert not listed.memories
    assert [link.create_time for link in links_now.links] == [stamp(OLD)]


async def test_the_event_log_says_when_an_import_happened_here(cluster: Cluster, tenant: Tenant) -> None:
    before = datetime.now(UTC)

    await imported(tenant, {"memory": OF_2017}, {"block": {"block": {"block_id": "b", "label": "human",
                   "create_time": OLD}}})  # fmt: skip
    await all_told(cluster.postgres)

    changes = (await tenant.history.ListChanges(history_pb2.ListChangesRequest(page_size=100))).changes
    assert {"memory_created", "block_created", "data_imported"} <= {change.event_type for change in changes}
    assert all(change.create_time.ToDatetime(tzinfo=UTC) >= before for change in changes)


async def test_an_expired_memory_is_stored_as_expired_and_counted(tenant: Tenant) -> None:
    over = {"memory": {**OF_2017, "expire_time": NEWER}}

    dry = await imported(tenant, over, dry_run=True)
    done = await imported(tenant, over, {"memory": {"content": "stays"}})

    assert dict(dry.counts.expired) == {"memory": 1}
    assert (dict(done.counts.created), dict(done.counts.expired)) == ({"memory": 2}, {"memory": 1})
    listed = await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())
    assert [memory.content for memory in listed.memories] == ["stays"]
    again = await imported(tenant, over)
    assert (dict(again.counts.unchanged), dict(again.counts.expired)) == ({"memory": 1}, {})


async def test_an_ordinary_call_sets_no_update_time(tenant: Tenant) -> None:
    before = datetime.now(UTC)
    memory = memory_pb2.Memory(content="x", update_time=stamp(OLD), record_time=stamp(OLD))

    made = (await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))).memory
    linked = memory_pb2.Link(from_memory_id=made.memory_id, to_memory_id="kettle", create_time=stamp(OLD))
    await imported(tenant, {"memory": OF_2017})
    link = (await tenant.links.CreateLink(memory_pb2.CreateLinkRequest(link=linked))).link
    block = blocks_pb2.Block(label="human", create_time=stamp(OLD), update_time=stamp(OLD))
    kept = (await tenant.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block))).block

    times = [made.update_time, made.record_time, link.create_time, link.update_time, kept.create_time, kept.update_time]
    assert all(time.ToDatetime(tzinfo=UTC) >= before for time in times)


async def test_a_memory_that_is_made_with_an_old_create_time_has_not_been_changed_since(tenant: Tenant) -> None:
    memory = memory_pb2.Memory(content="x", create_time=stamp(OLD))

    made = (await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))).memory

    assert (made.create_time, made.update_time) == (stamp(OLD), stamp(OLD))


async def test_a_snapshot_brings_back_what_it_holds_as_a_change_of_now(tenant: Tenant) -> None:
    await imported(tenant, {"memory": OF_2017})
    made = await tenant.snapshots.CreateSnapshot(pb.CreateSnapshotRequest(label="s"))
    await imported(tenant, {"memory": {**OF_2017, "content": "the kettle is blue", "update_time": NEWEST}})
    before = datetime.now(UTC)

    await tenant.snapshots.RestoreSnapshot(pb.RestoreSnapshotRequest(snapshot_id=made.snapshot.snapshot_id))

    memory = await read(tenant, "kettle")
    assert memory.content == "the kettle is red"
    assert memory.update_time.ToDatetime(tzinfo=UTC) >= before


async def test_a_vector_that_comes_with_a_memory_is_kept_or_counted_with_the_reason(tenant: Tenant) -> None:
    axis = [1.0] + [0.0] * 383
    items = [
        {"memory": {"content": f"n{n}", "external_id": f"n{n}", "embedding": vector}}
        for n, vector in enumerate((axis, axis[:3], [0.0] * 384))
    ]

    done = await imported(tenant, *items)
    again = await imported(tenant, *items)

    assert (done.kept_embedding_count, dict(done.remade_embeddings)) == (
        1,
        {"DIMENSIONS_MISMATCH": 1, "INVALID_FIELD": 1},
    )
    assert (again.kept_embedding_count, dict(again.remade_embeddings)) == (0, {"MEMORY_EXISTS": 3})
    request = recall_pb2.BatchGetIndexStatesRequest(item_ids=["n0"], show_embeddings=True)
    (state,) = (await tenant.recall.BatchGetIndexStates(request)).states
    assert [(one.provider, one.from_caller, list(one.embeddings[0].values)) for one in state.vectors] == [
        ("caller", True, axis)
    ]
