"""Layout of a graph of memories: rings around the middle, each memory next to the one that leads to it.

Deterministic. Lengths are SVG user units, angles radians. Knows no server and no markup.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skein.memory.v1 import memory_pb2
from skein_kit.text.invisible import show_invisible

# Least distance of two rings, and of neighbours on a ring.
_RING, _SPACE = 150.0, 66.0
# Several memories in the middle have their labels above or below, which take more space.
_MIDDLE_SPACE = 110.0
# Neighbours alternate between two rails, so that their labels do not overlap.
_RAIL = 34.0
# Space for the labels around the outermost nodes.
_MARGIN_X, _MARGIN_Y = 175.0, 52.0
# Distance of two links between the same memories.
_BOW = 26.0
# Links outside the spanning tree bow by this share of their length, to pass the nodes between their ends.
_BOW_SHARE = 0.16
# Most links drawn between two memories, and most relations in the legend.
_MAX_BETWEEN, _MAX_LEGEND = 9, 16
# The children of a memory lie within this angle, seen from the middle.
_CONE = math.radians(130)
_RADIUS, _CENTRE_RADIUS = 9.0, 14.0
# Most nodes of a ring on a single rail.
_MAX_ON_ONE_RAIL = 4
# Iterations and tolerance of the relaxation that spreads neighbours.
_ROUNDS, _TOLERANCE = 200, 1e-3
# Nodes with a larger |cosine| than this have their label beside them, others above or below.
_SIDE_SHARE = 0.35


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A drawn memory."""

    memory_id: str
    # What to show for it.
    title: str
    type: str
    hop: int
    x: float
    y: float
    radius: float
    # SVG's text-anchor of the label: "start", "end" or "middle".
    anchor: str
    label_x: float
    label_y: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Edge:
    """A drawn link."""

    link: memory_pb2.Link | None
    # Colour number of the relation; 0 for shared tags.
    colour: int
    relation: str
    # SVG path data.
    path: str
    label_x: float
    label_y: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawing:
    """Nodes, edges and the bounding box."""

    nodes: Sequence[Node]
    edges: Sequence[Edge]
    left: float
    top: float
    width: float
    height: float
    # The most frequent relations, each with its colour number and its count.
    legend: Sequence[tuple[str, int, int]] = field(default=())


def layout_graph(subgraph: memory_pb2.GetSubgraphResponse) -> Drawing:
    """Return the drawing of a subgraph."""
    positions = _positions(subgraph)
    children_of = _tree(subgraph)
    nodes = [
        _node(node, *positions[node.memory_id], is_passed=node.memory_id in children_of) for node in subgraph.nodes
    ]
    relations = sorted({link.relation for link in subgraph.links})
    colours = {relation: 1 + number % 8 for number, relation in enumerate(relations)}
    counts = Counter(link.relation for link in subgraph.links)
    in_legend = sorted(sorted(relations, key=lambda relation: -counts[relation])[:_MAX_LEGEND])
    radii = {node.memory_id: node.radius for node in nodes}
    edges = _edges(subgraph, {node.memory_id: (node.x, node.y) for node in nodes}, radii, colours)
    xs, ys = [node.x for node in nodes] or [0.0], [node.y for node in nodes] or [0.0]
    left, top = min(xs) - _MARGIN_X, min(ys) - _MARGIN_Y
    return Drawing(
        nodes=nodes,
        edges=edges,
        left=left,
        top=top,
        width=max(xs) + _MARGIN_X - left,
        height=max(ys) + _MARGIN_Y - top,
        legend=[(relation, colours[relation], counts[relation]) for relation in in_legend],
    )


def _positions(subgraph: memory_pb2.GetSubgraphResponse) -> dict[str, tuple[float, float]]:
    """Return angle and distance of each node by id. A branch's share of the circle is its share of the leaves."""
    children_of = _tree(subgraph)
    angles: dict[str, float] = {}
    leaf_counts: dict[str, int] = {}
    for node in reversed(subgraph.nodes):
        leaf_counts[node.memory_id] = (
            sum(leaf_counts.get(child, 1) for child in children_of.get(node.memory_id, ())) or 1
        )
    roots = [node.memory_id for node in subgraph.nodes if node.hop == 0]
    pending: list[tuple[str, float, float]] = []
    _divide_angle(roots, leaf_counts, 0.0, 2 * math.pi, pending)
    while pending:
        memory_id, start, span = pending.pop()
        angles[memory_id] = start + span / 2
        children = children_of.get(memory_id, ())
        if not children:
            continue
        if len(roots) == 1 and memory_id == roots[0]:
            # Centre the first neighbour to the right of the middle, where its label has space.
            _divide_angle(
                children, leaf_counts, -span * leaf_counts[children[0]] / leaf_counts[memory_id] / 2, span, pending
            )
        else:
            cone = min(span, _CONE)
            _divide_angle(children, leaf_counts, start + (span - cone) / 2, cone, pending)
    return _on_rings(subgraph, angles)


def _tree(subgraph: memory_pb2.GetSubgraphResponse) -> dict[str, list[str]]:
    links = {link.link_id: link for link in subgraph.links}
    hops = {node.memory_id: node.hop for node in subgraph.nodes}
    children_of: dict[str, list[str]] = {}
    for node in subgraph.nodes:
        link = links.get(node.via_link_id)
        if link is not None:
            other = link.from_memory_id if link.to_memory_id == node.memory_id else link.to_memory_id
            if hops.get(other, node.hop) < node.hop:
                children_of.setdefault(other, []).append(node.memory_id)
    return children_of


