"""The usage page: what is stored against limits, recalls with their times, unanswered questions, and new memories."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from starlette.requests import Request
from starlette.responses import Response

from skein.memory.v1 import access_log_pb2, curation_pb2
from skein.recall.v1 import recall_pb2
from skein.tenancy.v1 import limits_pb2
from skein_gateway.console import plots
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.pages import http_status, page
from skein_gateway.console.problems import PageError, or_page_error
from skein_gateway.oauth.forms import Parameters

_HOUR, _DAY = 3600, 86_400
# Searches that are read to list unanswered questions, and questions that are listed.
_SEARCHES, _QUESTIONS = 100, 25
# Recalls are counted by the day: a chart has at least so many days.
_MIN_DAYS = 7
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
    recall_unit = max(seconds, _DAY)
    recall_count = max(count * seconds // recall_unit, _MIN_DAYS)
    recall_start = plots.start_of_unit(int(time.time()), recall_unit) - (recall_count - 1) * recall_unit
    usage, quota, clusters, searches, unanswered = await asyncio.gather(
        or_page_error(context.api.tenancy.GetUsage(limits_pb2.GetUsageRequest())),
        or_page_error(context.api.tenancy.GetQuota(limits_pb2.GetQuotaRequest())),
        or_page_error(
            context.api.curation.GetTemporalClusters(
                curation_pb2.GetTemporalClustersRequest(unit=unit, start_time=Timestamp(seconds=start))
            )
        ),
        or_page_error(
            context.api.recall.GetSearchCounts(
                recall_pb2.GetSearchCountsRequest(start_time=Timestamp(seconds=recall_start))
            )
        ),
        or_page_error(_unanswered(context)),
    )
    days = [] if isinstance(searches, PageError) else list(searches.days)
    recall_counts: Counter[int] = Counter()
    for one in days:
        recall_counts[plots.start_of_unit(one.start_time.seconds, recall_unit)] += one.search_count
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
        searches=searches,
        recalls=plots.Recalls.of(days),
        recall_chart=plots.Chart.of(recall_counts, start=recall_start, seconds=recall_unit, count=recall_count),
        unanswered=unanswered,
        questions=[] if isinstance(unanswered, PageError | None) else _questions(unanswered.access_events),
        period=period,
        period_label=label,
        periods={name: words for name, (words, *_) in PERIODS.items()},
    )


async def _unanswered(context: PageContext) -> access_log_pb2.ListAccessLogResponse | None:
    """Return the newest searches that found nothing; None for a caller who may not read the access log."""
    if not context.may("audit.read"):
        return None
    return await context.api.history.ListAccessLog(
        access_log_pb2.ListAccessLogRequest(page_size=_SEARCHES, unanswered_only=True)
    )


def _questions(events: Iterable[access_log_pb2.AccessEvent]) -> list[dict[str, Any]]:
    """Return the questions of searches, the newest first, each once with how often it was asked.

    A question whose text is not stored has none.
    """
    questions: dict[str, dict[str, Any]] = {}
    for event in events:
        text = event.request_data.fields["query"].string_value if "query" in event.request_data.fields else ""
        question = questions.setdefault(text, {"text": text, "event": event, "count": 0})
        question["count"] += 1
    return list(questions.values())[:_QUESTIONS]
