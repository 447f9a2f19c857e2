from __future__ import annotations

import uuid
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from skein_memory.graph.model import SearchBudget, Step, StepGraph, infer_links, shortest_paths

NAMES = [uuid.UUID(int=number) for number in range(8)]
LINKS = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 7), st.sampled_from([0.0, 0.5, 1.0])).filter(
        lambda link: link[0] != link[1]
    ),
    max_size=40,
)


def roads_of(links: list[tuple[int, int, float]]) -> StepGraph:
    roads = StepGraph()
    for number, (start, end, weight) in enumerate(links):
        roads.add(Step(NAMES[start], NAMES[end], uuid.UUID(int=1000 + number), "related", weight))
    return roads


def every_path(links: list[tuple[int, int, float]], start: int, goal: int, hops: int) -> set[tuple[int, ...]]:
    """Return all simple paths, the plain way."""
    ahead = {(a, b) for a, b, _ in links}
    results: set[tuple[int, ...]] = set()
    waiting: list[tuple[int, ...]] = [(start,)]
    while waiting:
        path = waiting.pop()
        for node in range(len(NAMES)):
            if (path[-1], node) in ahead and node not in path:
                if node == goal:
                    results.add((*path, node))
                elif len(path) < hops:
                    waiting.append((*path, node))
    return results


@given(links=LINKS, hops=st.integers(1, 7), count=st.integers(1, 30))
def test_the_paths_are_the_shortest_of_all_simple_ones(
    links: list[tuple[int, int, float]], hops: int, count: int
) -> None:
    paths = shortest_paths(
        roads_of(links), NAMES[0], NAMES[1], hops=hops, count=count, budget=SearchBudget(remaining=100_000)
    )

    results = [(0, *(NAMES.index(step.far_id) for step in path)) for path in paths]
    every = every_path(links, 0, 1, hops)
    assert len(results) == len(set(results)) == min(count, len(every))
    assert set(results) <= every
    assert [len(path) for path in results] == sorted(map(len, every))[: len(results)]
    assert all(a.far_id == b.near_id for path in paths for a, b in pairwise(path))


def test_the_strongest_of_several_links_is_taken_and_stronger_paths_come_first() -> None:
    roads = roads_of([(0, 2, 0.5), (0, 2, 1.0), (2, 1, 1.0), (0, 3, 0.9), (3, 1, 1.0)])

    first, second = shortest_paths(roads, NAMES[0], NAMES[1], hops=2, count=5, budget=SearchBudget(remaining=100))

    assert [step.weight for step in first] == [1.0, 1.0]
    assert [step.weight for step in second] == [0.9, 1.0]


def test_a_search_ends_with_its_budget() -> None:
    complete_links = [(a, b, 1.0) for a in range(8) for b in range(8) if a != b]
    budget = SearchBudget(remaining=50)

    actual_shortest_paths = shortest_paths(
        roads_of(complete_links), NAMES[0], NAMES[1], hops=7, count=1000, budget=budget
    )

    assert budget.is_spent
    assert 0 < len(actual_shortest_paths) < 50


def test_links_are_inferred_from_shared_tags_those_with_the_most_first() -> None:
    a, b, c, d = NAMES[:4]
    tags = {a: ["x", "y"], b: ["x", "y", "z"], c: ["z"], d: []}

    result, more = infer_links(tags, set(), max_count=10)

    assert [(one.from_memory_id, one.to_memory_id, one.shared_tags) for one in result] == [
        (a, b, ("x", "y")),
        (b, c, ("z",)),
    ]
    assert not more
    assert infer_links(tags, set(), max_count=1) == (result[:1], True)
    assert infer_links(tags, {frozenset((b, a))}, max_count=10) == (result[1:], False)
