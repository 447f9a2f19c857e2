"""A tenant at a glance: how much there is, what is new, what waits for somebody, and whether the cluster is well."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import curation_pb2, memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import limits_pb2
from skein_gateway.console.pages import page
from skein_gateway.console.problems import attempted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from skein_gateway.console.page_handler import PageHandler
    from skein_gateway.console.visitors import PageContext
    from skein_gateway.oauth.forms import Parameters

_FEW = 6
# What is counted, and the page that shows it.
_COUNTED = {"memories": "memories", "links": "", "sessions": "sessions", "messages": "sessions"}


class Overview:
    """The handler."""

    def routes(self, desk: PageHandler) -> list[Route]:
        """Return the routes."""
        return desk.routes("", self.show)

    async def show(self, request: Request, visit: PageContext, _asked: Parameters) -> Response:
        """Ask for every part at once; one that fails says so in its place."""
        api = visit.api
        usage, statistics, memories, sessions, conflicts, cluster = await asyncio.gather(
            attempted(api.tenancy.GetUsage(limits_pb2.GetUsageRequest())),
            attempted(api.curation.GetStatistics(curation_pb2.GetStatisticsRequest(top=12))),
            attempted(
                api.memory.ListMemories(memory_pb2.ListMemoriesRequest(page_size=_FEW, order_by="update_time desc"))
            ),
            attempted(api.sessions.ListSessions(session_pb2.ListSessionsRequest(page_size=_FEW))),
            attempted(api.curation.ListConflicts(curation_pb2.ListConflictsRequest(page_size=_FEW))),
            attempted(api.gateway.GetClusterStatus(gateway_pb2.GetClusterStatusRequest())),
        )
        return page(
            "overview",
            request,
            visit,
            title=visit.tenant_name,
            usage=usage,
            counted=_COUNTED,
            statistics=statistics,
            types=[]
            if not isinstance(statistics, curation_pb2.GetStatisticsResponse)
            else most(statistics.type_counts),
            relations=[]
            if not isinstance(statistics, curation_pb2.GetStatisticsResponse)
            else most(statistics.relation_counts),
            memories=memories,
            sessions=sessions,
            conflicts=conflicts,
            cluster=cluster,
            origin=visit.visitor.origin,
        )


def most(counts: Mapping[str, int], length: int = 8) -> list[tuple[str, int, float]]:
    """Return names with their counts, the most frequent first, each with its share of the greatest in percent."""
    found = sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:length]
    greatest = found[0][1] if found else 0
    return [(name, count, 100 * count / greatest if greatest else 0.0) for name, count in found]
