from __future__ import annotations

from fix_catalogue import over

from skein_cluster.bench.exactness import CUTS, Cut, CutMeasure, ExactAnswer, Exactness, ScoredHit


def hit(name: str, score: float = 0.5, relevance: float | None = 0.5) -> ScoredHit:
    return ScoredHit(item_id=name, score=score, relevance=relevance)


def answer(*names: str, evidence: str = "") -> ExactAnswer:
    """Return the answer with these hits, to a question that expects each letter of `evidence`."""
    return ExactAnswer(category="other", evidence=frozenset(evidence), hits=tuple(map(hit, names)))


@over(
    ("exact_answer", "expected"),
    [
        (answer("b", "a", evidence="ab"), (True, 1.0, 1.0)),
        (answer("a", evidence="ab"), (False, 1.0, 0.5)),
        (answer("a", "x", evidence="a"), (False, 0.5, 1.0)),
        (answer("x", evidence="a"), (False, 0.0, 0.0)),
        (answer(evidence="a"), (False, 0.0, 0.0)),
        (answer(), (True, 1.0, None)),
        (answer("x"), (False, 0.0, None)),
    ],
)
def test_an_exact_answer_has_all_of_the_evidence_and_nothing_else(
    exact_answer: ExactAnswer, expected: tuple[bool, float, float | None]
) -> None:
    assert (exact_answer.is_exact, exact_answer.precision, exact_answer.recall) == expected


def test_answers_are_summed_up_and_recall_counts_those_with_evidence() -> None:
    figures = Exactness.of([answer("a", "x", evidence="a"), answer(evidence="a"), answer()])

    assert figures == Exactness(questions=3, exact=1, precision=0.5, recall=0.5, hits=2 / 3, abstention=1.0)
    assert figures.as_json() == {
        "questions": 3, "exact": 1, "precision": 0.5, "recall": 0.5, "mean_hits": 0.67, "abstention": 1.0,
    }  # fmt: skip
    assert Exactness.of([answer()]).recall is None


def test_abstention_counts_the_questions_without_evidence_that_get_no_hit() -> None:
    assert Exactness.of([answer(), answer("x"), answer(evidence="a")]).abstention == 0.5
    assert Exactness.of([answer(evidence="a")]).abstention is None


@over(
    ("cut", "names"),
    [
        (Cut(CutMeasure.RELEVANCE, 0.2), "abd"),
        (Cut(CutMeasure.RELEVANCE, 0.9), "d"),
        (Cut(CutMeasure.RELEVANCE_SHARE, 0.5), "ad"),
        (Cut(CutMeasure.SCORE_SHARE, 0.5), "abc"),
    ],
)
def test_a_cut_leaves_hits_of_its_threshold_and_those_without_relevance(cut: Cut, names: str) -> None:
    hits = (hit("a", 0.8, 0.8), hit("b", 0.6, 0.2), hit("c", 0.4, 0.1), hit("d", 0.3, None))

    assert "".join(one.item_id for one in cut.kept_hits(hits)) == names


def test_a_cut_of_no_hits_leaves_none() -> None:
    assert all(cut.kept_hits(()) == () for cut in CUTS)


def test_an_answer_after_a_cut_may_become_exact() -> None:
    exact_answer = ExactAnswer(category="c", evidence=frozenset("a"), hits=(hit("a", 0.8), hit("b", 0.3)))

    assert not exact_answer.is_exact
    assert exact_answer.after(Cut(CutMeasure.SCORE_SHARE, 0.5)).is_exact
