"""The overview page: usage, newest items, open conflicts, statistics and cluster health of a tenant."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import curation_pb2, memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import limits_pb2
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.item_names import session_names
from skein_gateway.console.pages import page
from skein_gateway.console.problems import PageError, or_page_error
from skein_gateway.oauth.forms import Parameters

_FEW = 6
# Shown kinds of usage, each with its page.
_USAGE_PAGES = {"memories": "memories", "links": "", "sessions": "sessions", "messages": "sessions"}


async def show(request: Request, context: PageContext, _parameters: Parameters) -> Response:
    """Fetch all sections concurrently. A section whose call fails shows the error instead."""
    api = context.api
    usage, statistics, memories, sessions, conflicts, cluster = await asyncio.gather(
        or_page_error(api.tenancy.GetUsage(limits_pb2.GetUsageRequest())),
        or_page_error(api.curation.GetStatistics(curation_pb2.GetStatisticsRequest(top=12))),
        or_page_error(
            api.memory.ListMemories(memory_pb2.ListMemoriesRequest(page_size=_FEW, order_by="update_time desc"))
        ),
        or_page_error(api.sessions.ListSessions(session_pb2.ListSessionsRequest(page_size=_FEW))),
        or_page_error(api.curation.ListConflicts(curation_pb2.ListConflictsRequest(page_size=_FEW))),
        or_page_error(api.gateway.GetClusterStatus(gateway_pb2.GetClusterStatusRequest())),
    )
    return page(
        "overview",
        request,
        context,
        title=context.tenant_name,
        usage=usage,
        counted=_USAGE_PAGES,
        statistics=statistics,
        types=[]
        if not isinstance(statistics, curation_pb2.GetStatisticsResponse)
        else most_frequent(statistics.type_counts),
        relations=[]
        if not isinstance(statistics, curation_pb2.GetStatisticsResponse)
        else most_frequent(statistics.relation_counts),
        memories=memories,
        sessions=sessions,
        session_names={} if isinstance(sessions, PageError) else await session_names(context, sessions.sessions),
        conflicts=conflicts,
        cluster=cluster,
    )


def most_frequent(counts: Mapping[str, int], length: int = 8) -> list[tuple[str, int, float]]:
    """Return the most frequent names with their counts and their percentage of the greatest count."""
    ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:length]
    greatest = ranked[0][1] if ranked else 0
    return [(name, count, 100 * count / greatest if greatest else 0.0) for name, count in ranked]
