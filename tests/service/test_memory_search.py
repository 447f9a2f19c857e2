"""What recall finds of memories as they are written, changed, deleted and brought back."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from fix_calls import stamp
from fix_cluster import Tenant
from fix_expiry import expire
from fix_memory import stored

from skein.memory.v1 import memory_pb2 as pb
from skein.memory.v1 import snapshots_pb2
from skein.recall.v1 import recall_pb2


async def create(tenant: Tenant, **fields: Any) -> pb.CreateMemoryResponse:
    return await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=pb.Memory(**fields)))


async def update(tenant: Tenant, memory_id: str, paths: list[str], **fields: Any) -> pb.UpdateMemoryResponse:
    return await tenant.memory.UpdateMemory(
        pb.UpdateMemoryRequest(memory=pb.Memory(memory_id=memory_id, **fields), update_mask={"paths": paths})
    )


async def search_hits(tenant: Tenant, query: str, **conditions: Any) -> dict[str, recall_pb2.Hit]:
    """Return the hits that hold the query's words, by their content."""
    request = recall_pb2.RecallRequest(query=query, filter=pb.MemoryFilter(**conditions))
    hits = (await tenant.recall.Recall(request)).hits
    return {
        hit.memory.content: hit
        for hit in hits
        if any(component.signal == "lexical" and component.rank for component in hit.components)
    }


async def found_by_meaning(tenant: Tenant, query: str) -> recall_pb2.Hit:
    """Ask until the one hit has a vector: on a busy machine it is the worker that makes it."""
    async with asyncio.timeout(60):
        while True:
            await asyncio.sleep(0.05)
            (hit,) = (await search_hits(tenant, query)).values()
            if hit.HasField("similarity"):
                return hit


@pytest.mark.system
async def test_a_memory_is_found_by_its_words_at_once_and_by_its_meaning_soon(tenant: Tenant) -> None:
    created = await create(tenant, title="The lighthouse", key="light.house", content="stands on a cliff", type="fact")

    for word in ("lighthouse", "light.house", "cliff"):
        (hit,) = (await search_hits(tenant, word)).values()
        assert hit.memory == stored(created.memory)
    assert (await found_by_meaning(tenant, "lighthouse")).memory == stored(created.memory)


async def test_large_batches_leave_their_vectors_to_the_worker(tenant: Tenant) -> None:
    async def pending(*contents: str) -> int:
        request = pb.BatchCreateMemoriesRequest(memories=[pb.Memory(content=content) for content in contents])
        return (await tenant.memory.BatchCreateMemories(request)).pending_embedding_count

    assert await pending(*(f"pebble {n}" for n in range(17))) == 17
    assert await pending("pebble " * 5_000) == 1
    assert len((await tenant.recall.Recall(recall_pb2.RecallRequest(query="pebble", limit=100))).hits) == 18


@pytest.mark.system
async def test_new_words_are_found_and_old_ones_are_not(tenant: Tenant) -> None:
    created = await create(tenant, content="the lighthouse")

    changed = await update(tenant, created.memory.memory_id, ["content"], content="the windmill")

    assert await search_hits(tenant, "lighthouse") == {}
    assert (await search_hits(tenant, "windmill"))["the windmill"].memory == stored(changed.memory)
    assert (await found_by_meaning(tenant, "windmill")).memory == stored(changed.memory)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"types": ["note"]}, {"types": ["task"]}),
        ({"scopes": [pb.SCOPE_GLOBAL]}, {"scopes": [pb.SCOPE_USER]}),
        ({"source": "old"}, {"source": "new"}),
        ({"agent_id": "old"}, {"agent_id": "new"}),
        ({"subject_id": "old"}, {"subject_id": "new"}),
        ({"session_id": "old"}, {"session_id": "new"}),
        ({"key": "old"}, {"key": "new"}),
        ({"min_importance": 0.05}, {"min_importance": 0.9}),
        ({"tags_any": ["old"]}, {"tags_any": ["new"]}),
    ],
)
async def test_filters_follow_a_change(tenant: Tenant, before: dict[str, Any], after: dict[str, Any]) -> None:
    old = dict.fromkeys(("source", "agent_id", "subject_id", "session_id", "key"), "old")
    new = dict.fromkeys(old, "new")
    created = await create(tenant, content="lighthouse", importance=0.1, tags=["old"], **old)
    assert await search_hits(tenant, "lighthouse", **after) == {}

    paths = [*new, "type", "scope", "importance", "tags"]
    await update(
        tenant, created.memory.memory_id, paths, type="task", scope=pb.SCOPE_USER, importance=0.95, tags=["new"], **new
    )

    assert list(await search_hits(tenant, "lighthouse", **after)) == ["lighthouse"]
    if "min_importance" not in before:
        assert await search_hits(tenant, "lighthouse", **before) == {}


async def test_changes_that_recall_does_not_need_leave_the_vectors_alone(tenant: Tenant) -> None:
    created = await create(tenant, content="lighthouse")
    before = await found_by_meaning(tenant, "lighthouse")

    changed = await update(tenant, created.memory.memory_id, ["tags", "confidence"], tags=["a"], confidence=0.1)

    assert not changed.embedding_pending
    after = (await search_hits(tenant, "lighthouse"))["lighthouse"]
    assert (after.memory, after.similarity) == (stored(changed.memory), before.similarity)


async def test_a_deleted_memory_is_not_found_until_it_is_restored(tenant: Tenant) -> None:
    created = await create(tenant, content="lighthouse")
    memory_id = created.memory.memory_id

    await tenant.memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id=memory_id))
    assert (await tenant.recall.Recall(recall_pb2.RecallRequest(query="lighthouse"))).hits == []
    restored = await tenant.memory.UndeleteMemory(pb.UndeleteMemoryRequest(memory_id=memory_id))

    assert (await search_hits(tenant, "lighthouse"))["lighthouse"].memory == stored(restored.memory)
    assert (await found_by_meaning(tenant, "lighthouse")).memory == stored(restored.memory)


async def test_an_archived_memory_is_not_found_until_it_is_brought_back(tenant: Tenant) -> None:
    created = await create(tenant, content="lighthouse")
    memory_id = created.memory.memory_id

    await update(tenant, memory_id, ["archive_time"], archive_time=stamp(datetime.now(UTC)))
    assert (await tenant.recall.Recall(recall_pb2.RecallRequest(query="lighthouse"))).hits == []
    # A change of the text meanwhile is not lost.
    await update(tenant, memory_id, ["content"], content="windmill")
    await update(tenant, memory_id, ["archive_time"])

    assert list(await search_hits(tenant, "windmill")) == ["windmill"]
    assert await search_hits(tenant, "lighthouse") == {}


@pytest.mark.system
async def test_an_expired_memory_is_not_found_until_an_import_brings_it_again(tenant: Tenant) -> None:
    await expire(tenant.snapshots, pb.Memory(content="lighthouse", external_id="light"))
    await expire(tenant.snapshots, (await create(tenant, content="windmill", external_id="wind")).memory)
    assert (await tenant.recall.Recall(recall_pb2.RecallRequest(query="lighthouse windmill"))).hits == []

    lines = [json.dumps({"memory": {"content": "lighthouse", "external_id": "light"}})]
    lines.append(json.dumps({"memory": {"content": "windmill", "external_id": "wind"}}))
    await tenant.snapshots.ImportData(snapshots_pb2.ImportDataRequest(lines="\n".join(lines)))

    assert set(await search_hits(tenant, "lighthouse windmill")) == {"lighthouse", "windmill"}
