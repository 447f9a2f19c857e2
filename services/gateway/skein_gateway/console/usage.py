"""The usage page: what the tenant stores against its limits, its rates, and the memories of each hour, day or week."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from google.protobuf.timestamp_pb2 import Timestamp

from skein.memory.v1 import curation_pb2
from skein.tenancy.v1 import limits_pb2
from skein_gateway.console import plots
from skein_gateway.console.pages import http_status, page
from skein_gateway.console.problems import PageError, or_page_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from skein_gateway.console.browser_sessions import PageContext
    from skein_gateway.oauth.forms import Parameters

_HOUR, _DAY = 3600, 86_400
# Periods of the plot of new memories: label, unit of the RPC, seconds of a unit, number of units.
PERIODS: Mapping[str, tuple[str, curation_pb2.ClusterUnit, int, int]] = {
    "day": ("24 hours", curation_pb2.CLUSTER_UNIT_HOUR, _HOUR, 24),
    "month": ("30 days", curation_pb2.CLUSTER_UNIT_DAY, _DAY, 30),
    "year": ("52 weeks", curation_pb2.CLUSTER_UNIT_WEEK, 7 * _DAY, 52),
}
RATES = {
    "requests_per_minute": "calls a minute",
    "requests_per_hour": "calls an hour",
    "requests_per_day": "calls a day",
    "caller_requests_per_minute": "calls of one key or account a minute",
}


async def show(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """Show usage and limits. A section whose call fails shows the error instead."""
    period = parameters.get("period") if parameters.get("period") in PERIODS else "month"
    label, unit, seconds, count = PERIODS[period]
    start = plots.start_of_unit(int(time.time()), seconds) - (count - 1) * seconds
    usage, quota, clusters = await asyncio.gather(
        or_page_error(context.api.tenancy.GetUsage(limits_pb2.GetUsageRequest())),
        or_page_error(context.api.tenancy.GetQuota(limits_pb2.GetQuotaRequest())),
        or_page_error(
            context.api.curation.GetTemporalClusters(
                curation_pb2.GetTemporalClustersRequest(unit=unit, start_time=Timestamp(seconds=start))
            )
        ),
    )
    counts = {} if isinstance(clusters, PageError) else {one.start_time.seconds: one.count for one in clusters.clusters}
    return page(
        "usage",
        request,
        context,
        status=http_status(usage),
        at="usage",
        title="Usage",
        usage=usage,
        shares=[] if isinstance(usage, PageError) else plots.shares(usage.usage),
        quota=quota,
        rates={}
        if isinstance(quota, PageError)
        else {
            words: getattr(quota.quota, name) if quota.quota.HasField(name) else None for name, words in RATES.items()
        },
        clusters=clusters,
        chart=plots.Chart.of(counts, start=start, seconds=seconds, count=count),
        period=period,
        period_label=label,
        periods={name: words for name, (words, *_) in PERIODS.items()},
    )
