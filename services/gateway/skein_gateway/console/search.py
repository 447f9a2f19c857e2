"""The search page: hits of a recall, now or as of a time, each with the components of its score."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from starlette.requests import Request
from starlette.responses import Response

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import history_pb2
from skein.recall.v1 import recall_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.item_names import item_links
from skein_gateway.console.memories import filter_of
from skein_gateway.console.pages import http_status, page
from skein_gateway.console.problems import PageError, or_page_error
from skein_gateway.oauth.forms import Parameters
from skein_kit.rpc.well_known_types import to_timestamp

# Branches by the names of their checkboxes.
BRANCHES = {
    "memories": gateway_pb2.BRANCH_MEMORIES,
    "messages": gateway_pb2.BRANCH_MESSAGES,
    "blocks": gateway_pb2.BRANCH_BLOCKS,
}
# Search modes by their query parameter, each with its label.
MODES = {
    "hybrid": (recall_pb2.SEARCH_MODE_HYBRID, "meaning and words"),
    "keyword": (recall_pb2.SEARCH_MODE_KEYWORD, "words only"),
    "semantic": (recall_pb2.SEARCH_MODE_SEMANTIC, "meaning only"),
}
LIMITS = (10, 25, 50)
# Smallest contribution that two decimals show.
_MIN_SHOWN = 0.005
_FILTERS = ("type", "tag", "subject", "agent", "session")
# What the page says of filters that are set.
_LABELS = {
    "memories": "memories", "messages": "messages", "blocks": "blocks", "as_of": "as known on", "valid_at": "true on",
    "type": "type", "tag": "tags", "subject": "subject", "agent": "agent", "session": "session", "mode": "mode",
    "limit": "hits", "superseded": "with superseded",
}  # fmt: skip
# Positions of the slider between the first entry and now.
_STEPS = 200
_BAD_TIME = PageError(title="No time", text="A time needs a date and a time of day.", status=400)


@dataclass(frozen=True, kw_only=True, slots=True)
class Slider:
    """The range of a slider of times, in seconds since 1970. The last position is now."""

    first: int
    last: int
    step: int

    @classmethod
    def create(cls, first: int, last: int) -> Slider:
        """Return a slider to `last` in equal steps, from the first position that is not before `first`."""
        step = max(1, (last - first) // _STEPS)
        return cls(first=last - (last - first) // step * step, last=last, step=step)


async def show(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """Show the form and, with a query, the hits."""
    query = parameters.get("q").strip()
    response: gateway_pb2.RecallResponse | PageError | None = None
    try:
        rpc_request = _recall_request(query, parameters)
    except (ValueError, OverflowError):
        rpc_request, response = gateway_pb2.RecallRequest(), _BAD_TIME
    slider = _slider(context)
    if query and response is None:
        response, times = await asyncio.gather(or_page_error(context.api.gateway.Recall(rpc_request)), slider)
    else:
        times = await slider
    found = response.hits if isinstance(response, gateway_pb2.RecallResponse) else []
    filters = {
        name: parameters.get(name)
        for name in (*_FILTERS, *BRANCHES, "mode", "limit", "superseded", "as_of", "valid_at")
    }
    # What a form sends without a choice is no filter.
    for name, default in (("mode", next(iter(MODES))), ("limit", str(LIMITS[0]))):
        filters[name] = "" if filters[name] == default else filters[name]
    return page(
        "search",
        request,
        context,
        status=http_status(response),
        at="search",
        title="Search",
        query=query,
        response=response,
        hits=[hit_with_bar(hit) for hit in found],
        links=await item_links(
            context, [(hit.kind, id_) for hit in found for id_ in (*hit.duplicate_ids, *hit.older_ids)]
        ),
        as_of_time=rpc_request.as_of_time if rpc_request.HasField("as_of_time") else None,
        slider=times,
        filters=filters,
        labels=_LABELS,
        branches=BRANCHES,
        modes={name: label for name, (_, label) in MODES.items()},
        limits=LIMITS,
    )


def _recall_request(query: str, parameters: Parameters) -> gateway_pb2.RecallRequest:
    """Return the recall that the form describes. Raises ValueError or OverflowError for a text that is no time."""
    limit = parameters.get("limit")
    mode, _ = MODES.get(parameters.get("mode"), MODES["hybrid"])
    memory_filter = filter_of(parameters)
    subject_id = memory_filter.subject_id
    memory_filter.ClearField("subject_id")
    if valid_at := time_of(parameters.get("valid_at")):
        memory_filter.valid_at_time.CopyFrom(valid_at)
    return gateway_pb2.RecallRequest(
        query=query,
        limit=int(limit) if limit in map(str, LIMITS) else LIMITS[0],
        branches=[branch for name, branch in BRANCHES.items() if parameters.get(name) == "on"],
        filter=memory_filter,
        subject_id=subject_id,
        show_superseded=parameters.get("superseded") == "on",
        mode=mode,
        as_of_time=time_of(parameters.get("as_of")),
    )


def time_of(text: str) -> Timestamp | None:
    """Return the time of a field, which is in UTC; None for an empty one."""
    return to_timestamp(datetime.fromisoformat(text.strip()).replace(tzinfo=UTC)) if text.strip() else None


async def _slider(context: PageContext) -> Slider | None:
    """Return the slider from the tenant's first change, else from its creation.

    None where neither can be read, or was just now.
    """
    changes, tenant = await asyncio.gather(
        or_page_error(context.api.history.ListChanges(history_pb2.ListChangesRequest(page_size=1))),
        or_page_error(context.api.tenancy.GetTenant(tenancy_pb2.GetTenantRequest(tenant_id=context.tenant_id))),
    )
    if not isinstance(changes, PageError) and changes.changes:
        first = changes.changes[0].create_time.seconds
    elif not isinstance(tenant, PageError):
        first = tenant.tenant.create_time.seconds
    else:
        return None
    # The next second has what was known in that one.
    first, last = first + 1, int(time.time())
    return Slider.create(first, last) if first < last else None


def hit_with_bar(hit: recall_pb2.Hit) -> dict[str, Any]:
    """Return a hit with the segments of its score bar. Their widths add up to 100 times its score."""
    terms: list[dict[str, Any]] = []
    start = 0.0
    for component in hit.components:
        contribution = component.value * component.weight
        width = max(0.0, 100 * contribution)
        terms.append({"component": component, "start": start, "width": width, "contribution": contribution})
        start += width
    shares = ", ".join(
        f"{term['component'].signal} {term['contribution']:.2f}" for term in terms if term["contribution"] >= _MIN_SHOWN
    )
    return {"hit": hit, "terms": terms, "label": f"Score {hit.score:.2f}: {shares}"}
