"""Breadth-first traversal of the graph. Reads of one level are bounded, however many links its memories have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import asyncpg

from skein_kit.admission.processor_time import run_by_size, with_pauses
from skein_memory.graph.model import Node, SearchBudget, Step, StepGraph, by_strength, shortest_paths
from skein_memory.links.model import LinkFilter
from skein_memory.tenant_reader import TenantReader

# Links that one level reads in each direction, shared by its memories; least and most links of one memory.
_LINKS_OF_LEVEL = 2000
_MIN_LINKS = 8
_MAX_LINKS = 1000
# Memories that are looked up beyond the limit, because some are deleted.
_SPARE = 32
# What a link costs, in bytes of text (`run_by_size`).
_STEP_BYTES = 256
# Limits of a search for paths: links of one memory in each direction, memories, and steps.
_MAX_LINKS_PER_NODE = 300
_MAX_NODES = 1000
_MAX_STEPS = 20_000


@dataclass(slots=True)
class Traversal:
    """The memories of a traversal, nearest first, and the steps between them."""

    nodes: dict[UUID, Node]
    steps: list[Step] = field(default_factory=list)
    # The limits left something out.
    truncated: bool = False


async def traverse(
    reader: TenantReader, starts: Sequence[Node], link_filter: LinkFilter, *, hops: int, max_nodes: int
) -> Traversal:
    """Traverse up to `hops` hops and `max_nodes` memories; the strongest links of each level come first."""
    traversal = Traversal(nodes={start.memory_id: start for start in starts})
    frontier = list(traversal.nodes)
    for hop in range(1, hops + 1):
        if not frontier:
            break
        steps, has_more_links = await _steps(reader, frontier, link_filter, max_links=2 * max_nodes)
        traversal.steps += steps
        first_steps: dict[UUID, Step] = {}
        for step in steps:
            if step.far_id not in traversal.nodes:
                first_steps.setdefault(step.far_id, step)
        rows, has_more_nodes = await _visible_nodes(
            reader, list(first_steps), max_nodes=max_nodes - len(traversal.nodes)
        )
        for row in rows:
            memory_id = row["memory_id"]
            traversal.nodes[memory_id] = Node(
                memory_id=memory_id,
                type=row["type"],
                title=row["title"],
                name=row["name"],
                hop=hop,
                via_link_id=first_steps[memory_id].link_id,
            )
        traversal.truncated = traversal.truncated or has_more_links or has_more_nodes
        frontier = [row["memory_id"] for row in rows]
        if hop < hops and frontier and len(traversal.nodes) >= max_nodes:
            # The limit is reached, so the memories behind these are not scanned.
            traversal.truncated = True
            break
    return traversal


@dataclass(slots=True)
class _Frontier:
    """One end of a search for paths, and its progress."""

    frontier: list[UUID]
    # Memories that are not visited again. A path ends at either of its ends.
    visited: set[UUID]
    link_filter: LinkFilter
    is_start: bool
    hops: int = 0


class PathSearch:
    """Looks for paths from both ends, a hop at a time on the side with less to scan.

    After a hops from one end and b from the other, the known steps contain every path of up to a + b hops. So the
    shortest paths are complete long before both ends have visited all memories.
    """

    def __init__(self, start: UUID, goal: UUID, link_filter: LinkFilter, *, hops: int, count: int) -> None:
        """Look for the `count` shortest paths of up to so many hops."""
        self._start, self._goal, self._hops = start, goal, hops
        # One more shows whether there are others.
        self._count = count + 1
        self._link_filter = link_filter
        self._graph = StepGraph()
        self._budget = SearchBudget(remaining=_MAX_STEPS)
        # Memories of both sides that may lie on a path.
        self._known_ids = {start, goal}
        self._sides = (
            _Frontier(frontier=[start], visited={start, goal}, link_filter=link_filter, is_start=True),
            _Frontier(frontier=[goal], visited={start, goal}, link_filter=link_filter.reversed(), is_start=False),
        )
        self._paths: list[list[Step]] = []
        self.truncated = False

    async def run(self, reader: TenantReader, *, has_time: Callable[[], bool]) -> list[list[Step]]:
        """Return the paths, shortest first; `truncated` is set when there may be others."""
        await self._add_direct_links(reader)
        while sum(side.hops for side in self._sides) < self._hops and not self._is_done():
            if not has_time():
                self.truncated = True
                break
            side = min(self._sides, key=lambda side: (side.hops > 0, len(side.frontier), side.hops))
            await self._expand(reader, side)
            total_hops = sum(side.hops for side in self._sides)
            # Both ends take one hop first: a memory with very many links is reached from the other end.
            if all(side.hops for side in self._sides) or total_hops == self._hops:
                self._paths = shortest_paths(
                    self._graph, self._start, self._goal, hops=total_hops, count=self._count, budget=self._budget
                )
            if not all(side.frontier for side in self._sides):
                # One end has visited its whole component: more hops find nothing.
                self._paths = shortest_paths(
                    self._graph, self._start, self._goal, hops=self._hops, count=self._count, budget=self._budget
                )
                break
        self.truncated = self.truncated or self._budget.is_spent or len(self._paths) == self._count
        return self._paths[: self._count - 1]

    def _is_done(self) -> bool:
        return len(self._paths) == self._count or self._budget.is_spent

    async def _add_direct_links(self, reader: TenantReader) -> None:
        """Add the links between the two ends, however many other links they have."""
        rows = await reader.rows(
            "list_links_among",
            memory_ids=[self._start, self._goal],
            relations=self._link_filter.relations,
            min_weight=self._link_filter.min_weight,
            count=_MAX_LINKS,
        )
        for row in rows:
            is_outgoing = row["from_memory_id"] == self._start
            if self._link_filter.outgoing if is_outgoing else self._link_filter.incoming:
                self._graph.add(Step(self._start, self._goal, row["link_id"], row["relation"], row["weight"]))

    async def _expand(self, reader: TenantReader, side: _Frontier) -> None:
        steps, has_more_links = await _steps(reader, side.frontier, side.link_filter, max_links=_MAX_LINKS_PER_NODE)
        far_ids = list(dict.fromkeys(step.far_id for step in steps if step.far_id not in side.visited))
        new_ids = [memory_id for memory_id in far_ids if memory_id not in self._known_ids]
        max_new = _MAX_NODES - len(self._known_ids)
        rows, has_more_nodes = await _visible_nodes(reader, new_ids, max_nodes=max_new, ids_only=True)
        self._known_ids.update(row["memory_id"] for row in rows)
        for step in steps:
            if step.far_id in self._known_ids:
                self._graph.add(step if side.is_start else _reverse(step))
                if not side.link_filter.is_directed:
                    self._graph.add(_reverse(step) if side.is_start else step)
        side.frontier, side.hops = [memory_id for memory_id in far_ids if memory_id in self._known_ids], side.hops + 1
        side.visited.update(side.frontier)
        self.truncated = self.truncated or has_more_links or has_more_nodes


def _reverse(step: Step) -> Step:
    return step._replace(near_id=step.far_id, far_id=step.near_id)


async def _steps(
    reader: TenantReader, near_ids: Sequence[UUID], link_filter: LinkFilter, *, max_links: int
) -> tuple[list[Step], bool]:
    """Read the strongest links of some memories, strongest first; and whether some have more than were read."""
    links_per_node = max(_MIN_LINKS, min(max_links, _MAX_LINKS, _LINKS_OF_LEVEL // len(near_ids)))
    values: dict[str, object] = {
        "memory_ids": list(near_ids),
        "min_weight": link_filter.min_weight,
        "outgoing": link_filter.outgoing,
        "incoming": link_filter.incoming,
        "fan": links_per_node + 1,
    }
    if link_filter.relations is None:
        rows = await reader.rows("list_steps", **values)
        counts = Counter((row["near_id"], row["is_outgoing"], "") for row in rows)
    else:
        rows = await reader.rows("list_related_steps", **values, relations=list(link_filter.relations))
        counts = Counter((row["near_id"], row["is_outgoing"], row["relation"]) for row in rows)
    steps = await run_by_size(len(rows) * _STEP_BYTES, _sorted_steps, rows)
    return steps, any(count > links_per_node for count in counts.values())


def _sorted_steps(rows: Sequence[asyncpg.Record]) -> list[Step]:
    steps = [
        Step(row["near_id"], row["far_id"], row["link_id"], row["relation"], row["weight"]) for row in with_pauses(rows)
    ]
    steps.sort(key=by_strength)
    return steps


async def _visible_nodes(
    reader: TenantReader, memory_ids: Sequence[UUID], *, max_nodes: int, ids_only: bool = False
) -> tuple[list[asyncpg.Record], bool]:
    """Read the first `max_nodes` of some memories that are not deleted, archived or expired, in this order.

    Return also whether some were left out. `ids_only` reads ids alone.
    """
    visible: list[asyncpg.Record] = []
    scanned_count = 0
    while scanned_count < len(memory_ids) and len(visible) < max_nodes:
        batch = memory_ids[scanned_count : scanned_count + max_nodes - len(visible) + _SPARE]
        scanned_count += len(batch)
        query_name = "find_visible_node" if ids_only else "get_visible_nodes"
        rows = await reader.rows(query_name, memory_ids=list(batch), at=reader.at)
        by_id = {row["memory_id"]: row for row in rows}
        visible += [by_id[memory_id] for memory_id in batch if memory_id in by_id]
    return visible[:max_nodes], scanned_count < len(memory_ids) or len(visible) > max_nodes
