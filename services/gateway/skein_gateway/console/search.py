"""The search page: hits of a recall, each with the components of its score."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skein.gateway.v1 import gateway_pb2
from skein.recall.v1 import recall_pb2
from skein_gateway.console.memories import filter_of
from skein_gateway.console.pages import http_status, page
from skein_gateway.console.problems import or_page_error

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from skein_gateway.console.browser_sessions import PageContext
    from skein_gateway.oauth.forms import Parameters

# Arms by the names of their checkboxes.
ARMS = {
    "memories": gateway_pb2.ARM_MEMORIES,
    "messages": gateway_pb2.ARM_MESSAGES,
    "blocks": gateway_pb2.ARM_BLOCKS,
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


async def show(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """Show the form and, with a query, the hits."""
    query, limit = parameters.get("q").strip(), parameters.get("limit")
    arms = [arm for name, arm in ARMS.items() if parameters.get(name) == "on"]
    mode, _ = MODES.get(parameters.get("mode"), MODES["hybrid"])
    response = None
    if query:
        rpc_request = gateway_pb2.RecallRequest(
            query=query,
            limit=int(limit) if limit in map(str, LIMITS) else LIMITS[0],
            arms=arms,
            filter=filter_of(parameters),
            show_superseded=parameters.get("superseded") == "on",
            mode=mode,
        )
        response = await or_page_error(context.api.gateway.Recall(rpc_request))
    filters = {name: parameters.get(name) for name in (*_FILTERS, *ARMS, "mode", "limit", "superseded")}
    return page(
        "search",
        request,
        context,
        status=http_status(response),
        at="search",
        title="Search",
        query=query,
        response=response,
        hits=[_hit_with_bar(hit) for hit in response.hits] if isinstance(response, gateway_pb2.RecallResponse) else [],
        filters=filters,
        is_narrowed=any(filters[name] for name in _FILTERS),
        arms=ARMS,
        modes={name: label for name, (_, label) in MODES.items()},
        limits=LIMITS,
    )


def _hit_with_bar(hit: recall_pb2.Hit) -> dict[str, Any]:
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
