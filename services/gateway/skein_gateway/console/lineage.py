"""The lineage page: what a memory was made of, as a drawing, and as a list for screen readers."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from skein.memory.v1 import curation_pb2, memory_pb2
from skein.recall.v1 import recall_pb2
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.graph_layout import layout_graph
from skein_gateway.console.item_names import item_links
from skein_gateway.console.pages import page
from skein_gateway.oauth.forms import Parameters

# Nodes that are drawn; the list has up to so many.
MAX_DRAWN, MAX_LISTED = 80, 300
_SHORT_KINDS: Mapping[int, str] = {
    number: name.removeprefix("SOURCE_KIND_").lower() for name, number in memory_pb2.SourceKind.items() if number
}
_ROLES: Mapping[int, str] = {
    curation_pb2.SOURCE_ROLE_PART: "made of",
    curation_pb2.SOURCE_ROLE_REPEAT: "confirmed by",
    curation_pb2.SOURCE_ROLE_REPLACED: "replaces",
}


async def show(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """Draw the chain of a memory."""
    lineage_request = curation_pb2.GetLineageRequest(memory_ids=[parameters.get("id")])
    lineage = await context.api.curation.GetLineage(lineage_request)
    links = await item_links(
        context,
        [
            (recall_pb2.ITEM_KIND_MESSAGE, node.id)
            for node in lineage.nodes
            if node.kind == memory_pb2.SOURCE_KIND_MESSAGE
        ],
    )
    for node in lineage.nodes:
        # Its label is its session.
        node.name = links[node.id].name if node.id in links else node.name
    drawing = layout_graph(as_graph(lineage))
    numbers = {_node_id(node.number): node for node in lineage.nodes}
    return page(
        "lineage",
        request,
        context,
        at="memories",
        title="Lineage of a memory",
        middle=lineage.nodes[0],
        lineage=lineage,
        drawing=drawing,
        drawn={one.memory_id: numbers[one.memory_id] for one in drawing.nodes},
        names={node.number: node_name(node) for node in lineage.nodes},
        kinds=_SHORT_KINDS,
        roles=_ROLES,
        edges=lineage.edges[:MAX_LISTED],
    )


def as_graph(lineage: curation_pb2.GetLineageResponse) -> memory_pb2.GetSubgraphResponse:
    """Return a lineage as the graph that the layout knows: a link leads from a memory to what it was made of."""
    shown = {node.number for node in lineage.nodes[:MAX_DRAWN]}
    hops = {0: 0}
    via: dict[int, int] = {}
    graph = memory_pb2.GetSubgraphResponse()
    # Nodes come in the order of their distance, so each is reached from one before it.
    for place, edge in sorted(enumerate(lineage.edges), key=lambda one: one[1].memory_number):
        if not {edge.memory_number, edge.source_number} <= shown:
            continue
        graph.links.add(
            link_id=str(place),
            from_memory_id=_node_id(edge.memory_number),
            to_memory_id=_node_id(edge.source_number),
            relation=_ROLES[edge.role],
        )
        if edge.source_number not in hops:
            hops[edge.source_number] = hops.get(edge.memory_number, 0) + 1
            via[edge.source_number] = place
    for node in lineage.nodes[:MAX_DRAWN]:
        graph.nodes.add(
            memory_id=_node_id(node.number),
            name=node_name(node),
            type=_SHORT_KINDS[node.kind],
            hop=hops.get(node.number, 1),
            via_link_id=str(via[node.number]) if node.number in via else "",
        )
    return graph


def node_name(node: curation_pb2.LineageNode) -> str:
    """Return how a node is called on the page."""
    if node.state == curation_pb2.LINEAGE_STATE_HIDDEN:
        return f"hidden {_SHORT_KINDS[node.kind]}"
    if node.state == curation_pb2.LINEAGE_STATE_ERASED:
        return f"erased {_SHORT_KINDS[node.kind]}"
    return node.name or node.label or node.id


def _node_id(number: int) -> str:
    # As text they have the order of the numbers.
    return f"{number:06d}"
