"""Scores: bounded, additive, comparable between calls, stable."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skein_recall.ranking import WEIGHTS, Candidate, rank, weights


def candidate(number: int, *, similarity: float | None = None, bm25: float = 0.0) -> Candidate:
    return Candidate(item_id=UUID(int=number), kind="memory", similarity=similarity, bm25=bm25)


CANDIDATES = st.lists(
    st.builds(
        candidate,
        st.integers(min_value=0, max_value=2**64),
        similarity=st.none() | st.floats(min_value=-1, max_value=1),
        bm25=st.floats(min_value=0, max_value=20),
    ),
    unique_by=lambda value: value.item_id,
    max_size=30,
)


def test_the_weights_sum_to_1_whatever_signals_there_are() -> None:
    assert sum(WEIGHTS.values()) == pytest.approx(1)
    assert sum(weights(dense=True, lexical=True).values()) == pytest.approx(1)
    assert weights(dense=True, lexical=False) == {"dense": 1}
    assert weights(dense=False, lexical=True) == {"lexical": 1}
    assert weights(dense=False, lexical=False) == {}


@given(
    candidates=CANDIDATES,
    dense=st.booleans(),
    max_bm25=st.floats(min_value=0, max_value=40),
    limit=st.integers(min_value=1, max_value=20),
)
def test_a_score_is_the_sum_of_its_components_and_lies_between_0_and_1(
    *, candidates: list[Candidate], dense: bool, max_bm25: float, limit: int
) -> None:
    best = rank(candidates, dense=dense, max_bm25=max_bm25, limit=limit)

    assert len(best) == min(limit, len(candidates))
    for ranked in best:
        assert 0 <= ranked.score <= 1 + 1e-9
        assert ranked.score == pytest.approx(sum(part.weight * part.value for part in ranked.components))
        assert all(0 <= part.value <= 1 for part in ranked.components)
    assert [ranked.score for ranked in best] == sorted((ranked.score for ranked in best), reverse=True)


@given(CANDIDATES, st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_how_the_candidates_came(candidates: list[Candidate], random: object) -> None:
    shuffled = list(candidates)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis's own Random

    first = rank(candidates, dense=True, max_bm25=10, limit=5)

    assert rank(shuffled, dense=True, max_bm25=10, limit=5) == first


def test_equal_scores_are_ordered_by_id() -> None:
    best = rank([candidate(n, similarity=0.5) for n in (3, 1, 2)], dense=True, max_bm25=0, limit=3)

    assert [ranked.candidate.item_id.int for ranked in best] == [1, 2, 3]


def test_a_score_does_not_depend_on_the_other_candidates() -> None:
    one = candidate(1, similarity=0.4, bm25=3)
    others = [candidate(n, similarity=0.1 * n, bm25=n) for n in range(2, 9)]

    (alone,) = rank([one], dense=True, max_bm25=12, limit=1)
    among = rank([one, *others], dense=True, max_bm25=12, limit=9)

    assert alone.score in [ranked.score for ranked in among if ranked.candidate is one]


def test_places_are_counted_per_signal_among_what_it_found() -> None:
    best = rank(
        [candidate(1, similarity=0.9), candidate(2, bm25=4), candidate(3, similarity=0.2, bm25=9)],
        dense=True,
        max_bm25=10,
        limit=3,
    )

    places = {ranked.candidate.item_id.int: {part.signal: part.rank for part in ranked.components} for ranked in best}
    assert places == {
        1: {"dense": 1, "lexical": 0},
        2: {"dense": 0, "lexical": 2},
        3: {"dense": 2, "lexical": 1},
    }


def test_min_similarity_leaves_out_what_is_below_and_what_has_no_vector() -> None:
    given_ = [candidate(1, similarity=0.5), candidate(2, similarity=0.49, bm25=9), candidate(3, bm25=9)]

    best = rank(given_, dense=True, max_bm25=10, limit=3, min_similarity=0.5)

    assert [ranked.candidate.item_id.int for ranked in best] == [1]


def test_an_item_without_a_vector_never_comes_first_for_that() -> None:
    best = rank([candidate(1), candidate(2, similarity=0.01)], dense=True, max_bm25=0, limit=2)

    assert [ranked.candidate.item_id.int for ranked in best] == [2, 1]
