"""How a sampled search is judged."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from skein_recall.quality.sampler import SampleResult

IDS = [UUID(int=number) for number in range(1, 30)]
NEAREST = {item_id: 0.9 - place / 50 for place, item_id in enumerate(IDS[:20])}


def test_all_of_the_nearest_is_a_recall_of_one() -> None:
    assert SampleResult.of(tuple(IDS[:10]), NEAREST, 10) == SampleResult(recall=1.0, shortfall=0)


def test_missing_neighbours_lower_recall_and_are_a_shortfall() -> None:
    assert SampleResult.of(tuple(IDS[:4]), NEAREST, 10) == SampleResult(recall=0.4, shortfall=6)


def test_farther_neighbours_count_as_missed_but_not_as_short() -> None:
    result = (*IDS[:8], IDS[15], IDS[25])

    assert SampleResult.of(result, NEAREST, 10) == SampleResult(recall=0.8, shortfall=0)


def test_an_equal_in_the_place_of_the_last_is_as_good() -> None:
    nearest = dict.fromkeys(IDS[:20], 0.5)

    assert SampleResult.of(tuple(IDS[10:20]), nearest, 10).recall == 1.0


def test_an_empty_list_misses_nothing() -> None:
    assert SampleResult.of((), {}, 10) == SampleResult(recall=1.0, shortfall=0)


@given(st.permutations(IDS), st.integers(0, 29), st.integers(1, 20))
def test_a_verdict_is_bounded(order: list[UUID], true_count: int, limit: int) -> None:
    verdict = SampleResult.of(tuple(order[:true_count]), NEAREST, limit)

    assert 0 <= verdict.recall <= 1
    assert 0 <= verdict.shortfall <= limit
