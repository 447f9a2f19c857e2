"""A memory does not give way to one that its readers cannot see; expired memories are neither kept nor counted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fix_cluster import Tenant
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from skein.memory.v1 import curation_pb2, scores_pb2
from skein.memory.v1 import memory_pb2 as pb


def long_ago() -> Timestamp:
    made = Timestamp()
    made.FromDatetime(datetime.now(UTC) - timedelta(hours=1))
    return made


async def create(tenant: Tenant, *memories: dict[str, Any]) -> list[str]:
    drafts = [pb.Memory(**{"content": "x", **said}) for said in memories]
    # Imports may bring what has expired.
    request = pb.BatchCreateMemoriesRequest(memories=drafts, keep_times=True)
    return [memory.memory_id for memory in (await tenant.memory.BatchCreateMemories(request)).memories]


async def consolidated(tenant: Tenant, **fields: Any) -> list[tuple[str, list[str]]]:
    """Consolidate until there is nothing more, which comes soon."""
    results: list[tuple[str, list[str]]] = []
    request = scores_pb2.ConsolidateMemoriesRequest(**fields)
    for _ in range(50):
        answer = await tenant.memory.ConsolidateMemories(request)
        results += [(one.kept_memory_id, sorted(one.archived_memory_ids)) for one in answer.groups]
        if not answer.next_page_token:
            return results
        request.page_token = answer.next_page_token
    raise AssertionError("it never ends")


def of(person: str, **fields: Any) -> dict[str, Any]:
    return {"title": "Preferences", "scope": pb.SCOPE_USER, "subject_id": person, **fields}


async def test_a_memory_of_one_person_does_not_give_way_to_one_of_another(tenant: Tenant) -> None:
    alice, bob, shared, agents = await create(
        tenant,
        of("alice", importance=0.9),
        of("bob", importance=0.1),
        {"title": "Preferences", "importance": 0.1},
        {"title": "Preferences", "scope": pb.SCOPE_AGENT, "agent_id": "kitchen", "importance": 0.1},
    )

    assert await consolidated(tenant, dry_run=True) == []
    assert await consolidated(tenant) == []

    again, shared_again = await create(
        tenant, of("bob", importance=0.8), {"title": "preferences", "agent_id": "garden", "importance": 0.8}
    )
    assert sorted(await consolidated(tenant)) == sorted([(again, [bob]), (shared_again, [shared])])
    for memory_id in (alice, agents):
        memory = (await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=memory_id))).memory
        assert not memory.HasField("archive_time")


@pytest.mark.system
async def test_consolidating_what_very_many_people_say_comes_to_an_end(tenant: Tenant) -> None:
    people = [f"person {n}" for n in range(45)]
    once = await create(tenant, *(of(person, importance=0.9) for person in people))
    twice = await create(tenant, *(of(person, importance=0.1) for person in people))
    many = await create(tenant, *(of("many", importance=0.1) for _ in range(45)))

    planned = await consolidated(tenant, dry_run=True, page_size=7)
    done = await consolidated(tenant, page_size=7)

    assert len(planned) >= 7
    pairs = [group for group in done if group[0] not in many]
    assert sorted(pairs) == sorted((kept, [other]) for kept, other in zip(once, twice, strict=True))
    assert {kept for kept, _ in done} - set(once) == {min(many)}
    assert sum(len(others) for kept, others in done if kept in many) == 44


async def test_an_expired_memory_replaces_nothing(tenant: Tenant) -> None:
    expired = {"content": "same", "importance": 1.0, "expire_time": long_ago()}
    await create(tenant, *(expired for _ in range(25)))
    (living,) = await create(tenant, {"content": "same", "importance": 0.1})

    assert await consolidated(tenant) == []

    memory = (await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=living))).memory
    assert not memory.HasField("archive_time")


async def test_clusters_and_statistics_leave_out_what_has_expired(tenant: Tenant) -> None:
    living, _ = await create(
        tenant,
        {"type": "note", "tags": ["here"]},
        {"type": "journal", "tags": ["gone"], "importance": 1.0, "expire_time": long_ago()},
    )

    clusters = (await tenant.curation.GetTemporalClusters(curation_pb2.GetTemporalClustersRequest())).clusters
    statistics = await tenant.curation.GetStatistics(curation_pb2.GetStatisticsRequest())

    assert [list(cluster.memory_ids) for cluster in clusters] == [[living]]
    assert "gone" not in str(statistics)
    assert "journal" not in str(statistics)


async def test_expired_tasks_do_not_crowd_out_what_is_to_be_done(tenant: Tenant) -> None:
    data = json_format.ParseDict({"status": "open"}, Struct())
    expired = {"type": "task", "data": data, "importance": 1.0, "expire_time": long_ago()}
    *_, first, second = await create(
        tenant,
        *(expired for _ in range(5)),
        {"type": "task", "data": data, "importance": 0.5},
        {"type": "task", "data": data, "importance": 0.2},
    )

    result = (await tenant.memory.ListNextActions(pb.ListNextActionsRequest(limit=2))).next_actions

    assert [action.memory.memory_id for action in result] == [first, second]
