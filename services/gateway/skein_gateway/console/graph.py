"""The graph page: the links around a memory as a drawing, and as a list for screen readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.memory.v1 import memory_pb2
from skein_gateway.console.graph_layout import layout_graph
from skein_gateway.console.pages import page

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from skein_gateway.console.browser_sessions import PageContext
    from skein_gateway.oauth.forms import Parameters

RADII = (1, 2, 3)
# Sizes of the drawing, in percent.
ZOOMS = (50, 75, 100, 150, 200, 300)
_FULL_SIZE = 100
_MAX_NODES = 80
# With more links than this the drawing has no labels, only colours.
_MAX_LABELS = 24
# Most links in the list, and most relations in the filter.
_MAX_LISTED, _MAX_RELATIONS = 300, 200
# Widest drawing, in pixels, that is shown at full size.
_MAX_WIDTH = 1150


async def show(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """Draw the memories within `radius` links of a memory."""
    radius = int(parameters.get("radius")) if parameters.get("radius") in map(str, RADII) else 2
    relation, shared = parameters.get("relation"), parameters.get("shared") == "on"
    graph_request = memory_pb2.GetSubgraphRequest(
        memory_ids=[parameters.get("id")], radius=radius, max_nodes=_MAX_NODES, infer_links=shared
    )
    full_graph = await context.api.links.GetSubgraph(graph_request)
    subgraph = full_graph
    if relation:
        graph_request.filter.relations.append(relation)
        subgraph = await context.api.links.GetSubgraph(graph_request)
    drawing = layout_graph(subgraph)
    zoom = int(parameters.get("zoom")) if parameters.get("zoom") in map(str, ZOOMS) else _fitting_zoom(drawing.width)
    filters = {
        "id": full_graph.nodes[0].memory_id,
        "radius": radius,
        "relation": relation,
        "shared": "on" if shared else "",
    }
    return page(
        "graph",
        request,
        context,
        at="memories",
        title="Links around a memory",
        middle=next(node for node in drawing.nodes if node.hop == 0),
        subgraph=subgraph,
        drawing=drawing,
        titles={node.memory_id: node.title for node in drawing.nodes},
        links=subgraph.links[:_MAX_LISTED],
        inferred=subgraph.inferred_links[: max(0, _MAX_LISTED - len(subgraph.links))],
        relations=sorted({link.relation for link in full_graph.links})[:_MAX_RELATIONS],
        count=len({link.relation for link in subgraph.links}),
        filters=filters,
        radii=RADII,
        zoom=zoom,
        is_auto=not parameters.get("zoom"),
        zooms=ZOOMS,
        with_labels=len(subgraph.links) <= _MAX_LABELS,
    )


def _fitting_zoom(width: float) -> int:
    """Return the largest zoom, in percent, at which the drawing fits, or the smallest zoom."""
    fitting = (
        zoom for zoom in sorted(ZOOMS, reverse=True) if zoom <= _FULL_SIZE and width * zoom <= _FULL_SIZE * _MAX_WIDTH
    )
    return next(fitting, ZOOMS[0])
