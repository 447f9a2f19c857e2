"""The graph in the database: each response is read in a bounded number of bounded statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from skein_kit.admission.processor_time import run_by_size, with_pauses
from skein_kit.database.transactions import Database
from skein_kit.policies.store import PolicyCache
from skein_memory.errors import PathToItself
from skein_memory.graph.activation import spread_activation
from skein_memory.graph.model import (
    DEFAULT_PATHS,
    MAX_PATH_HOPS,
    MAX_RADIUS,
    Candidate,
    InferredLink,
    Node,
    Step,
    Suggestion,
    infer_links,
    suggest,
)
from skein_memory.graph.traversal import PathSearch, traverse
from skein_memory.links.model import Link, LinkFilter
from skein_memory.tenant_reader import TenantReader

# What a link costs, in bytes of text (`run_by_size`).
_STEP_BYTES = 256
# What comparing the tags of two memories costs.
_PAIR_BYTES = 16
# Links of one response.
_MAX_LINKS = 2000
_MAX_TAGS = 100
# Memories that are scanned for each tag, and memories that are compared in all.
_MAX_MEMORIES_PER_TAG = 40
_MAX_COMPARED = 100
DEFAULT_SUGGESTIONS = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Graph:
    """Memories, nearest first, their links, and whether something was left out."""

    nodes: Sequence[Node]
    links: Sequence[Link]
    truncated: bool
    inferred: Sequence[InferredLink] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Paths:
    """Paths from one memory to another, each as its memories and the links between them."""

    paths: Sequence[tuple[Sequence[UUID], Sequence[Link]]]
    nodes: Sequence[Node]
    truncated: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Activation:
    """Memories and their activation, the most active first."""

    memories: Sequence[tuple[Node, float]]
    truncated: bool


class GraphStore:
    """Reads the graph of memories and links."""

    def __init__(self, database: Database, *, policies: PolicyCache) -> None:
        self._database = database
        self._policies = policies

    async def read_subgraph(
        self,
        tenant_id: UUID,
        start_names: Sequence[str],
        link_filter: LinkFilter,
        *,
        hops: int | None,
        max_nodes: int,
        infer: bool,
        at: datetime,
        as_of_time: datetime | None = None,
    ) -> Graph:
        """Return the graph within `hops` of some memories; the policy's radius when `hops` is None.

        With `infer`, links are inferred from shared tags. Raises MemoryNotFound and MemoryNotYetKnown.
        """
        async with TenantReader.open(self._database, tenant_id, at=at, as_of_time=as_of_time) as reader:
            policy = await reader.policy(self._policies)
            radius = min(policy.subgraph_default_radius, MAX_RADIUS) if hops is None else hops
            nodes = list((await _read_start_nodes(reader, start_names)).values())
            traversal = await traverse(reader, nodes, link_filter, hops=radius, max_nodes=max(max_nodes, len(nodes)))
            links, is_truncated = await _read_links_between(reader, list(traversal.nodes), link_filter)
            inferred: list[InferredLink] = []
            if infer:
                tags = await _read_tags(reader, list(traversal.nodes))
                linked = {frozenset((link.from_memory_id, link.to_memory_id)) for link in links}
                pairs = len(tags) ** 2 // 2
                inferred, has_more = await run_by_size(
                    pairs * _PAIR_BYTES, infer_links, tags, linked, max_count=policy.max_inferred_edges
                )
                is_truncated = is_truncated or has_more
        return Graph(
            nodes=list(traversal.nodes.values()),
            links=links,
            inferred=inferred,
            truncated=traversal.truncated or is_truncated,
        )

    async def find_paths(
        self,
        tenant_id: UUID,
        memory_names: tuple[str, str],
        link_filter: LinkFilter,
        *,
        hops: int | None,
        count: int | None,
        at: datetime,
        has_time: Callable[[], bool],
        as_of_time: datetime | None = None,
    ) -> Paths:
        """Return the shortest paths between two memories; within the policy's path_max_hops when `hops` is None.

        Raises MemoryNotFound, MemoryNotYetKnown and PathToItself.
        """
        async with TenantReader.open(self._database, tenant_id, at=at, as_of_time=as_of_time) as reader:
            policy = await reader.policy(self._policies)
            nodes = await _read_start_nodes(reader, memory_names)
            start, goal = (nodes[name].memory_id for name in memory_names)
            if start == goal:
                raise PathToItself
            search = PathSearch(
                start,
                goal,
                link_filter,
                hops=min(policy.path_max_hops, MAX_PATH_HOPS) if hops is None else hops,
                count=count or DEFAULT_PATHS,
            )
            paths = await search.run(reader, has_time=has_time)
            links = await _read_links_of_steps(reader, {step.link_id: step for path in paths for step in path})
            # Paths over a link that was deleted meanwhile are left out.
            paths = [path for path in paths if all(step.link_id in links for step in path)]
            hops_by_memory: dict[UUID, int] = {}
            for path in paths:
                for hop, step in enumerate(path, start=1):
                    hops_by_memory[step.far_id] = min(hop, hops_by_memory.get(step.far_id, hop))
            if hops_by_memory:
                hops_by_memory = {start: 0, **hops_by_memory}
            rows = await reader.rows("get_nodes", memory_ids=list(hops_by_memory), at=reader.at)
        nodes_by_id = {row["memory_id"]: Node(**dict(row), hop=hops_by_memory[row["memory_id"]]) for row in rows}
        return Paths(
            paths=[
                (
                    [start, *(step.far_id for step in path)],
                    [links[step.link_id] for step in path],
                )
                for path in paths
            ],
            nodes=sorted(nodes_by_id.values(), key=lambda node: (node.hop, node.memory_id)),
            truncated=search.truncated,
        )

    async def activate(
        self,
        tenant_id: UUID,
        seeds: Sequence[tuple[str, float]],
        link_filter: LinkFilter,
        *,
        hops: int,
        max_nodes: int,
        at: datetime,
        as_of_time: datetime | None = None,
    ) -> Activation:
        """Spread activation so many hops from seeds: names and strengths.

        Raises MemoryNotFound and MemoryNotYetKnown.
        """
        async with TenantReader.open(self._database, tenant_id, at=at, as_of_time=as_of_time) as reader:
            start_nodes = await _read_start_nodes(reader, [name for name, _ in seeds])
            nodes = list({node.memory_id: node for node in start_nodes.values()}.values())
            traversal = await traverse(reader, nodes, link_filter, hops=hops, max_nodes=max(max_nodes, len(nodes)))
        strengths: dict[UUID, float] = {}
        for name, strength in seeds:
            memory_id = start_nodes[name].memory_id
            strengths[memory_id] = max(strength, strengths.get(memory_id, 0.0))
        steps = [
            (step.near_id, step.far_id, step.relation, step.weight)
            for step in traversal.steps
            if step.far_id in traversal.nodes
        ]
        activations = await run_by_size(hops * len(steps) * _STEP_BYTES, spread_activation, strengths, steps, hops=hops)
        order = sorted(activations, key=lambda memory_id: (-activations[memory_id], memory_id))
        return Activation(
            memories=[(traversal.nodes[memory_id], activations[memory_id]) for memory_id in order],
            truncated=traversal.truncated,
        )

    async def suggest_links(
        self,
        tenant_id: UUID,
        name: str,
        *,
        at: datetime,
        min_score: float | None = None,
        count: int | None = None,
        as_of_time: datetime | None = None,
    ) -> list[Suggestion]:
        """Return memories to link with; the policy has a default for `min_score`.

        Raises MemoryNotFound and MemoryNotYetKnown.
        """
        async with TenantReader.open(self._database, tenant_id, at=at, as_of_time=as_of_time) as reader:
            policy = await reader.policy(self._policies)
            memory_id = (await _read_start_nodes(reader, [name]))[name].memory_id
            tags = (await _read_tags(reader, [memory_id]))[memory_id]
            other_ids = await _find_with_shared_tags(reader, memory_id, tags) if tags else []
            rows = await reader.rows("find_linked", memory_id=memory_id, memory_ids=other_ids)
            linked_ids = {row["memory_id"] for row in rows}
            other_ids = [id_ for id_ in other_ids if id_ not in linked_ids]
            candidates = await _read_candidates(reader, [memory_id, *other_ids], tags) if other_ids else {}
        memory = candidates.pop(memory_id, None)
        if memory is None:
            return []
        threshold = policy.min_link_suggestion_score if min_score is None else min_score
        return suggest(memory, candidates.values(), min_score=threshold, count=count or DEFAULT_SUGGESTIONS)


async def _read_start_nodes(reader: TenantReader, memory_names: Sequence[str]) -> dict[str, Node]:
    """Return the first nodes of a traversal, by name; they may be archived.

    Raises MemoryNotFound and MemoryNotYetKnown.
    """
    rows = await reader.rows_of_memories("get_nodes", memory_names, at=reader.at)
    return {name: Node(**dict(rows[name]), hop=0) for name in dict.fromkeys(memory_names)}


async def _read_links_between(
    reader: TenantReader, memory_ids: Sequence[UUID], link_filter: LinkFilter
) -> tuple[list[Link], bool]:
    """Read the links among memories, strongest first; and whether there are more than _MAX_LINKS."""
    rows = await reader.rows(
        "list_links_among",
        memory_ids=list(memory_ids),
        relations=link_filter.relations,
        min_weight=link_filter.min_weight,
        count=_MAX_LINKS + 1,
    )

    def sort() -> list[Link]:
        links = [Link(**dict(row)) for row in with_pauses(rows[:_MAX_LINKS])]
        return sorted(links, key=lambda link: (-link.weight, -link.link_id.int))

    return await run_by_size(len(rows) * _STEP_BYTES, sort), len(rows) > _MAX_LINKS


async def _read_links_of_steps(reader: TenantReader, steps: Mapping[UUID, Step]) -> dict[UUID, Link]:
    """Read links by their steps; missing ones are left out."""
    rows = await reader.rows(
        "list_links_of_steps",
        link_ids=list(steps),
        near_ids=[step.near_id for step in steps.values()],
        far_ids=[step.far_id for step in steps.values()],
    )
    return {row["link_id"]: Link(**dict(row)) for row in rows}


async def _read_tags(reader: TenantReader, memory_ids: Sequence[UUID]) -> Mapping[UUID, list[str]]:
    rows = await reader.rows("list_tags_of", memory_ids=list(memory_ids), count=_MAX_TAGS)
    return {row["memory_id"]: row["tags"] for row in rows}


async def _find_with_shared_tags(reader: TenantReader, memory_id: UUID, tags: Sequence[str]) -> list[UUID]:
    """Return memories that share tags with one: those with the most shared tags first, then the newest."""
    # The view of then has no index of tags: it is read once for all of them.
    await reader.charge_scan()
    name = "list_sharing" if reader.as_of_time is None else "list_sharing_of_all"
    rows = await reader.rows(name, memory_id=memory_id, tags=list(tags), count=_MAX_MEMORIES_PER_TAG)
    shared_counts = Counter(row["memory_id"] for row in rows)
    return sorted(shared_counts, key=lambda other: (-shared_counts[other], -other.int))[:_MAX_COMPARED]


async def _read_candidates(
    reader: TenantReader, memory_ids: Sequence[UUID], tags: Sequence[str]
) -> dict[UUID, Candidate]:
    rows = await reader.rows("get_candidates", memory_ids=list(memory_ids), tags=list(tags), at=reader.at)
    return {row["memory_id"]: Candidate(**dict(row)) for row in rows}
