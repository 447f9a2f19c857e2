from __future__ import annotations

import re

from skein_cluster.bench.curve import THRESHOLDS, relevance_curve, svg
from skein_cluster.bench.exactness import ExactAnswer, ScoredHit


def answer(evidence: str, **relevances: float) -> ExactAnswer:
    hits = tuple(ScoredHit(item_id=name, score=value, relevance=value) for name, value in relevances.items())
    return ExactAnswer(category="other", evidence=frozenset(evidence), hits=hits)


ANSWERS = [answer("a", a=0.6, x=0.04), answer("b", x=0.25, b=0.15), answer("", x=0.25)]


def test_a_cut_trades_recall_for_precision_and_abstention() -> None:
    points = {point.threshold: point.figures for point in relevance_curve(ANSWERS)}

    assert tuple(points) == THRESHOLDS
    assert (points[0.0].recall, points[0.0].precision, points[0.0].abstention) == (1.0, 1 / 3, 0.0)
    assert (points[0.1].recall, points[0.1].precision, points[0.1].abstention) == (1.0, 0.5, 0.0)
    assert (points[0.3].recall, points[0.3].precision, points[0.3].abstention) == (0.5, 2 / 3, 1.0)
    assert (points[0.9].recall, points[0.9].hits) == (0.0, 0.0)


def test_the_drawing_has_a_line_for_each_share_that_exists() -> None:
    def names(answers: list[ExactAnswer]) -> list[str]:
        return re.findall(r'style="fill:[^"]*">(\w+)<', svg(relevance_curve(answers), "a & b"))

    assert names(ANSWERS) == ["recall", "precision", "abstention"]
    assert names(ANSWERS[:2]) == ["recall", "precision"]
    assert "a &amp; b" in svg(relevance_curve(ANSWERS), "a & b")


def test_without_answers_there_is_no_curve() -> None:
    assert relevance_curve([]) == []
