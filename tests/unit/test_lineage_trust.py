"""Trust along chains: the weakest link of a chain, and chains that confirm each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skein_memory.lineage.model import (
    MAX_CONFIRMED_TRUST,
    Graph,
    ImpactFinder,
    Node,
    Source,
    TrustCalculator,
    combine,
    node_keys,
)

TRUSTS = st.floats(0, 1, allow_nan=False)


def memory_id(number: int) -> UUID:
    return UUID(int=number)


def of(number: int, **fields: object) -> Source:
    return Source(kind="memory", source_id=memory_id(number), **fields)  # type: ignore[arg-type]


def said(name: str) -> Source:
    return Source(kind="agent", name=name)


def trust(
    memories: Mapping[int, Sequence[Source]],
    ratings: Mapping[str, float],
    *,
    writers: Mapping[int, str] | None = None,
    of_memory: int = 1,
) -> float:
    nodes = {
        ("memory", memory_id(number)): Node(keys=node_keys((writers or {}).get(number)), sources=tuple(sources))
        for number, sources in memories.items()
    }
    for sources in memories.values():
        for source in sources:
            if source.name is not None:
                nodes[source.node] = Node(keys=node_keys(source.name))  # type: ignore[index]
    return TrustCalculator(Graph(nodes=nodes, ratings=ratings)).trust(("memory", memory_id(of_memory)))  # type: ignore[arg-type]


def test_a_source_that_was_replaced_counts_no_more() -> None:
    memories = {1: [of(2, role="replaced"), of(3)], 2: [said("liar")], 3: [said("witness")]}

    assert trust(memories, {"liar": 0.0, "witness": 0.9}) == 0.9


def test_without_ratings_everything_is_neutral() -> None:
    assert trust({1: [of(2), of(3), said("x")], 2: [said("y")], 3: []}, {}) == 0.5


@given(st.lists(TRUSTS, min_size=1, max_size=6))
def test_trust_never_leaves_its_range_and_a_distrusted_part_decides(values: list[float]) -> None:
    result = combine(values)

    assert 0 <= result <= 1
    if min(values) < 0.5:
        assert result == min(values)
    else:
        assert max(values) <= result <= max(MAX_CONFIRMED_TRUST, *values)


@given(st.lists(st.floats(0.5, 1), min_size=1, max_size=5), st.permutations(range(5)))
def test_the_order_of_chains_does_not_matter(values: list[float], order: list[int]) -> None:
    shuffled = [values[place] for place in order if place < len(values)]

    assert combine(shuffled) == pytest.approx(combine(values))


@given(st.floats(0.5, 1))
def test_neutral_chains_confirm_nothing(value: float) -> None:
    assert combine([value, 0.5, 0.5]) == pytest.approx(value)


def test_one_origin_on_two_ways_counts_once_and_by_its_weaker_way() -> None:
    memories = {1: [of(2), of(3)], 2: [said("clinic")], 3: [said("clinic")]}

    assert trust(memories, {"clinic": 0.8}) == 0.8
    assert trust(memories, {"clinic": 0.8, "mallory": 0.1}, writers={3: "mallory"}) == 0.1


@given(st.integers(1, 30), TRUSTS)
def test_a_long_chain_is_worth_its_weakest_link(length: int, weakest: float) -> None:
    memories: dict[int, list[Source]] = {number: [of(number + 1)] for number in range(1, length + 1)}
    memories[length + 1] = [said("clinic")]

    result = trust(memories, {"clinic": 0.9, "someone": weakest}, writers={1 + length // 2: "someone"})

    assert result == pytest.approx(min(0.9, weakest))


def test_a_copy_takes_nothing_and_a_trusted_copy_confirms() -> None:
    base = {1: [said("clinic"), of(2, role="repeat")], 2: []}

    assert trust(base, {"clinic": 0.8, "mallory": 0.1}, writers={2: "mallory"}) == 0.8
    assert trust(base, {"clinic": 0.8, "school": 0.8}, writers={2: "school"}) == pytest.approx(0.92)
    assert trust(base, {"school": 0.8, "mallory": 0.1}, writers={1: "mallory", 2: "school"}) == 0.8


def test_what_was_replaced_counts_for_nothing() -> None:
    memories = {1: [of(2, role="replaced")], 2: []}

    assert trust(memories, {"mallory": 0.1}, writers={2: "mallory"}) == 0.5


def test_an_erased_source_keeps_no_more_than_the_neutral_trust() -> None:
    assert trust({1: [of(9, erased_trust=0.9)]}, {}) == 0.5
    assert trust({1: [of(9, erased_trust=0.1)]}, {}) == 0.1


def test_impact_follows_every_role_but_not_the_writer_of_something_else() -> None:
    first, second = ("memory", memory_id(1)), ("memory", memory_id(2))
    nodes = {
        first: Node(keys=("alice",), sources=(of(2, role="replaced"),)),
        second: Node(keys=("mallory",), sources=()),
    }
    graph = Graph(nodes=nodes, ratings={})  # type: ignore[arg-type]

    assert ImpactFinder(graph, {("agent", "mallory")}).is_impacted(first)
    assert ImpactFinder(graph, {second}).is_impacted(first)
    assert not ImpactFinder(graph, {("agent", "alice")}).is_impacted(second)
