"""Handlers of the RPCs for overviews."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from skein.memory.v1 import curation_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import FieldInvalid
from skein_kit.ids import EPOCH, now
from skein_kit.rpc.pagination import fit_items
from skein_kit.rpc.well_known_types import read_time
from skein_memory.overview import convert

if TYPE_CHECKING:
    from skein_memory.overview.store import OverviewStore


_DEFAULT_REVIEWED = 20
_DEFAULT_TOP = 20
_DEFAULT_SPAN = timedelta(days=7)


class OverviewHandlers:
    """Review queue, clusters of time, and statistics."""

    def __init__(self, store: OverviewStore) -> None:
        self._store = store

    async def GetReviewQueue(self, request: pb.GetReviewQueueRequest, context: Context) -> pb.GetReviewQueueResponse:
        limit = request.limit or _DEFAULT_REVIEWED
        found = await self._store.review(caller_of(context).require_tenant(), limit=limit, at=now())
        return pb.GetReviewQueueResponse(items=fit_items(convert.review_item(item) for item in found))

    async def GetTemporalClusters(
        self, request: pb.GetTemporalClustersRequest, context: Context
    ) -> pb.GetTemporalClustersResponse:
        unit, at = _UNITS.get(request.unit, "day"), now()
        end = read_time(request, "end_time") or at
        start = read_time(request, "start_time") or max(EPOCH, end - _DEFAULT_SPAN)
        if end < start:
            raise FieldInvalid(violations=[("end_time", "lies before start_time")])
        found, truncated = await self._store.clusters(
            caller_of(context).require_tenant(), unit, start=start, end=end, at=at
        )
        return pb.GetTemporalClustersResponse(clusters=[convert.cluster(one) for one in found], truncated=truncated)

    async def GetStatistics(self, request: pb.GetStatisticsRequest, context: Context) -> pb.GetStatisticsResponse:
        found = await self._store.statistics(
            caller_of(context).require_tenant(), top=request.top or _DEFAULT_TOP, at=now()
        )
        return convert.statistics(found)


_UNITS = {
    pb.CLUSTER_UNIT_HOUR: "hour",
    pb.CLUSTER_UNIT_DAY: "day",
    pb.CLUSTER_UNIT_WEEK: "week",
}
