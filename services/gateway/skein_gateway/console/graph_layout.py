"""Where the memories of a graph stand: on rings around the middle, each beside the one that leads to it.

Equal graphs are drawn alike. Knows no server and no markup.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skein.memory.v1 import memory_pb2

# Between two rings, and between neighbours of one ring, at least.
_RING, _SPACE = 150.0, 66.0
# Neighbours stand on two rails, so that their names do not run into one another.
_RAIL = 34.0
# A name is written beside a node, this wide at most.
_MARGIN_X, _MARGIN_Y = 175.0, 52.0
# How far two links between the same memories keep from one another.
_BOW = 26.0
# A link beside the tree bows out by this share of its length, so that it passes what stands between its ends.
_ASIDE = 0.16
# So many links between the same two memories are drawn, and so many relations explained, those that are most.
_MAX_BETWEEN, _MAX_LEGEND = 9, 16
# What hangs on one memory stands within this angle, seen from the middle.
_CONE = math.radians(130)
_RADIUS, _MIDDLE = 9.0, 14.0
# So many of a ring have room on one rail.
_FEW = 4
# How long neighbours are pushed apart, and what is near enough.
_ROUNDS, _CLOSE = 200, 1e-3
# Nodes further left or right than this share of their ring have their names outside of it.
_SIDE = 0.35


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A memory on the drawing."""

    memory_id: str
    title: str
    type: str
    hop: int
    x: float
    y: float
    radius: float
    # Where its name is written: "start", "end" or "middle", as SVG anchors a text.
    anchor: str
    label_x: float
    label_y: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Edge:
    """A link on the drawing."""

    link: memory_pb2.Link | None
    # The number of its relation's colour; 0 for tags that two memories share.
    colour: int
    relation: str
    # SVG's path.
    path: str
    label_x: float
    label_y: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawing:
    """A graph with its measures."""

    nodes: Sequence[Node]
    edges: Sequence[Edge]
    left: float
    top: float
    width: float
    height: float
    # The relations that are met most, with the number of their colour and how often each is.
    legend: Sequence[tuple[str, int, int]] = field(default=())


def layout_graph(found: memory_pb2.GetSubgraphResponse) -> Drawing:
    """Place what a walk found."""
    places = _places(found)
    nodes = [_node(node, *places[node.memory_id]) for node in found.nodes]
    relations = sorted({link.relation for link in found.links})
    colours = {relation: 1 + number % 8 for number, relation in enumerate(relations)}
    counts = Counter(link.relation for link in found.links)
    explained = sorted(sorted(relations, key=lambda relation: -counts[relation])[:_MAX_LEGEND])
    radii = {node.memory_id: node.radius for node in nodes}
    edges = _edges(found, {node.memory_id: (node.x, node.y) for node in nodes}, radii, colours)
    xs, ys = [node.x for node in nodes] or [0.0], [node.y for node in nodes] or [0.0]
    left, top = min(xs) - _MARGIN_X, min(ys) - _MARGIN_Y
    return Drawing(
        nodes=nodes,
        edges=edges,
        left=left,
        top=top,
        width=max(xs) + _MARGIN_X - left,
        height=max(ys) + _MARGIN_Y - top,
        legend=[(relation, colours[relation], counts[relation]) for relation in explained],
    )


def _places(found: memory_pb2.GetSubgraphResponse) -> dict[str, tuple[float, float]]:
    """Return the angle and the distance of each node: a branch gets as much of the circle as it has ends."""
    below = _branches(found)
    angles: dict[str, float] = {}
    ends: dict[str, int] = {}
    for node in reversed(found.nodes):
        ends[node.memory_id] = sum(ends.get(child, 1) for child in below.get(node.memory_id, ())) or 1
    roots = [node.memory_id for node in found.nodes if node.hop == 0]
    waiting: list[tuple[str, float, float]] = []
    _share(roots, ends, 0.0, 2 * math.pi, waiting)
    while waiting:
        memory_id, start, span = waiting.pop()
        angles[memory_id] = start + span / 2
        children = below.get(memory_id, ())
        if not children:
            continue
        if len(roots) == 1 and memory_id == roots[0]:
            # The first neighbour stands to the right of the middle, where its name has room.
            _share(children, ends, -span * ends[children[0]] / ends[memory_id] / 2, span, waiting)
        else:
            cone = min(span, _CONE)
            _share(children, ends, start + (span - cone) / 2, cone, waiting)
    return _on_rings(found, angles)


def _branches(found: memory_pb2.GetSubgraphResponse) -> dict[str, list[str]]:
    links = {link.link_id: link for link in found.links}
    hops = {node.memory_id: node.hop for node in found.nodes}
    below: dict[str, list[str]] = {}
    for node in found.nodes:
        link = links.get(node.via_link_id)
        if link is not None:
            other = link.from_memory_id if link.to_memory_id == node.memory_id else link.to_memory_id
            if hops.get(other, node.hop) < node.hop:
                below.setdefault(other, []).append(node.memory_id)
    return below


