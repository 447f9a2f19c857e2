"""Search: what recall finds, and for each hit what its score is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skein.gateway.v1 import gateway_pb2
from skein.recall.v1 import recall_pb2
from skein_gateway.console.memories import filter_of
from skein_gateway.console.pages import page
from skein_gateway.console.problems import PageError, attempted

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from skein_gateway.console.page_handler import PageHandler
    from skein_gateway.console.visitors import PageContext
    from skein_gateway.oauth.forms import Parameters

# The arms that can be asked, by the names of their boxes.
ARMS = {
    "memories": gateway_pb2.ARM_MEMORIES,
    "messages": gateway_pb2.ARM_MESSAGES,
    "blocks": gateway_pb2.ARM_BLOCKS,
}
# How it is searched, by the names in the address, and what the form calls it.
MODES = {
    "hybrid": (recall_pb2.SEARCH_MODE_HYBRID, "meaning and words"),
    "keyword": (recall_pb2.SEARCH_MODE_KEYWORD, "words alone"),
    "semantic": (recall_pb2.SEARCH_MODE_SEMANTIC, "meaning alone"),
}
LIMITS = (10, 25, 50)
_FILTERS = ("type", "tag", "subject", "agent", "session")


class SearchPage:
    """The handler."""

    def routes(self, desk: PageHandler) -> list[Route]:
        """Return the routes."""
        return desk.routes("search", self.show)

    async def show(self, request: Request, visit: PageContext, asked: Parameters) -> Response:
        """Show the form and, once there is a query, the hits."""
        query, limit = asked.get("q").strip(), asked.get("limit")
        arms = [arm for name, arm in ARMS.items() if asked.get(name) == "on"]
        mode, _ = MODES.get(asked.get("mode"), MODES["hybrid"])
        found = None
        if query:
            wanted = gateway_pb2.RecallRequest(
                query=query,
                limit=int(limit) if limit in map(str, LIMITS) else LIMITS[0],
                arms=arms,
                filter=filter_of(asked),
                show_superseded=asked.get("superseded") == "on",
                mode=mode,
            )
            found = await attempted(visit.api.gateway.Recall(wanted))
        chosen = {name: asked.get(name) for name in (*_FILTERS, *ARMS, "mode", "limit", "superseded")}
        return page(
            "search",
            request,
            visit,
            status=found.status if isinstance(found, PageError) else 200,
            at="search",
            title="Search",
            query=query,
            found=found,
            hits=[_explained(hit) for hit in found.hits] if isinstance(found, gateway_pb2.RecallResponse) else [],
            chosen=chosen,
            is_narrowed=any(chosen[name] for name in _FILTERS),
            arms=ARMS,
            modes={name: label for name, (_, label) in MODES.items()},
            limits=LIMITS,
        )


def _explained(hit: recall_pb2.Hit) -> dict[str, Any]:
    """Return a hit with the segments of its bar, whose lengths add up to its score of 100."""
    terms: list[dict[str, Any]] = []
    at = 0.0
    for component in hit.components:
        width = max(0.0, 100 * component.value * component.weight)
        terms.append({"part": component, "at": at, "width": width, "gives": component.value * component.weight})
        at += width
    said = ", ".join(f"{term['part'].signal} {term['gives']:.2f}" for term in terms if term["gives"] >= 0.005)  # noqa: PLR2004 - what two decimals show.
    return {"hit": hit, "terms": terms, "said": f"Score {hit.score:.2f}: {said}"}
