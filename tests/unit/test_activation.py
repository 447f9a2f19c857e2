from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skein_memory.graph.activation import RELATION_FACTORS, spread_activation

Links = list[tuple[int, int, str, float]]

NODES = st.integers(min_value=0, max_value=7)
UNIT = st.floats(min_value=0, max_value=1)
SEEDS = st.dictionaries(NODES, UNIT, min_size=1, max_size=4)


def links(relations: list[str]) -> st.SearchStrategy[Links]:
    one = st.tuples(NODES, NODES, st.sampled_from(relations), UNIT)
    return st.lists(one.filter(lambda link: link[0] != link[1]), max_size=30)


ANY = links([*RELATION_FACTORS, "a relation of the tenant's own"])
POSITIVE = links([relation for relation, carried in RELATION_FACTORS.items() if carried > 0])


def test_a_hop_multiplies_by_relation_weight_and_damping_and_a_further_one_fades() -> None:
    result = spread_activation({1: 1.0}, [(1, 2, "supports", 0.5), (2, 3, "causes", 1.0)], hops=2)

    first = 0.88 * 0.5 * 0.74
    assert result == {1: 1.0, 2: round(first, 6), 3: round(first * 0.82 * 0.74 * 0.78, 6)}


def test_it_goes_as_far_as_its_hops() -> None:
    chain = [(node, node + 1, "related", 1.0) for node in range(6)]

    assert set(spread_activation({0: 1.0}, chain, hops=3)) == {0, 1, 2, 3}
    assert set(spread_activation({0: 1.0}, chain, hops=0)) == {0}


def test_a_relation_of_the_tenant_s_own_carries_what_related_does() -> None:
    assert spread_activation({1: 1.0}, [(1, 2, "mentors", 1.0)], hops=1) == spread_activation(
        {1: 1.0}, [(1, 2, "related", 1.0)], hops=1
    )


def test_a_contradicted_memory_is_inhibited_and_passes_nothing_on() -> None:
    result = spread_activation({1: 1.0}, [(1, 2, "contradicts", 1.0), (2, 3, "supports", 1.0)], hops=2)

    assert result == {1: 1.0, 2: round(-0.75 * 0.74, 6)}


def test_nothing_flows_straight_back() -> None:
    both_ways = [(1, 2, "supports", 1.0), (2, 1, "supports", 1.0)]

    assert spread_activation({1: 0.5}, both_ways, hops=4)[1] == 0.5


def test_activation_from_several_links_adds_up() -> None:
    one = spread_activation({1: 0.4}, [(1, 3, "related", 1.0)], hops=1)[3]

    both = spread_activation({1: 0.4, 2: 0.4}, [(1, 3, "related", 1.0), (2, 3, "related", 1.0)], hops=1)[3]

    assert both == pytest.approx(2 * one, abs=1e-5)


@given(seeds=SEEDS, links=ANY, hops=st.integers(min_value=0, max_value=4))
def test_activation_is_bounded_and_always_the_same(seeds: dict[int, float], links: Links, hops: int) -> None:
    result = spread_activation(seeds, links, hops=hops)

    assert all(-1 <= value <= 1 for value in result.values())
    assert spread_activation(seeds, links, hops=hops) == result
    assert result.keys() >= seeds.keys()


@pytest.mark.system
@given(seeds=SEEDS, links=POSITIVE, more=st.tuples(NODES, UNIT), hops=st.integers(min_value=1, max_value=4))
def test_a_stronger_seed_makes_nothing_less_active_where_no_link_contradicts(
    seeds: dict[int, float], links: Links, more: tuple[int, float], hops: int
) -> None:
    node, strength = more
    stronger = {**seeds, node: max(strength, seeds.get(node, 0.0))}

    before, after = spread_activation(seeds, links, hops=hops), spread_activation(stronger, links, hops=hops)

    assert all(after[reached] >= value - 1e-5 for reached, value in before.items())


@given(seeds=SEEDS, links=ANY, hops=st.integers(min_value=1, max_value=4))
def test_seeds_without_strength_activate_nothing(seeds: dict[int, float], links: Links, hops: int) -> None:
    result = spread_activation(dict.fromkeys(seeds, 0.0), links, hops=hops)

    assert set(result.values()) == {0.0}
