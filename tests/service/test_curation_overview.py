"""Looking over what there is: the review queue, clusters of time, statistics."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from fix_cluster import Tenant, refused
from google.protobuf.timestamp_pb2 import Timestamp

from skein.memory.v1 import curation_pb2 as pb
from skein.memory.v1 import memory_pb2

# A Thursday.
NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)


def at(moment: datetime) -> Timestamp:
    made = Timestamp()
    made.FromDatetime(moment)
    return made


async def create(tenant: Tenant, *memories: dict[str, Any]) -> list[memory_pb2.Memory]:
    request = memory_pb2.BatchCreateMemoriesRequest(
        memories=[memory_pb2.Memory(**{"content": f"{n}", **said}) for n, said in enumerate(memories)]
    )
    return list((await tenant.memory.BatchCreateMemories(request)).memories)


async def link(tenant: Tenant, start: str, end: str, relation: str) -> None:
    link = memory_pb2.Link(from_memory_id=start, to_memory_id=end, relation=relation)
    await tenant.links.CreateLink(memory_pb2.CreateLinkRequest(link=link))


async def test_important_and_uncertain_memories_are_reviewed_first(tenant: Tenant) -> None:
    calm, urgent, linked, gone = await create(
        tenant,
        {"importance": 0.1, "confidence": 0.9},
        {"importance": 0.9, "confidence": 0.1, "level": "LEVEL_STRATEGIC"},
        {"importance": 0.9, "confidence": 0.1},
        {"importance": 1.0, "confidence": 0.0},
    )
    await link(tenant, linked.memory_id, calm.memory_id, "sibling")
    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=gone.memory_id))

    queue = (await tenant.curation.GetReviewQueue(pb.GetReviewQueueRequest())).items
    shortest = (await tenant.curation.GetReviewQueue(pb.GetReviewQueueRequest(limit=1))).items

    assert [item.memory.memory_id for item in queue] == [urgent.memory_id, linked.memory_id, calm.memory_id]
    assert [item.memory.memory_id for item in shortest] == [urgent.memory_id]
    for item, links in zip(queue, (0, 1, 1), strict=True):
        scores = item.memory.scores
        expected = 0.35 * scores.importance + 0.25 * (1 - scores.confidence) + 0.15 / (1 + links)
        assert [item.urgency, item.link_count] == pytest.approx([expected, links], abs=0.002)
        assert 0 <= item.stale_days < 0.1


async def test_memories_are_counted_by_hour_day_week_and_month(tenant: Tenant) -> None:
    hours = [0, 0, 1, 13, 24 * 4]
    made = await create(
        tenant,
        *({"create_time": at(NOON + timedelta(hours=n)), "type": "fact" if n else "note"} for n in hours),
    )
    span = {"start_time": at(NOON - timedelta(days=1)), "end_time": at(NOON + timedelta(days=9))}

    by = {
        unit: (await tenant.curation.GetTemporalClusters(pb.GetTemporalClustersRequest(unit=unit, **span))).clusters
        for unit in (pb.CLUSTER_UNIT_HOUR, pb.CLUSTER_UNIT_UNSPECIFIED, pb.CLUSTER_UNIT_WEEK, pb.CLUSTER_UNIT_MONTH)
    }

    assert [cluster.count for cluster in by[pb.CLUSTER_UNIT_HOUR]] == [1, 1, 1, 2]
    assert [cluster.count for cluster in by[pb.CLUSTER_UNIT_UNSPECIFIED]] == [1, 1, 3]
    weeks = by[pb.CLUSTER_UNIT_WEEK]
    assert [(cluster.count, cluster.start_time) for cluster in weeks] == [
        (1, at(datetime(2026, 3, 9, tzinfo=UTC))),
        (4, at(datetime(2026, 3, 2, tzinfo=UTC))),
    ]
    assert weeks[1].end_time == weeks[0].start_time
    assert [(one.count, one.start_time, one.end_time) for one in by[pb.CLUSTER_UNIT_MONTH]] == [
        (5, at(datetime(2026, 3, 1, tzinfo=UTC)), at(datetime(2026, 4, 1, tzinfo=UTC)))
    ]
    assert dict(weeks[1].type_counts) == {"note": 2, "fact": 2}
    assert set(weeks[1].memory_ids) == {one.memory_id for one in made[:4]}


async def test_clusters_are_those_of_the_last_seven_days_unless_asked_otherwise(tenant: Tenant) -> None:
    await create(tenant, {}, {"create_time": at(NOON)})

    response = await tenant.curation.GetTemporalClusters(pb.GetTemporalClustersRequest())

    assert (sum(cluster.count for cluster in response.clusters), response.truncated) == (1, False)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.curation.GetTemporalClusters(
            pb.GetTemporalClustersRequest(start_time=at(NOON), end_time=at(NOON - timedelta(hours=1)))
        )


async def test_statistics_say_how_much_there_is_of_what(tenant: Tenant, other_tenant: Tenant) -> None:
    await create(other_tenant, {"tags": ["foreign"]})
    a, b, _ = await create(
        tenant,
        {"tags": ["x", "y"], "scope": "SCOPE_USER", "subject_id": "ann"},
        {"tags": ["x", "y", "z"], "type": "fact"},
        {"tags": ["x"], "level": "LEVEL_STRATEGIC", "create_time": at(NOON)},
    )
    await link(tenant, a.memory_id, b.memory_id, "causes")
    await tenant.curation.ResolveEntity(
        pb.ResolveEntityRequest(alias_memory_id=a.memory_id, canonical_memory_id=b.memory_id)
    )

    response = await tenant.curation.GetStatistics(pb.GetStatisticsRequest(top=2))

    assert (response.memory_count, response.link_count, response.alias_count) == (3, 1, 1)
    assert (response.sampled_memory_count, response.memories_truncated) == (3, False)
    assert (dict(response.type_counts), dict(response.relation_counts)) == ({"note": 2, "fact": 1}, {"causes": 1})
    assert dict(response.scope_counts) == {"global": 2, "user": 1}
    assert dict(response.level_counts) == {"operational": 2, "strategic": 1}
    assert [(one.tag, one.count) for one in response.tags] == [("x", 3), ("y", 2)]
    assert [(one.first, one.second, one.count) for one in response.tag_pairs] == [("x", "y", 2), ("x", "z", 1)]
    assert response.mean_degree == pytest.approx(0.667)


async def test_statistics_name_the_memories_with_the_most_links_that_lists_show(tenant: Tenant) -> None:
    hub, deleted, *leaves = await create(tenant, *({"title": str(number)} for number in range(6)))
    for leaf in leaves:
        await link(tenant, hub.memory_id, leaf.memory_id, "causes")
        await link(tenant, leaf.memory_id, deleted.memory_id, "causes")
    await link(tenant, leaves[0].memory_id, leaves[1].memory_id, "causes")
    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=deleted.memory_id))

    response = await tenant.curation.GetStatistics(pb.GetStatisticsRequest(top=3))

    assert [(one.memory_id, one.link_count) for one in response.most_linked][:1] == [(hub.memory_id, 4)]
    assert {(one.memory_id, one.link_count) for one in response.most_linked[1:]} == {
        (leaf.memory_id, 3) for leaf in leaves[:2]
    }


async def test_a_tenant_with_nothing_has_empty_views(tenant: Tenant) -> None:
    assert (await tenant.curation.GetStatistics(pb.GetStatisticsRequest())) == pb.GetStatisticsResponse()
    assert (await tenant.curation.GetReviewQueue(pb.GetReviewQueueRequest())) == pb.GetReviewQueueResponse()
    empty = await tenant.curation.GetTemporalClusters(pb.GetTemporalClustersRequest())
    assert empty == pb.GetTemporalClustersResponse()
