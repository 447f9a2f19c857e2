"""Where the chains of cited memories end. Pure: no calls, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skein.memory.v1 import curation_pb2

# Memories of one GetLineage, and origins that a citation names.
MAX_LINEAGES = 50
MAX_ORIGINS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Origins:
    """The nodes where the chains of one memory end."""

    nodes: tuple[curation_pb2.LineageNode, ...] = ()
    # There are more, or some chains were not followed to their end.
    is_truncated: bool = False


def origins_of(response: curation_pb2.GetLineageResponse, memory_ids: Sequence[str]) -> dict[str, Origins]:
    """Return the origins of each requested memory, the nearest first. A memory without sources is its own origin."""
    sources: dict[int, list[int]] = {}
    for edge in response.edges:
        sources.setdefault(edge.memory_number, []).append(edge.source_number)
    numbers = {node.id: node.number for node in response.nodes if node.id}
    return {id_: _origins(response, sources, numbers[id_]) for id_ in memory_ids if id_ in numbers}


def _origins(response: curation_pb2.GetLineageResponse, sources: dict[int, list[int]], number: int) -> Origins:
    pending, seen, found = [number], {number}, list[int]()
    while pending:
        current = pending.pop(0)
        if response.nodes[current].is_origin or not sources.get(current):
            found.append(current)
        for source in sources.get(current, ()):
            if source not in seen:
                seen.add(source)
                pending.append(source)
    return Origins(
        nodes=tuple(response.nodes[one] for one in found[:MAX_ORIGINS]),
        is_truncated=len(found) > MAX_ORIGINS or response.truncated,
    )
