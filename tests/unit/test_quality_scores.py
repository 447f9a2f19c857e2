from __future__ import annotations

import math

import pytest
from fix_catalogue import over

from skein_cluster.bench.measures import (
    MEASURES,
    RANK_MEASURES,
    SESSION_MEASURES,
    ScoredQuestion,
    ablation_loss,
    by_category,
    means,
    measures_within,
    ndcg_at,
    recall_at,
    reciprocal_rank,
    summary,
)

# Of 12 hits the evidence is the 2nd, the 7th and the 12th; a fourth piece is not found.
FOUND = tuple(f"hit {place}" for place in range(1, 13))
EVIDENCE = frozenset({"hit 2", "hit 7", "hit 12", "elsewhere"})


def scored_question(
    *hit_ids: str, category: str = "temporal", evidence: frozenset[str] = frozenset({"a"})
) -> ScoredQuestion:
    return ScoredQuestion(category=category, evidence=evidence, hit_ids=hit_ids)


@over(("depth", "expected"), [(1, 0.0), (5, 0.25), (10, 0.5), (25, 0.75)])
def test_recall_is_the_share_of_the_evidence_among_the_first_hits(depth: int, expected: float) -> None:
    assert recall_at(depth, EVIDENCE, FOUND) == expected


def test_the_reciprocal_rank_is_that_of_the_first_evidence() -> None:
    assert reciprocal_rank(scored_question(*FOUND, evidence=EVIDENCE)) == 0.5
    assert reciprocal_rank(scored_question("x", "y", "a")) == pytest.approx(1 / 3)
    assert reciprocal_rank(scored_question("x", "y")) == 0.0
    assert reciprocal_rank(scored_question()) == 0.0


def test_the_discounted_gain_is_a_share_of_the_best_order() -> None:
    best = 1 + 1 / math.log2(3)

    assert ndcg_at(5, frozenset({"a", "b"}), ("a", "b")) == 1.0
    assert ndcg_at(5, frozenset({"a", "b"}), ("x", "a", "y", "b")) == pytest.approx(
        (1 / math.log2(3) + 1 / math.log2(5)) / best
    )
    # At depth 2 no more than two of three pieces can be found.
    assert ndcg_at(2, frozenset({"a", "b", "c"}), ("b", "a", "c")) == 1.0
    assert ndcg_at(2, frozenset({"c"}), ("b", "a", "c")) == 0.0
    assert ndcg_at(5, frozenset(), ()) == 1.0


def test_a_summary_may_have_other_measures() -> None:
    found = summary([scored_question("x", "a")], seed=1, measures=("recall@20", *RANK_MEASURES))

    assert {name: round(mean.value, 3) for name, mean in found.items()} == {
        "recall@20": 1.0,
        "mrr": 0.5,
        "ndcg@5": 0.631,
        "ndcg@10": 0.631,
        "ndcg@20": 0.631,
    }


def test_sessions_count_when_any_of_them_or_all_of_them_are_found() -> None:
    asked = scored_question(*"vwxya", "b", evidence=frozenset("ab"))

    assert dict(zip(SESSION_MEASURES, asked.scores(SESSION_MEASURES), strict=True)) == {
        "recall_any@5": 1.0,
        "recall_any@10": 1.0,
        "recall_all@5": 0.0,
        "recall_all@10": 1.0,
    }
    assert scored_question("x").scores(SESSION_MEASURES) == (0.0, 0.0, 0.0, 0.0)


def test_measures_deeper_than_an_answer_are_left_out() -> None:
    assert measures_within(10, MEASURES) == ("recall@5", "recall@10", "mrr")
    assert measures_within(1, RANK_MEASURES) == ("mrr",)


def test_a_question_without_evidence_is_answered_by_anything() -> None:
    assert scored_question("x", evidence=frozenset()).scores() == (1.0, 1.0, 1.0, 1.0)
    assert scored_question(evidence=frozenset()).scores() == (1.0, 1.0, 1.0, 1.0)


def test_a_repeated_hit_counts_once() -> None:
    assert recall_at(5, frozenset({"a", "b"}), ("a", "a", "a")) == 0.5


def test_a_summary_is_the_mean_over_questions() -> None:
    # recall@5: 1, 0, 1; reciprocal ranks: 1, 1/6, 1/4.
    result = summary([scored_question("a"), scored_question(*"vwxyz", "a"), scored_question(*"xyz", "a")], seed=1)

    assert tuple(result) == MEASURES
    assert result["recall@5"].value == pytest.approx(2 / 3)
    assert result["recall@10"].value == 1.0
    assert result["mrr"].value == pytest.approx((1 + 1 / 6 + 1 / 4) / 3)


def test_an_interval_holds_the_mean_and_repeats_with_its_seed() -> None:
    rows = [[float(number % 2), number / 100] for number in range(100)]

    mean, finer = means(rows, seed=7)

    # The standard error of 100 throws of a coin is 0.05: nearly twice that to each side.
    assert mean.value == 0.5
    assert mean.low == pytest.approx(0.4, abs=0.03)
    assert mean.high == pytest.approx(0.6, abs=0.03)
    assert means(rows, seed=7) == [mean, finer]
    assert means(rows, seed=8) != [mean, finer]


def test_constant_values_have_no_width_and_no_values_have_no_mean() -> None:
    (mean,) = means([[0.25]] * 3, seed=1)

    assert (mean.value, mean.low, mean.high) == (0.25, 0.25, 0.25)
    assert means([], seed=1) == []
    assert summary([], seed=1) == {}


def test_questions_are_sorted_into_their_categories() -> None:
    first, second, third = scored_question("x"), scored_question("y", category="adversarial"), scored_question("z")

    assert list(by_category([first, second, third]).items()) == [
        ("adversarial", [second]),
        ("temporal", [first, third]),
    ]


def test_worth_is_the_loss_question_by_question() -> None:
    # Of two questions one loses its evidence and the other finds it two places later: at 5, recall falls by 1 and 0.
    lost = ablation_loss(
        [scored_question("a"), scored_question("x", "a")],
        [scored_question("x"), scored_question("x", "y", "z", "a")],
        seed=1,
    )

    assert lost["recall@5"].value == 0.5
    assert lost["mrr"].value == pytest.approx(((1 - 0) + (1 / 2 - 1 / 4)) / 2)
    assert (lost["recall@5"].low, lost["recall@5"].high) == (0.0, 1.0)
