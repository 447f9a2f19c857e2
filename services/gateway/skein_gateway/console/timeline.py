"""The timeline page: the memories of a tenant by the months of a year, the days of a month, or the hours of a day."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from skein.memory.v1 import curation_pb2, memory_pb2
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.item_names import memory_names
from skein_gateway.console.pages import http_status, page
from skein_gateway.console.problems import PageError, or_page_error
from skein_gateway.oauth.forms import Parameters
from skein_kit.rpc.well_known_types import to_timestamp

# By the depth of a span, 0 for a year, 1 for a month and 2 for a day: the form of the parameter `at`, the heading, the
# unit of the rows, their labels, and how many memories a row names. Ninety names are one call.
_FORMS = ("%Y", "%Y-%m", "%Y-%m-%d")
_HEADINGS = ("%Y", "%B %Y", "%A %d %B %Y")
_UNITS = (curation_pb2.CLUSTER_UNIT_MONTH, curation_pb2.CLUSTER_UNIT_DAY, curation_pb2.CLUSTER_UNIT_HOUR)
_LABELS = ("%B", "%a %d %b", "%H:00")
_NAMED = (5, 2, 3)
_DAY = 2
# Ids begin in 1970.
_FIRST_YEAR, _LAST_YEAR = 1970, 2999
# Years that the page leads to, the newest ones.
_MAX_YEARS = 40
# Memories that the page of a day lists, and types that a row counts.
_LISTED, _TYPES = 50, 3
_BAD_TIME = PageError(
    title="", text="A timeline is that of a year, a month or a day: 2026, 2026-03 or 2026-03-14.", status=400
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """A year, a month or a day (UTC)."""

    depth: int
    start: datetime

    @classmethod
    def read(cls, text: str) -> Span:
        """Read a span: "2026-03". Raises ValueError."""
        depth = text.count("-")
        if depth >= len(_FORMS):
            raise ValueError(text)
        start = datetime.strptime(text, _FORMS[depth]).replace(tzinfo=UTC)
        if not _FIRST_YEAR <= start.year <= _LAST_YEAR:
            raise ValueError(text)
        return cls(depth=depth, start=start)

    @property
    def text(self) -> str:
        """Return the span as the parameter has it."""
        return f"{self.start:{_FORMS[self.depth]}}"

    @property
    def heading(self) -> str:
        """Return the span in words: "March 2026"."""
        return f"{self.start:{_HEADINGS[self.depth]}}"

    @property
    def end(self) -> datetime:
        """Return when the span ends."""
        if self.depth == _DAY:
            return self.start + timedelta(days=1)
        if self.depth:
            return (self.start + timedelta(days=31)).replace(day=1)
        return self.start.replace(year=self.start.year + 1)

    def within(self) -> list[Span]:
        """Return the year of a month, and the year and the month of a day."""
        return [Span.read(f"{self.start:{form}}") for form in _FORMS[: self.depth]]

    def neighbour(self, step: int) -> Span | None:
        """Return the span before (-1) or after (1); None at the ends of time."""
        inside = self.end if step > 0 else self.start - timedelta(days=1)
        if not _FIRST_YEAR <= inside.year <= _LAST_YEAR:
            return None
        return Span.read(f"{inside:{_FORMS[self.depth]}}")


async def show(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """Count the memories of a span; without one, of the year of the newest memory."""
    first, last = await asyncio.gather(_time_of_first(context, "create_time"), _time_of_first(context, ""))
    failure: PageError | None = None
    span = Span.read(f"{last:%Y}")
    if at := parameters.get("at").strip():
        try:
            span = Span.read(at)
        except ValueError:
            failure = _BAD_TIME
    start, end = to_timestamp(span.start), to_timestamp(span.end)
    clusters_request = curation_pb2.GetTemporalClustersRequest(unit=_UNITS[span.depth], start_time=start, end_time=end)
    list_request = memory_pb2.ListMemoriesRequest(
        page_size=_LISTED,
        order_by="create_time",
        filter=memory_pb2.MemoryFilter(start_time=start, end_time=end),
    )
    clusters = await or_page_error(context.api.curation.GetTemporalClusters(clusters_request))
    rows = [] if isinstance(clusters, PageError) else _rows(span, clusters)
    listed, names = await asyncio.gather(
        or_page_error(context.api.memory.ListMemories(list_request)) if span.depth == _DAY else _nothing(),
        memory_names(context, [memory_id for row in rows for memory_id in row["memory_ids"]]),
    )
    before, after = span.neighbour(-1), span.neighbour(1)
    return page(
        "timeline",
        request,
        context,
        status=http_status(failure, clusters),
        at="timeline",
        title="Timeline",
        problem="" if failure is None else failure.text,
        span=span,
        clusters=clusters,
        rows=rows,
        names=names,
        listed=listed,
        years=range(first.year, last.year + 1)[-_MAX_YEARS:],
        total=sum(row["count"] for row in rows),
        # Only where there may be memories.
        before=before if before is not None and before.end > first else None,
        after=after if after is not None and after.start <= max(last, datetime.now(UTC)) else None,
        where=f'create_time >= "{span.start:%Y-%m-%dT%H:%M:%SZ}" AND create_time < "{span.end:%Y-%m-%dT%H:%M:%SZ}"',
    )


async def _nothing() -> None:
    return None


async def _time_of_first(context: PageContext, order: str) -> datetime:
    """Return when the first memory of an order was created; now without one."""
    request = memory_pb2.ListMemoriesRequest(page_size=1, order_by=order)
    response = await or_page_error(context.api.memory.ListMemories(request))
    if isinstance(response, PageError) or not response.memories:
        return datetime.now(UTC)
    return datetime.fromtimestamp(response.memories[0].create_time.seconds, UTC)


def _rows(span: Span, clusters: curation_pb2.GetTemporalClustersResponse) -> list[dict[str, Any]]:
    """Return the parts of a span that have memories, in order, each with its bar, types and most important memories."""
    most = max((cluster.count for cluster in clusters.clusters), default=0)
    rows = []
    for cluster in reversed(clusters.clusters):
        moment = datetime.fromtimestamp(cluster.start_time.seconds, UTC)
        types = sorted(cluster.type_counts.items(), key=lambda one: (-one[1], one[0]))
        rows.append(
            {
                "label": f"{moment:{_LABELS[span.depth]}}",
                # The hours of a day have no page of their own.
                "at": f"{moment:{_FORMS[span.depth + 1]}}" if span.depth < _DAY else "",
                "count": cluster.count,
                "share": 100 * cluster.count / most,
                "types": types[:_TYPES],
                "other_types": len(types[_TYPES:]),
                "memory_ids": cluster.memory_ids[: _NAMED[span.depth]],
            }
        )
    return rows