def _share(
    children: Sequence[str],
    ends: Mapping[str, int],
    start: float,
    span: float,
    waiting: list[tuple[str, float, float]],
) -> None:
    whole = sum(ends[child] for child in children)
    for child in children:
        own = span * ends[child] / whole
        waiting.append((child, start, own))
        start += own


def _on_rings(found: memory_pb2.GetSubgraphResponse, angles: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    places: dict[str, tuple[float, float]] = {}
    before = 0.0
    for hop in sorted({node.hop for node in found.nodes}):
        # What no link leads to (it was left out) stands where the circle begins.
        ring = sorted((angles.get(node.memory_id, 0.0), node.memory_id) for node in found.nodes if node.hop == hop)
        if hop == 0 and len(ring) == 1:
            places[ring[0][1]] = (ring[0][0], 0.0)
            continue
        radius = max(before + _RING, len(ring) * _SPACE / (2 * math.pi))
        for number, (angle, memory_id) in enumerate(_spread(ring, _SPACE / radius)):
            places[memory_id] = (angle, radius + (_RAIL if number % 2 and len(ring) > _FEW else 0.0))
        before = radius
    return places


def _spread(ring: Sequence[tuple[float, str]], least: float) -> list[tuple[float, str]]:
    """Push neighbours on a ring apart until they have room; they stay in their order, near where they were."""
    angles = [angle for angle, _ in ring]
    count = len(angles)
    least = min(least, 2 * math.pi / count)
    for _ in range(_ROUNDS):
        moved = False
        for number in range(count if count > 1 else 0):
            following = (number + 1) % count
            around = 2 * math.pi if following == 0 else 0.0
            lacks = least - (angles[following] + around - angles[number])
            if lacks > _CLOSE:
                angles[number] -= lacks / 2
                angles[following] += lacks / 2
                moved = True
        if not moved:
            break
    return [(angle, memory_id) for angle, (_, memory_id) in zip(angles, ring, strict=True)]


def _node(node: memory_pb2.GraphNode, angle: float, distance: float) -> Node:
    # Wider than high, as screens are.
    x, y = round(1.25 * distance * math.cos(angle), 1), round(0.85 * distance * math.sin(angle), 1)
    radius = _RADIUS if node.hop else _MIDDLE
    anchor = "middle" if not distance or abs(math.cos(angle)) < _SIDE else "start" if math.cos(angle) > 0 else "end"
    aside = {"middle": 0.0, "start": radius + 6, "end": -radius - 6}[anchor]
    above = -radius - 7 if anchor == "middle" and y < 0 else radius + 16 if anchor == "middle" else 4.0
    return Node(
        memory_id=node.memory_id,
        title=node.title,
        type=node.type,
        hop=node.hop,
        x=x,
        y=y,
        radius=radius,
        anchor=anchor,
        label_x=round(x + aside, 1),
        label_y=round(y + above, 1),
    )


def _edges(
    found: memory_pb2.GetSubgraphResponse,
    places: Mapping[str, tuple[float, float]],
    radii: Mapping[str, float],
    colours: Mapping[str, int],
) -> list[Edge]:
    drawn_between: dict[tuple[str, str], int] = {}
    tree = {node.via_link_id for node in found.nodes}
    edges: list[Edge] = []
    lines = [(link.from_memory_id, link.to_memory_id, link.relation, link) for link in found.links]
    shared = [(link.from_memory_id, link.to_memory_id, "", None) for link in found.inferred_links]
    for start, end, relation, link in (*lines, *shared):
        if start not in places or end not in places:
            continue
        pair = (min(start, end), max(start, end))
        number = drawn_between[pair] = drawn_between.get(pair, 0) + 1
        if number > _MAX_BETWEEN:
            continue
        # The first one is straight; the others bow out, to one side and to the other.
        bow = (number // 2) * _BOW * (1 if number % 2 else -1) * (1 if start < end else -1)
        if number == 1 and (link is None or link.link_id not in tree):
            bow = _ASIDE * math.dist(places[start], places[end]) / 2
        path, label_x, label_y = _curve(places[start], places[end], radii[start], radii[end], bow)
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
    # From edge to edge; the arrow's head needs a little more.
    ax, ay = start[0] + ux * from_radius, start[1] + uy * from_radius
    bx, by = end[0] - ux * (to_radius + 5), end[1] - uy * (to_radius + 5)
    cx, cy = (ax + bx) / 2 - uy * 2 * bow, (ay + by) / 2 + ux * 2 * bow
    middle = ((ax + 2 * cx + bx) / 4, (ay + 2 * cy + by) / 4)
    return f"M{ax:.1f} {ay:.1f}Q{cx:.1f} {cy:.1f} {bx:.1f} {by:.1f}", round(middle[0], 1), round(middle[1], 1)
