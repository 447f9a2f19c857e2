"""Handlers of the RPCs for overviews."""

from __future__ import annotations

from datetime import timedelta

from skein.memory.v1 import curation_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import FieldInvalid
from skein_kit.ids import EPOCH, now
from skein_kit.policies.history import read_as_of_time
from skein_kit.rpc.pagination import fit_items
from skein_kit.rpc.well_known_types import read_time, to_timestamp
from skein_memory.memories import convert as memories_convert
from skein_memory.overview.store import Cluster, OverviewStore, ReviewItem, Statistics

_UNITS = {
    pb.CLUSTER_UNIT_HOUR: "hour",
    pb.CLUSTER_UNIT_DAY: "day",
    pb.CLUSTER_UNIT_WEEK: "week",
    pb.CLUSTER_UNIT_MONTH: "month",
}
_DEFAULT_REVIEWED = 20
_DEFAULT_TOP = 20
_DEFAULT_SPAN = timedelta(days=7)


class OverviewHandlers:
    """Review queue, clusters of time, and statistics."""

    def __init__(self, store: OverviewStore) -> None:
        self._store = store

    async def GetReviewQueue(self, request: pb.GetReviewQueueRequest, context: Context) -> pb.GetReviewQueueResponse:
        limit = request.limit or _DEFAULT_REVIEWED
        items = await self._store.review(caller_of(context).require_tenant(), limit=limit, at=now())
        return pb.GetReviewQueueResponse(items=fit_items(map(_review_item, items)))

    async def GetTemporalClusters(
        self, request: pb.GetTemporalClustersRequest, context: Context
    ) -> pb.GetTemporalClustersResponse:
        unit, at = _UNITS.get(request.unit, "day"), now()
        as_of_time = read_as_of_time(request, at=at)
        end = read_time(request, "end_time") or as_of_time or at
        start = read_time(request, "start_time") or max(EPOCH, end - _DEFAULT_SPAN)
        if end < start:
            raise FieldInvalid(violations=[("end_time", "lies before start_time")])
        clusters, truncated = await self._store.clusters(
            caller_of(context).require_tenant(), unit, start=start, end=end, at=at, as_of_time=as_of_time
        )
        return pb.GetTemporalClustersResponse(clusters=[_cluster(cluster) for cluster in clusters], truncated=truncated)

    async def GetStatistics(self, request: pb.GetStatisticsRequest, context: Context) -> pb.GetStatisticsResponse:
        at = now()
        statistics = await self._store.statistics(
            caller_of(context).require_tenant(),
            top=request.top or _DEFAULT_TOP,
            at=at,
            as_of_time=read_as_of_time(request, at=at),
        )
        return _statistics(statistics)


def _review_item(value: ReviewItem) -> pb.ReviewItem:
    return pb.ReviewItem(
        memory=memories_convert.memory(value.memory),
        urgency=round(value.urgency, 3),
        stale_days=round(value.stale_days, 3),
        link_count=value.links,
    )


def _cluster(value: Cluster) -> pb.TemporalCluster:
    return pb.TemporalCluster(
        start_time=to_timestamp(value.start),
        end_time=to_timestamp(value.end),
        count=value.count,
        type_counts=value.types,
        memory_ids=[str(id_) for id_ in value.memory_ids],
    )


def _statistics(value: Statistics) -> pb.GetStatisticsResponse:
    memories, links = value.totals.get("memories", 0), value.totals.get("links", 0)
    return pb.GetStatisticsResponse(
        memory_count=memories,
        link_count=links,
        alias_count=value.aliases,
        sampled_memory_count=value.memories,
        memories_truncated=value.memories_truncated,
        type_counts=value.types,
        scope_counts=value.scopes,
        level_counts=value.levels,
        tags=[pb.TagCount(tag=tag, count=count) for tag, count in value.tags],
        tag_pairs=[pb.TagPair(first=first, second=second, count=count) for first, second, count in value.tag_pairs],
        sampled_link_count=value.links,
        links_truncated=value.links_truncated,
        relation_counts=value.relations,
        most_linked=[pb.LinkedMemory(memory_id=str(id_), link_count=count) for id_, count in value.most_linked],
        mean_degree=round(2 * links / memories, 3) if memories else 0.0,
    )
