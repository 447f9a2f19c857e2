"""Relevance: the probability that a hit helps to answer the query, from the scores of an answer. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

# Coefficients of `relevances`: of whether the best hit answers, and of whether a hit helps to, where it does. The best
# of many items resembles a query by chance: the greatest of n normal values grows with the root of ln n. Tenants
# of 23 to 2,760 documents were measured; smaller and larger ones count as these.
_ANSWER_BASE: Final = 5.66
_ANSWER_OF_SCORE: Final = 37.87
_ANSWER_OF_DOCUMENTS: Final = -6.77
_HIT_BASE: Final = -9.43
_HIT_OF_SCORE: Final = -1.09
_HIT_OF_SHARE: Final = 9.11
_HIT_OF_FIRST: Final = 3.11
_MEASURED_DOCUMENTS: Final = (20, 3000)


def relevances(scores: Sequence[float], *, documents: int) -> list[float]:
    """Return the probability, 0 to 1, that each hit helps to answer the query, from the scores of all hits, best first.

    It is the product of two logistic regressions: that the best hit answers, on its score and on the number of
    `documents` that were searched; and that a hit helps to, on its score, its share of the best one, and the score
    again for the first hit. They were fitted with the default weights and the embedded model:
    docs/internals/recall.md has the data and the plot.
    """
    if not scores:
        return []
    best = scores[0] or 1.0
    least, most = _MEASURED_DOCUMENTS
    chance = math.sqrt(math.log(min(max(documents, least), most)))
    answers = _logistic(_ANSWER_BASE + _ANSWER_OF_SCORE * scores[0] + _ANSWER_OF_DOCUMENTS * chance)
    return [
        answers
        * _logistic(
            _HIT_BASE
            + _HIT_OF_SCORE * score
            + _HIT_OF_SHARE * score / best
            + (_HIT_OF_FIRST * score if index == 0 else 0.0)
        )
        for index, score in enumerate(scores)
    ]


def former_relevances(scores: Sequence[float]) -> list[float]:
    """Return the relevances of the formulas of version 4, for replays: one regression, without the documents."""
    best = scores[0] or 1.0 if scores else 1.0
    return [
        _logistic(-7.24 + 5.77 * score + 3.31 * score / best + (3.78 * score if index == 0 else 0.0))
        for index, score in enumerate(scores)
    ]


def _logistic(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))
