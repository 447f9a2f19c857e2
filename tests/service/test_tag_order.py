"""Tags keep the order in which they were given, through every call that stores or reads a memory."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from fix_cluster import Cluster, Tenant

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import archives_pb2, scores_pb2, snapshots_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein.recall.v1 import recall_pb2

# In the order of no alphabet.
TAGS = ["zebra", "ant", "Mule", "éland", "bee", "10", "9"]
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


async def create(tenant: Tenant, content: str = "the heron stood in the reeds", *, external_id: str = "") -> str:
    memory = pb.Memory(content=content, external_id=external_id, tags=TAGS)
    memory.create_time.FromDatetime(LONG_AGO)
    return (await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=memory))).memory.memory_id


async def retag(tenant: Tenant, memory_id: str, tags: list[str]) -> pb.Memory:
    memory = pb.Memory(memory_id=memory_id, tags=tags)
    request = pb.UpdateMemoryRequest(memory=memory, update_mask={"paths": ["tags"]})
    return (await tenant.memory.UpdateMemory(request)).memory


@pytest.mark.system
async def test_whatever_stores_a_memory_answers_with_its_tags_in_order(tenant: Tenant) -> None:
    memory = pb.Memory(content="the heron stood in the reeds", tags=TAGS)

    one = await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=memory))
    many = await tenant.memory.BatchCreateMemories(pb.BatchCreateMemoriesRequest(memories=[memory] * 6))
    remembered = await tenant.gateway.Remember(gateway_pb2.RememberRequest(memories=[memory]))

    answers = [one.memory, *many.memories, *remembered.memories]
    assert [list(each.tags) for each in answers] == [TAGS] * 8
    assert [list((await tenant.get_memory(each.memory_id)).tags) for each in answers] == [TAGS] * 8


async def test_whatever_reads_a_memory_shows_its_tags_in_order(tenant: Tenant) -> None:
    memory_id = await create(tenant)

    several = await tenant.memory.BatchGetMemories(pb.BatchGetMemoriesRequest(memory_ids=[memory_id]))
    listed = await tenant.memory.ListMemories(pb.ListMemoriesRequest())
    tagged = await tenant.memory.ListMemories(pb.ListMemoriesRequest(filter=pb.MemoryFilter(tags_any=["bee"])))
    recalled = await tenant.recall.Recall(recall_pb2.RecallRequest(query="heron reeds"))
    by_gateway = await tenant.gateway.Recall(gateway_pb2.RecallRequest(query="heron reeds"))

    results = [*several.memories, *listed.memories, *tagged.memories]
    results += [hit.memory for hit in recalled.hits]
    assert [list(each.tags) for each in results] == [TAGS] * 4
    assert [list(hit.memory.tags) for hit in by_gateway.hits] == [TAGS]


@pytest.mark.parametrize(
    "tags",
    [
        TAGS[::-1],
        [TAGS[-1], *TAGS[:-1]],
        [*TAGS, "a new one"],
        ["a new one", *TAGS],
        TAGS[1:],
        ["x", TAGS[3], "y", TAGS[0], "z"],
        ["only"],
        [],
    ],
    ids=["reversed", "last first", "one more", "one before", "one less", "mixed", "others", "none"],
)
async def test_an_update_stores_the_new_order(tenant: Tenant, tags: list[str]) -> None:
    memory_id = await create(tenant)

    answer = await retag(tenant, memory_id, tags)
    appended = await retag(tenant, memory_id, [*tags, "Aardvark"])

    assert (list(answer.tags), answer.revision) == (tags, 2)
    assert list(appended.tags) == [*tags, "Aardvark"]
    assert list((await tenant.get_memory(memory_id)).tags) == [*tags, "Aardvark"]


async def test_another_order_alone_is_a_change_that_history_tells(tenant: Tenant) -> None:
    memory_id = await create(tenant)

    await retag(tenant, memory_id, sorted(TAGS))
    kept = await retag(tenant, memory_id, sorted(TAGS))

    listed = await tenant.memory.ListMemoryVersions(pb.ListMemoryVersionsRequest(memory_id=memory_id))
    versions = {each.memory.revision: each for each in listed.versions}
    assert list(versions[1].memory.tags) == TAGS
    assert (list(versions[2].memory.tags), list(versions[2].changed_fields)) == (sorted(TAGS), ["tags"])
    assert list(kept.tags) == sorted(TAGS)


async def test_the_same_text_with_tags_in_another_order_is_the_same_text(tenant: Tenant) -> None:
    memory_id = await create(tenant)

    other = pb.Memory(content="the heron stood in the reeds", tags=TAGS[::-1])
    again = await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=other))

    assert again.memory.content_hash == (await tenant.get_memory(memory_id)).content_hash


async def test_tags_keep_their_order_in_cold_storage(tenant: Tenant) -> None:
    memory_id = await create(tenant)
    request = archives_pb2.ArchiveMemoriesRequest(idle_since_time=datetime.now(UTC))
    archive_id = (await tenant.history.ArchiveMemories(request)).archive.archive_id

    await tenant.history.UnarchiveMemories(archives_pb2.UnarchiveMemoriesRequest(archive_id=archive_id))

    assert list((await tenant.get_memory(memory_id)).tags) == TAGS


@pytest.mark.system
async def test_tags_keep_their_order_in_a_snapshot(tenant: Tenant) -> None:
    memory_id = await create(tenant)
    made = await tenant.snapshots.CreateSnapshot(snapshots_pb2.CreateSnapshotRequest(label="s"))
    await retag(tenant, memory_id, sorted(TAGS))

    done = await tenant.snapshots.RestoreSnapshot(
        snapshots_pb2.RestoreSnapshotRequest(snapshot_id=made.snapshot.snapshot_id)
    )

    assert dict(done.counts.updated) == {"memory": 1}
    assert list((await tenant.get_memory(memory_id)).tags) == TAGS


async def test_tags_keep_their_order_on_the_way_to_another_tenant(tenant: Tenant, other_tenant: Tenant) -> None:
    await create(tenant, external_id="m")

    exported = await tenant.snapshots.ExportData(snapshots_pb2.ExportDataRequest())
    await other_tenant.snapshots.ImportData(snapshots_pb2.ImportDataRequest(lines=exported.lines))

    lines = [json.loads(line) for line in exported.lines.splitlines()]
    assert [line["memory"]["tags"] for line in lines if "memory" in line] == [TAGS]
    assert list((await other_tenant.get_memory("m")).tags) == TAGS


async def test_an_import_that_unites_puts_new_tags_after_those_that_are_there(tenant: Tenant) -> None:
    await create(tenant, external_id="m")
    line = json.dumps({"memory": {"content": "x", "external_id": "m", "tags": ["first", "bee", "ant"]}})

    await tenant.snapshots.ImportData(snapshots_pb2.ImportDataRequest(lines=line, mode=snapshots_pb2.IMPORT_MODE_MERGE))

    assert list((await tenant.get_memory("m")).tags) == [*TAGS, "first"]


async def test_a_merge_puts_the_tags_of_the_others_after_those_of_the_first(tenant: Tenant) -> None:
    first = await create(tenant)
    other = await tenant.memory.CreateMemory(
        pb.CreateMemoryRequest(memory=pb.Memory(content="by the lake", tags=["lake", "ant", "Aal"]))
    )

    merged = await tenant.memory.MergeMemories(
        scores_pb2.MergeMemoriesRequest(memory_ids=[first, other.memory.memory_id])
    )

    assert list(merged.memory.tags) == [*TAGS, "lake", "Aal"]


async def test_tags_of_an_older_version_come_by_their_texts_after_those_with_a_place(
    cluster: Cluster, tenant: Tenant
) -> None:
    old, both = await create(tenant), await create(tenant)
    async with cluster.superuser() as connection:
        # As an older version writes: it names no position.
        await connection.execute("UPDATE memory.tags SET position = NULL WHERE memory_id = $1", old)
        await connection.executemany(
            "INSERT INTO memory.tags (tenant_id, memory_id, tag) VALUES ($1, $2, $3)",
            [(tenant.tenant_id, both, "b"), (tenant.tenant_id, both, "B"), (tenant.tenant_id, both, "a")],
        )

    read_old, read_both = await tenant.get_memory(old), await tenant.get_memory(both)
    changed = await retag(tenant, old, [*read_old.tags, "Aal"])

    assert list(read_old.tags) == sorted(TAGS)
    assert list(read_both.tags) == [*TAGS, "B", "a", "b"]
    assert list((await tenant.get_memory(old)).tags) == list(changed.tags) == [*sorted(TAGS), "Aal"]
