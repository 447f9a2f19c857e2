"""FindPaths and TraverseLinks against the plain way of doing it, on random small graphs."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from fix_cluster import Tenant

from skein.memory.v1 import memory_pb2 as pb

NODES = 9
RELATIONS = ("related", "causes", "supports")
DIRECTIONS = (pb.LINK_DIRECTION_UNSPECIFIED, pb.LINK_DIRECTION_OUTGOING, pb.LINK_DIRECTION_INCOMING)


@dataclass(frozen=True)
class RandomGraph:
    """A random graph: its links as (from, to, relation, weight)."""

    links: frozenset[tuple[int, int, str, float]]

    @classmethod
    def of(cls, seed: int) -> RandomGraph:
        chance = random.Random(seed)
        link_count = chance.randint(4, 26)
        results: dict[tuple[int, int, str], float] = {}
        while len(results) < link_count:
            start, end = chance.sample(range(NODES), 2)
            results[start, end, chance.choice(RELATIONS)] = chance.choice([0.25, 0.5, 1.0])
        return cls(links=frozenset((*pair, weight) for pair, weight in results.items()))

    def steps(self, link_filter: pb.LinkFilter) -> set[tuple[int, int]]:
        """Return from where to where a walk may step."""
        able = {
            (start, end)
            for start, end, relation, weight in self.links
            if relation in (link_filter.relations or RELATIONS) and weight >= link_filter.min_weight
        }
        back = {(end, start) for start, end in able}
        if link_filter.direction == pb.LINK_DIRECTION_OUTGOING:
            return able
        return back if link_filter.direction == pb.LINK_DIRECTION_INCOMING else able | back

    def paths(self, start: int, goal: int, hops: int, link_filter: pb.LinkFilter) -> set[tuple[int, ...]]:
        """Return every simple path."""
        steps = self.steps(link_filter)
        results: set[tuple[int, ...]] = set()
        waiting: list[tuple[int, ...]] = [(start,)]
        while waiting:
            path = waiting.pop()
            for node in set(range(NODES)) - set(path):
                if (path[-1], node) in steps:
                    if node == goal:
                        results.add((*path, node))
                    elif len(path) < hops:
                        waiting.append((*path, node))
        return results

    def within(self, start: int, hops: int, link_filter: pb.LinkFilter) -> dict[int, int]:
        """Return what is met within so many hops, and how far away it is."""
        steps, results = self.steps(link_filter), {start: 0}
        for hop in range(1, hops + 1):
            near = [node for node, away in results.items() if away == hop - 1]
            for end in {end for node in near for start_, end in steps if start_ == node}:
                results.setdefault(end, hop)
        return results


async def stored(tenant: Tenant, graph: RandomGraph) -> list[str]:
    """Store a graph; return the ids of its memories."""
    request = pb.BatchCreateMemoriesRequest(memories=[pb.Memory(content=f"number {n}") for n in range(NODES)])
    ids = [memory.memory_id for memory in (await tenant.memory.BatchCreateMemories(request)).memories]
    links = [
        pb.Link(from_memory_id=ids[start], to_memory_id=ids[end], relation=relation, weight=weight)
        for start, end, relation, weight in sorted(graph.links)
    ]
    await tenant.links.BatchCreateLinks(pb.BatchCreateLinksRequest(links=links))
    return ids


def questions(seed: int) -> list[tuple[int, int, pb.LinkFilter]]:
    chance = random.Random(seed)
    return [
        (
            hops,
            count,
            pb.LinkFilter(
                direction=direction,
                relations=chance.sample(RELATIONS, chance.randint(0, 2)),
                min_weight=chance.choice([0.0, 0.0, 0.5]),
            ),
        )
        for direction in DIRECTIONS
        for hops, count in ((chance.randint(1, 8), 20), (8, chance.randint(1, 20)))
    ]


@pytest.mark.parametrize("seed", range(10))
async def test_the_paths_found_are_the_shortest_simple_ones(tenant: Tenant, seed: int) -> None:
    graph = RandomGraph.of(seed)
    ids = await stored(tenant, graph)
    for hops, count, expected in questions(seed):
        request = pb.FindPathsRequest(
            from_memory_id=ids[0], to_memory_id=ids[1], max_hops=hops, max_paths=count, filter=expected
        )

        answer = await tenant.links.FindPaths(request)

        every = graph.paths(0, 1, hops, expected)
        results = [tuple(ids.index(memory_id) for memory_id in path.memory_ids) for path in answer.paths]
        assert len(results) == len(set(results)) == min(count, len(every))
        assert set(results) <= every
        assert [len(path) for path in results] == sorted(map(len, every))[: len(results)]
        assert answer.truncated == (len(every) > count)
        assert await tenant.links.FindPaths(request) == answer
        for path in answer.paths:
            for link, start, end in zip(path.links, path.memory_ids, path.memory_ids[1:], strict=False):
                assert {link.from_memory_id, link.to_memory_id} == {start, end}


@pytest.mark.parametrize("seed", range(10, 16))
async def test_a_walk_meets_everything_within_its_hops_and_nothing_else(tenant: Tenant, seed: int) -> None:
    graph = RandomGraph.of(seed)
    ids = await stored(tenant, graph)
    for hops, _, expected in questions(seed):
        hops_ = min(hops, 4)

        answer = await tenant.links.TraverseLinks(
            pb.TraverseLinksRequest(memory_id=ids[0], hops=hops_, filter=expected)
        )

        results = {ids.index(node.memory_id): node.hop for node in answer.nodes}
        assert results == graph.within(0, hops_, expected)
        assert not answer.truncated
        among = {
            (start, end, relation)
            for start, end, relation, weight in graph.links
            if {start, end} <= set(results)
            and relation in (expected.relations or RELATIONS)
            and weight >= expected.min_weight
        }
        returned_links = {
            (ids.index(link.from_memory_id), ids.index(link.to_memory_id), link.relation) for link in answer.links
        }
        assert returned_links == among