def _divide_angle(
    children: Sequence[str],
    leaf_counts: Mapping[str, int],
    start: float,
    span: float,
    pending: list[tuple[str, float, float]],
) -> None:
    total = sum(leaf_counts[child] for child in children)
    for child in children:
        share = span * leaf_counts[child] / total
        pending.append((child, start, share))
        start += share


def _on_rings(subgraph: memory_pb2.GetSubgraphResponse, angles: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    positions: dict[str, tuple[float, float]] = {}
    inner_radius = 0.0
    for hop in sorted({node.hop for node in subgraph.nodes}):
        # Nodes without a link to them (it was truncated) lie at angle 0.
        ring = sorted((angles.get(node.memory_id, 0.0), node.memory_id) for node in subgraph.nodes if node.hop == hop)
        if hop == 0 and len(ring) == 1:
            positions[ring[0][1]] = (ring[0][0], 0.0)
            continue
        space = _SPACE if hop else _MIDDLE_SPACE
        radius = max(inner_radius + _RING, len(ring) * space / (2 * math.pi))
        for number, (angle, memory_id) in enumerate(_spread(ring, space / radius)):
            positions[memory_id] = (angle, radius + (_RAIL if number % 2 and len(ring) > _MAX_ON_ONE_RAIL else 0.0))
        inner_radius = radius
    return positions


def _spread(ring: Sequence[tuple[float, str]], min_angle: float) -> list[tuple[float, str]]:
    """Push neighbours on a ring apart to `min_angle`. Keeps their order and moves them little."""
    angles = [angle for angle, _ in ring]
    count = len(angles)
    min_angle = min(min_angle, 2 * math.pi / count)
    for _ in range(_ROUNDS):
        moved = False
        for number in range(count if count > 1 else 0):
            following = (number + 1) % count
            full_turn = 2 * math.pi if following == 0 else 0.0
            overlap = min_angle - (angles[following] + full_turn - angles[number])
            if overlap > _TOLERANCE:
                angles[number] -= overlap / 2
                angles[following] += overlap / 2
                moved = True
        if not moved:
            break
    return [(angle, memory_id) for angle, (_, memory_id) in zip(angles, ring, strict=True)]


def _node(node: memory_pb2.GraphNode, angle: float, distance: float, *, is_passed: bool) -> Node:
    # An ellipse, because screens are wider than high.
    x, y = round(1.25 * distance * math.cos(angle), 1), round(0.85 * distance * math.sin(angle), 1)
    radius = _RADIUS if node.hop else _CENTRE_RADIUS
    anchor = (
        # A label beside a node that leads outward would lie on its link.
        "middle"
        if not distance or is_passed or abs(math.cos(angle)) < _SIDE_SHARE
        else "start"
        if math.cos(angle) > 0
        else "end"
    )
    offset_x = {"middle": 0.0, "start": radius + 6, "end": -radius - 6}[anchor]
    offset_y = -radius - 7 if anchor == "middle" and y < 0 else radius + 16 if anchor == "middle" else 4.0
    return Node(
        memory_id=node.memory_id,
        # It stands in attributes too, where pages show invisible characters no other way.
        title=show_invisible(node.name) or f"A {node.type} without text",
        type=node.type,
        hop=node.hop,
        x=x,
        y=y,
        radius=radius,
        anchor=anchor,
        label_x=round(x + offset_x, 1),
        label_y=round(y + offset_y, 1),
    )


def _edges(
    subgraph: memory_pb2.GetSubgraphResponse,
    positions: Mapping[str, tuple[float, float]],
    radii: Mapping[str, float],
    colours: Mapping[str, int],
) -> list[Edge]:
    drawn_between: dict[tuple[str, str], int] = {}
    tree = {node.via_link_id for node in subgraph.nodes}
    edges: list[Edge] = []
    lines = [(link.from_memory_id, link.to_memory_id, link.relation, link) for link in subgraph.links]
    shared = [(link.from_memory_id, link.to_memory_id, "", None) for link in subgraph.inferred_links]
    for start, end, relation, link in (*lines, *shared):
        if start not in positions or end not in positions:
            continue
        pair = (min(start, end), max(start, end))
        number = drawn_between[pair] = drawn_between.get(pair, 0) + 1
        if number > _MAX_BETWEEN:
            continue
        # The first link is straight; the others bow to alternating sides.
        bow = (number // 2) * _BOW * (1 if number % 2 else -1) * (1 if start < end else -1)
        if number == 1 and (link is None or link.link_id not in tree):
            bow = _BOW_SHARE * math.dist(positions[start], positions[end]) / 2
        path, label_x, label_y = _curve(positions[start], positions[end], radii[start], radii[end], bow)
        edges.append(
            Edge(
                link=link,
                colour=colours.get(relation, 0),
                relation=relation,
                path=path,
                label_x=label_x,
                label_y=label_y,
            )
        )
    return edges


def _curve(
    start: tuple[float, float], end: tuple[float, float], from_radius: float, to_radius: float, bow: float
) -> tuple[str, float, float]:
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = math.hypot(dx, dy) or 1.0
    ux, uy = dx / length, dy / length
    # From circle to circle, with space for the arrow head.
    ax, ay = start[0] + ux * from_radius, start[1] + uy * from_radius
    bx, by = end[0] - ux * (to_radius + 5), end[1] - uy * (to_radius + 5)
    cx, cy = (ax + bx) / 2 - uy * 2 * bow, (ay + by) / 2 + ux * 2 * bow
    middle = ((ax + 2 * cx + bx) / 4, (ay + 2 * cy + by) / 4)
    return f"M{ax:.1f} {ay:.1f}Q{cx:.1f} {cy:.1f} {bx:.1f} {by:.1f}", round(middle[0], 1), round(middle[1], 1)
