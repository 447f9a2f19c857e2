"""The graph page: the links around a memory, or of the whole tenant, as a drawing, and as a list for screen readers."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from skein.memory.v1 import curation_pb2, memory_pb2
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.graph_layout import layout_graph
from skein_gateway.console.pages import page
from skein_gateway.oauth.forms import Parameters

RADII = (1, 2, 3)
# Sizes of the drawing, in percent.
ZOOMS = (50, 75, 100, 150, 200, 300)
# Memories that the drawing of a tenant starts from, by the parameter `start`.
STARTS = {"": "most linked", "newest": "newest"}
_FULL_SIZE = 100
_MAX_NODES = 80
# GetSubgraph starts from at most 20.
_MAX_STARTS = 12
# With more links than this the drawing has no labels, only colours.
_MAX_LABELS = 24
# Most links in the list, and most relations in the filter.
_MAX_LISTED, _MAX_RELATIONS = 300, 200
# Widest drawing, in pixels, that is shown at full size.
_MAX_WIDTH = 1150


async def show(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """Draw the memories within `radius` links of a memory, else of the most linked or the newest of the tenant."""
    memory_id = parameters.get("id")
    start = "" if memory_id or parameters.get("start") not in STARTS else parameters.get("start")
    default_radius = 2 if memory_id else 1
    radius = int(parameters.get("radius")) if parameters.get("radius") in map(str, RADII) else default_radius
    relation, shared = parameters.get("relation"), parameters.get("shared") == "on"
    start_ids = [memory_id] if memory_id else await _start_ids(context, start)
    graph_request = memory_pb2.GetSubgraphRequest(
        memory_ids=start_ids, radius=radius, max_nodes=_MAX_NODES, infer_links=shared
    )
    full_graph = subgraph = memory_pb2.GetSubgraphResponse()
    if start_ids:
        full_graph = subgraph = await context.api.links.GetSubgraph(graph_request)
    if relation and start_ids:
        graph_request.filter.relations.append(relation)
        subgraph = await context.api.links.GetSubgraph(graph_request)
    drawing = layout_graph(subgraph)
    zoom = int(parameters.get("zoom")) if parameters.get("zoom") in map(str, ZOOMS) else _fitting_zoom(drawing.width)
    middle = next(node for node in drawing.nodes if node.hop == 0) if memory_id else None
    filters = {
        "id": "" if middle is None else middle.memory_id,
        "start": start,
        "radius": radius,
        "relation": relation,
        "shared": "on" if shared else "",
    }
    return page(
        "graph",
        request,
        context,
        at="memories" if memory_id else "graph",
        title="Links around a memory" if memory_id else "Graph of the tenant",
        middle=middle,
        subgraph=subgraph,
        drawing=drawing,
        titles={node.memory_id: node.title for node in drawing.nodes},
        links=subgraph.links[:_MAX_LISTED],
        inferred=subgraph.inferred_links[: max(0, _MAX_LISTED - len(subgraph.links))],
        relations=sorted({link.relation for link in full_graph.links})[:_MAX_RELATIONS],
        count=len({link.relation for link in subgraph.links}),
        filters=filters,
        radii=RADII,
        starts=STARTS,
        zoom=zoom,
        is_auto=not parameters.get("zoom"),
        zooms=ZOOMS,
        with_labels=len(subgraph.links) <= _MAX_LABELS,
    )


async def _start_ids(context: PageContext, start: str) -> list[str]:
    """Return the memories that the drawing of the tenant starts from; of a tenant without links, its newest."""
    if not start:
        statistics = await context.api.curation.GetStatistics(curation_pb2.GetStatisticsRequest(top=_MAX_STARTS))
        if statistics.most_linked:
            return [one.memory_id for one in statistics.most_linked]
    newest = await context.api.memory.ListMemories(memory_pb2.ListMemoriesRequest(page_size=_MAX_STARTS))
    return [memory.memory_id for memory in newest.memories]


def _fitting_zoom(width: float) -> int:
    """Return the largest zoom, in percent, at which the drawing fits, or the smallest zoom."""
    fitting = (
        zoom for zoom in sorted(ZOOMS, reverse=True) if zoom <= _FULL_SIZE and width * zoom <= _FULL_SIZE * _MAX_WIDTH
    )
    return next(fitting, ZOOMS[0])
