"""Breadth-first traversal of the graph. Reads of one level are bounded, however many links its memories have."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skein_memory.graph.model import Node, SearchBudget, Step, StepGraph, by_strength, shortest_paths
from skein_memory.queries import QUERIES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from uuid import UUID

    import asyncpg

    from skein_kit.database.transactions import Transaction
    from skein_memory.links.model import LinkFilter

# Links that one level reads in each direction, shared out among its memories; each has these at least and at most.
_LINKS_OF_LEVEL = 2000
_FEWEST_LINKS = 8
_MAX_LINKS = 1000
# Memories looked up beyond those that there is room for, as some are deleted.
_SPARE = 32
# What a search for paths may read of one memory in each direction, hold and do.
_MAX_LINKS_PER_NODE = 300
_MAX_NODES_MET = 1000
_MAX_WAITING = 20_000


@dataclass(slots=True)
class Traversal:
    """The memories of a traversal, nearest first, and the steps between them."""

    nodes: dict[UUID, Node]
    steps: list[Step] = field(default_factory=list)
    # Something was left out for want of room.
    truncated: bool = False


async def traverse(
    tx: Transaction,
    tenant_id: UUID,
    starts: Sequence[Node],
    link_filter: LinkFilter,
    *,
    hops: int,
    most: int,
    at: datetime,
) -> Traversal:
    """Walk so many hops from some memories, until `most` are met; the strongest links of each level lead on first."""
    walked = Traversal(nodes={start.memory_id: start for start in starts})
    frontier = list(walked.nodes)
    for hop in range(1, hops + 1):
        if not frontier:
            break
        steps, cut = await _steps(tx, tenant_id, frontier, link_filter, most_each=2 * most)
        walked.steps += steps
        via: dict[UUID, Step] = {}
        for step in steps:
            if step.far_id not in walked.nodes:
                via.setdefault(step.far_id, step)
        rows, left_out = await _visible_nodes(tx, tenant_id, list(via), most=most - len(walked.nodes), at=at)
        for row in rows:
            memory_id = row["memory_id"]
            walked.nodes[memory_id] = Node(
                memory_id=memory_id,
                type=row["type"],
                title=row["title"],
                hop=hop,
                via_link_id=via[memory_id].link_id,
            )
        walked.truncated = walked.truncated or cut or left_out
        frontier = [row["memory_id"] for row in rows]
        if hop < hops and frontier and len(walked.nodes) >= most:
            # What lies behind these is not scanned, as there is no room for it.
            walked.truncated = True
            break
    return walked


@dataclass(slots=True)
class _Frontier:
    """One end of a search for paths, and how far it has come."""

    frontier: list[UUID]
    # Where it need not go again. No path goes on behind either end.
    seen: set[UUID]
    link_filter: LinkFilter
    is_start: bool
    hops: int = 0


class PathSearch:
    """Looks for paths from both ends, a hop at a time on the side with less to scan.

    When a hops were taken from the one end and b from the other, every path of up to a + b hops lies among the steps
    that are known; so the shortest are complete long before the ends have seen all that they could.
    """

    def __init__(self, start: UUID, goal: UUID, link_filter: LinkFilter, *, hops: int, count: int) -> None:
        """Look for the `count` shortest paths of up to so many hops."""
        self._start, self._goal, self._hops = start, goal, hops
        # One more tells whether there are others.
        self._count = count + 1
        self._link_filter = link_filter
        self._roads = StepGraph()
        self._budget = SearchBudget(left=_MAX_WAITING)
        # Memories of both sides that may lie on a path.
        self._met = {start, goal}
        self._sides = (
            _Frontier(frontier=[start], seen={start, goal}, link_filter=link_filter, is_start=True),
            _Frontier(frontier=[goal], seen={start, goal}, link_filter=link_filter.reversed(), is_start=False),
        )
        self._found: list[list[Step]] = []
        self.truncated = False

    async def run(
        self, tx: Transaction, tenant_id: UUID, *, at: datetime, has_time: Callable[[], bool]
    ) -> list[list[Step]]:
        """Return the paths, shortest first; `truncated` is set when there may be others."""
        await self._look_across(tx, tenant_id)
        while sum(side.hops for side in self._sides) < self._hops and not self._is_done():
            if not has_time():
                self.truncated = True
                break
            side = min(self._sides, key=lambda side: (side.hops > 0, len(side.frontier), side.hops))
            await self._take_hop(tx, tenant_id, side, at)
            covered = sum(side.hops for side in self._sides)
            # Both ends have looked once before anything is settled: of a memory with very many links the other knows.
            if all(side.hops for side in self._sides) or covered == self._hops:
                self._found = shortest_paths(
                    self._roads, self._start, self._goal, hops=covered, count=self._count, budget=self._budget
                )
            if not all(side.frontier for side in self._sides):
                # One end has seen everything that it is connected with, so more hops find no more.
                self._found = shortest_paths(
                    self._roads, self._start, self._goal, hops=self._hops, count=self._count, budget=self._budget
                )
                break
        self.truncated = self.truncated or self._budget.is_spent or len(self._found) == self._count
        return self._found[: self._count - 1]

    def _is_done(self) -> bool:
        return len(self._found) == self._count or self._budget.is_spent

    async def _look_across(self, tx: Transaction, tenant_id: UUID) -> None:
        """Learn of the links between the two themselves, whatever else they are linked with."""
        rows = await tx.rows(
            QUERIES["list_links_among"],
            tenant_id=tenant_id,
            memory_ids=[self._start, self._goal],
            relations=self._link_filter.relations,
            min_weight=self._link_filter.min_weight,
            count=_MAX_LINKS,
        )
        for row in rows:
            is_outgoing = row["from_memory_id"] == self._start
            if self._link_filter.outgoing if is_outgoing else self._link_filter.incoming:
                self._roads.add(Step(self._start, self._goal, row["link_id"], row["relation"], row["weight"]))

    async def _take_hop(self, tx: Transaction, tenant_id: UUID, side: _Frontier, at: datetime) -> None:
        steps, cut = await _steps(tx, tenant_id, side.frontier, side.link_filter, most_each=_MAX_LINKS_PER_NODE)
        far = list(dict.fromkeys(step.far_id for step in steps if step.far_id not in side.seen))
        unknown = [memory_id for memory_id in far if memory_id not in self._met]
        room = _MAX_NODES_MET - len(self._met)
        rows, left_out = await _visible_nodes(tx, tenant_id, unknown, most=room, at=at, bare=True)
        self._met.update(row["memory_id"] for row in rows)
        for step in steps:
            if step.far_id in self._met:
                self._roads.add(step if side.is_start else _turned(step))
                if not side.link_filter.is_directed:
                    self._roads.add(_turned(step) if side.is_start else step)
        side.frontier, side.hops = [memory_id for memory_id in far if memory_id in self._met], side.hops + 1
        side.seen.update(side.frontier)
        self.truncated = self.truncated or cut or left_out


def _turned(step: Step) -> Step:
    return step._replace(near_id=step.far_id, far_id=step.near_id)


async def _steps(
    tx: Transaction, tenant_id: UUID, near: Sequence[UUID], link_filter: LinkFilter, *, most_each: int
) -> tuple[list[Step], bool]:
    """Read the strongest links of some memories, strongest first; and whether some have more than were read."""
    fan = max(_FEWEST_LINKS, min(most_each, _MAX_LINKS, _LINKS_OF_LEVEL // len(near)))
    values: dict[str, object] = {
        "tenant_id": tenant_id,
        "memory_ids": list(near),
        "min_weight": link_filter.min_weight,
        "outgoing": link_filter.outgoing,
        "incoming": link_filter.incoming,
        "fan": fan + 1,
    }
    if link_filter.relations is None:
        rows = await tx.rows(QUERIES["list_steps"], **values)
        read = Counter((row["near_id"], row["is_outgoing"], "") for row in rows)
    else:
        rows = await tx.rows(QUERIES["list_related_steps"], **values, relations=list(link_filter.relations))
        read = Counter((row["near_id"], row["is_outgoing"], row["relation"]) for row in rows)
    steps = [Step(row["near_id"], row["far_id"], row["link_id"], row["relation"], row["weight"]) for row in rows]
    steps.sort(key=by_strength)
    return steps, any(count > fan for count in read.values())


async def _visible_nodes(
    tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID], *, most: int, at: datetime, bare: bool = False
) -> tuple[list[asyncpg.Record], bool]:
    """Read the first `most` of some memories that are not deleted, archived or expired, in the order given.

    Return as well whether some were not scanned, or had no room. `bare` ones are their ids alone.
    """
    found: list[asyncpg.Record] = []
    looked_at = 0
    while looked_at < len(memory_ids) and len(found) < most:
        batch = memory_ids[looked_at : looked_at + most - len(found) + _SPARE]
        looked_at += len(batch)
        query = QUERIES["find_visible_node"] if bare else QUERIES["get_visible_nodes"]
        rows = await tx.rows(query, tenant_id=tenant_id, memory_ids=list(batch), at=at)
        by_id = {row["memory_id"]: row for row in rows}
        found += [by_id[memory_id] for memory_id in batch if memory_id in by_id]
    return found[:most], looked_at < len(memory_ids) or len(found) > most
