"""Spreading activation: how strongly memories are activated by others. No gRPC, no SQL, no clock."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)

# The factor of each relation; other relations have that of "related".
RELATION_FACTORS: Mapping[str, float] = {
    "supports": 0.88,
    "causes": 0.82,
    "example_of": 0.70,
    "supersedes": 0.65,
    "related": 0.62,
    "contradicts": -0.75,
}
DEFAULT_FACTOR = RELATION_FACTORS["related"]
DAMPING = 0.74
HOP_DECAY = 0.78
_DIGITS = 6


def spread_activation(
    seeds: Mapping[Node, float], links: Iterable[tuple[Node, Node, str, float]], *, hops: int
) -> dict[Node, float]:
    """Return the activation of every node that is reached within so many hops, seeds included, between -1 and 1.

    `seeds` have strengths between 0 and 1; a link is (from, to, relation, weight) and carries from `from` to `to`.
    Callers pass a link of both directions twice. Activation does not flow back to its source, and inhibited nodes pass
    none on. Without contradictions, a stronger seed never lowers the activation of a node.
    """
    outgoing: dict[Node, list[tuple[Node, float]]] = {}
    for start, end, relation, weight in links:
        outgoing.setdefault(start, []).append((end, RELATION_FACTORS.get(relation, DEFAULT_FACTOR) * weight * DAMPING))
    total = {node: _clamp(strength) for node, strength in seeds.items()}
    # The activation of the last hop by its source node; None for seeds.
    last_hop: dict[Node, dict[Node | None, float]] = {node: {None: strength} for node, strength in total.items()}
    hop_factor = 1.0
    for _ in range(hops):
        next_hop: dict[Node, dict[Node | None, float]] = {}
        for node, sources in last_hop.items():
            activation = sum(sources.values())
            for end, factor in outgoing.get(node, ()):
                net_activation = _clamp(activation - sources.get(end, 0.0))
                if net_activation > 0:
                    incoming = next_hop.setdefault(end, {})
                    incoming[node] = incoming.get(node, 0.0) + net_activation * factor * hop_factor
        for node, sources in next_hop.items():
            total[node] = total.get(node, 0.0) + sum(sources.values())
        last_hop, hop_factor = next_hop, hop_factor * HOP_DECAY
    return {node: round(_clamp(value), _DIGITS) for node, value in total.items()}


def _clamp(value: float) -> float:
    return max(-1.0, min(1.0, value))
