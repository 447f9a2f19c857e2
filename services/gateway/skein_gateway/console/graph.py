"""The links around a memory, drawn, and told as a list for those who do not look at drawings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.memory.v1 import memory_pb2
from skein_gateway.console.graph_layout import layout_graph
from skein_gateway.console.pages import page

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from skein_gateway.console.page_handler import PageHandler
    from skein_gateway.console.visitors import PageContext
    from skein_gateway.oauth.forms import Parameters

RADII = (1, 2, 3)
# How large the drawing is, in percent.
ZOOMS = (50, 75, 100, 150, 200, 300)
_MAX_NODES = 80
# More links than this are told apart by colour alone.
_MAX_LABELS = 24
# So many links are told as a list, and so many relations offered.
_MAX_TOLD, _MAX_OFFERED = 300, 200
# As wide as a drawing is before it is made smaller.
_WIDE = 1150


class Graph:
    """The handler."""

    def routes(self, desk: PageHandler) -> list[Route]:
        """Return the routes."""
        return desk.routes("graph", self.show)

    async def show(self, request: Request, visit: PageContext, asked: Parameters) -> Response:
        """Draw what is within so many links of a memory."""
        radius = int(asked.get("radius")) if asked.get("radius") in map(str, RADII) else 2
        relation, shared = asked.get("relation"), asked.get("shared") == "on"
        around = memory_pb2.GetSubgraphRequest(
            memory_ids=[asked.get("id")], radius=radius, max_nodes=_MAX_NODES, infer_links=shared
        )
        whole = await visit.api.links.GetSubgraph(around)
        found = whole
        if relation:
            around.filter.relations.append(relation)
            found = await visit.api.links.GetSubgraph(around)
        drawing = layout_graph(found)
        zoom = int(asked.get("zoom")) if asked.get("zoom") in map(str, ZOOMS) else _fitting(drawing.width)
        middle = next(node for node in found.nodes if node.hop == 0)
        chosen = {"id": middle.memory_id, "radius": radius, "relation": relation, "shared": "on" if shared else ""}
        return page(
            "graph",
            request,
            visit,
            at="memories",
            title="Links around a memory",
            middle=middle,
            found=found,
            drawing=drawing,
            titles={node.memory_id: node.title or node.memory_id for node in found.nodes},
            links=found.links[:_MAX_TOLD],
            inferred=found.inferred_links[: max(0, _MAX_TOLD - len(found.links))],
            relations=sorted({link.relation for link in whole.links})[:_MAX_OFFERED],
            count=len({link.relation for link in found.links}),
            chosen=chosen,
            radii=RADII,
            zoom=zoom,
            is_auto=not asked.get("zoom"),
            zooms=ZOOMS,
            with_labels=len(found.links) <= _MAX_LABELS,
        )


def _fitting(width: float) -> int:
    """Return the size at which a drawing is seen whole, or the least one."""
    return next((zoom for zoom in sorted(ZOOMS, reverse=True) if zoom <= 100 and width * zoom <= 100 * _WIDE), ZOOMS[0])  # noqa: PLR2004 - percent.
