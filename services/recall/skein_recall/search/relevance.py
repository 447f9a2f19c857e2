"""Relevance: the probability that a hit helps to answer the query, from the scores of an answer. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from skein_recall.embedded_model.descriptions import E5_SMALL, MINILM
from skein_recall.search.weights import OLDEST_VERSION, OTHER_MODELS_VERSION, TOKENS_VERSION, VERSION


@dataclass(frozen=True, kw_only=True, slots=True)
class Coefficients:
    """Coefficients of `relevances`: of whether the best hit answers, and of whether a hit helps to, where it does."""

    answer_base: float
    answer_of_score: float
    answer_of_documents: float
    answer_of_nearest: float = 0.0
    answer_of_unknown_names: float = 0.0
    hit_base: float
    hit_of_score: float
    hit_of_share: float
    hit_of_first: float


# By the version of the formula and the embedded model. Those of 5 and 6 are for replays.
COEFFICIENTS: Final = {
    (5, MINILM.name): Coefficients(
        answer_base=5.66,
        answer_of_score=37.87,
        answer_of_documents=-6.77,
        hit_base=-9.43,
        hit_of_score=-1.09,
        hit_of_share=9.11,
        hit_of_first=3.11,
    ),
    (6, MINILM.name): Coefficients(
        answer_base=2.60,
        answer_of_score=25.56,
        answer_of_documents=-5.04,
        hit_base=-8.76,
        hit_of_score=0.18,
        hit_of_share=8.21,
        hit_of_first=2.20,
    ),
    (7, MINILM.name): Coefficients(
        answer_base=-4.29,
        answer_of_score=3.57,
        answer_of_documents=0.67,
        answer_of_nearest=5.36,
        answer_of_unknown_names=-4.55,
        hit_base=-7.42,
        hit_of_score=0.27,
        hit_of_share=6.74,
        hit_of_first=2.89,
    ),
    (8, MINILM.name): Coefficients(
        answer_base=-3.17,
        answer_of_score=7.98,
        answer_of_documents=-0.60,
        answer_of_nearest=4.24,
        answer_of_unknown_names=-4.21,
        hit_base=-8.67,
        hit_of_score=0.23,
        hit_of_share=8.08,
        hit_of_first=2.36,
    ),
    (9, E5_SMALL.name): Coefficients(
        answer_base=-22.11,
        answer_of_score=7.58,
        answer_of_documents=-2.43,
        answer_of_nearest=30.11,
        answer_of_unknown_names=-2.56,
        hit_base=-7.30,
        hit_of_score=-0.07,
        hit_of_share=6.40,
        hit_of_first=4.28,
    ),
}
# The best of many items resembles a query by chance: the greatest of n normal values grows with the root of ln n.
# Tenants of 23 to 2,760 documents were measured; smaller and larger ones count as these.
_MEASURED_DOCUMENTS: Final = (20, 3000)


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """What tells, beside the scores, whether a tenant can answer a query."""

    # That were searched.
    documents: int
    # The greatest cosine of the query with one of them.
    nearest: float = 0.0
    # Share of the query's names that no document has.
    unknown_names: float = 0.0


def version_for(model: str, *, with_tokens: bool) -> int:
    """Return the version of today's formula for a model, by whose name its coefficients are found."""
    if with_tokens:
        return TOKENS_VERSION
    return OTHER_MODELS_VERSION if is_fitted(OTHER_MODELS_VERSION, model) else VERSION


def is_fitted(version: int, model: str) -> bool:
    """Return whether relevance is known of hits by a version of the formula and a model."""
    return (version, model) in COEFFICIENTS or (version, model) == (OLDEST_VERSION, MINILM.name)


def relevances(scores: Sequence[float], evidence: Evidence, version: int, model: str) -> list[float]:
    """Return the probability, 0 to 1, that each hit helps to answer the query, from the scores of all hits, best first.

    It is the product of two logistic regressions: that the best hit answers, on its score and on the `evidence`; and
    that a hit helps to, on its score, its share of the best one, and the score again for the first hit. They were
    fitted with the default weights, to each model by itself: docs/internals/recall.md has the data and the plot.
    """
    if not scores:
        return []
    if version == OLDEST_VERSION:
        return _oldest_relevances(scores)
    best = scores[0] or 1.0
    least, most = _MEASURED_DOCUMENTS
    chance = math.sqrt(math.log(min(max(evidence.documents, least), most)))
    of = COEFFICIENTS[version, model]
    answers = _logistic(
        of.answer_base
        + of.answer_of_score * scores[0]
        + of.answer_of_documents * chance
        + of.answer_of_nearest * evidence.nearest
        + of.answer_of_unknown_names * evidence.unknown_names
    )
    return [
        answers
        * _logistic(
            of.hit_base
            + of.hit_of_score * score
            + of.hit_of_share * score / best
            + (of.hit_of_first * score if index == 0 else 0.0)
        )
        for index, score in enumerate(scores)
    ]


def _oldest_relevances(scores: Sequence[float]) -> list[float]:
    """Return the relevances of the formulas of version 4, for replays: one regression, without the documents."""
    best = scores[0] or 1.0
    return [
        _logistic(-7.24 + 5.77 * score + 3.31 * score / best + (3.78 * score if index == 0 else 0.0))
        for index, score in enumerate(scores)
    ]


def _logistic(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))
