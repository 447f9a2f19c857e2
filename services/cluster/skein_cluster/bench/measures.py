"""Measures of answers: recall and NDCG at k, reciprocal ranks, and confidence intervals of their means. Pure."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

DEPTHS = (5, 10, 25)
# The name of the mean reciprocal rank; the others are "recall@5", ...
MRR = "mrr"
MEASURES = (*(f"recall@{depth}" for depth in DEPTHS), MRR)
# Measures of a corpus: shares of what is found, and how high it ranks.
RECALL_MEASURES = ("recall@5", "recall@10", "recall@20", "recall@25")
RANK_MEASURES = (MRR, "ndcg@5", "ndcg@10", "ndcg@20")
# Of sessions, as LongMemEval counts them: any answering session among the first k, or all of them.
SESSION_MEASURES = ("recall_any@5", "recall_any@10", "recall_all@5", "recall_all@10")
# One of 40 resamples lies below the interval, and one above.
_TAIL = 0.025
_RESAMPLES = 1000


class Categorized(Protocol):
    """What belongs to a category."""

    @property
    def category(self) -> str:
        """Return its name."""


_Categorized = TypeVar("_Categorized", bound=Categorized)


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredQuestion:
    """One question with its answer."""

    category: str
    # Ids of the evidence. Empty: every answer counts as right.
    evidence: frozenset[str]
    # Ids of the hits, best first.
    hit_ids: tuple[str, ...]

    def scores(self, measures: Sequence[str] = MEASURES) -> tuple[float, ...]:
        """Return each of the measures."""
        return tuple(self._score(measure) for measure in measures)

    def _score(self, measure: str) -> float:
        if measure == MRR:
            return reciprocal_rank(self)
        name, _, depth = measure.partition("@")
        return _SCORES[name](int(depth), self.evidence, self.hit_ids)


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    def as_json(self) -> dict[str, float]:
        """Return it for a program."""
        return {"value": round(self.value, 4), "low": round(self.low, 4), "high": round(self.high, 4)}


def recall_at(depth: int, evidence: frozenset[str], hit_ids: Sequence[str]) -> float:
    """Return the share of the evidence among the first `depth` hits; 1 without evidence."""
    return len(evidence.intersection(hit_ids[:depth])) / len(evidence) if evidence else 1.0


def any_at(depth: int, evidence: frozenset[str], hit_ids: Sequence[str]) -> float:
    """Return 1 when some of the evidence is among the first `depth` hits, else 0; 1 without evidence."""
    return float(recall_at(depth, evidence, hit_ids) > 0.0)


def all_at(depth: int, evidence: frozenset[str], hit_ids: Sequence[str]) -> float:
    """Return 1 when all of the evidence is among the first `depth` hits, else 0; 1 without evidence."""
    return float(evidence <= set(hit_ids[:depth]))


def ndcg_at(depth: int, evidence: frozenset[str], hit_ids: Sequence[str]) -> float:
    """Return the discounted gain of the first `depth` hits as a share of the best possible; 1 without evidence.

    Every piece of evidence has the gain 1, and rank r the discount log2(r + 1) (Järvelin and Kekäläinen, 2002).
    """
    if not evidence:
        return 1.0
    gain = sum(_discounted(rank) for rank, name in enumerate(hit_ids[:depth], start=1) if name in evidence)
    return gain / sum(_discounted(rank) for rank in range(1, min(depth, len(evidence)) + 1))


# By the name before the "@" of a measure.
_SCORES: Mapping[str, Callable[[int, frozenset[str], Sequence[str]], float]] = {
    "recall": recall_at,
    "recall_any": any_at,
    "recall_all": all_at,
    "ndcg": ndcg_at,
}


def measures_within(limit: int, measures: Sequence[str]) -> tuple[str, ...]:
    """Return the measures that an answer of `limit` hits can have: none of a greater depth."""
    return tuple(measure for measure in measures if measure == MRR or int(measure.partition("@")[2]) <= limit)


def reciprocal_rank(question: ScoredQuestion) -> float:
    """Return 1 / the rank of the first evidence, 0 when none was found; 1 without evidence."""
    if not question.evidence:
        return 1.0
    return next((1.0 / rank for rank, name in enumerate(question.hit_ids, start=1) if name in question.evidence), 0.0)


def means(rows: Sequence[Sequence[float]], *, seed: int, resamples: int = _RESAMPLES) -> list[Mean]:
    """Return the mean of each column with its bootstrap interval; the same seed gives the same intervals.

    Each resample draws whole rows, as many as there are, with replacement.
    """
    if not rows:
        return []
    drawing = random.Random(seed)  # noqa: S311 - no secret.
    count = len(rows)
    columns = list(zip(*rows, strict=True))
    drawn: list[list[float]] = [[] for _ in columns]
    for _ in range(resamples):
        row_numbers = drawing.choices(range(count), k=count)
        for column, into in zip(columns, drawn, strict=True):
            into.append(sum(map(column.__getitem__, row_numbers)) / count)
    low, high = int(_TAIL * resamples), max(resamples - 1 - int(_TAIL * resamples), 0)
    return [
        Mean(sum(column) / count, ordered[low], ordered[high])
        for column, ordered in zip(columns, map(sorted, drawn), strict=True)
    ]


def summary(questions: Sequence[ScoredQuestion], *, seed: int, measures: Sequence[str] = MEASURES) -> dict[str, Mean]:
    """Return every measure over some questions; empty without questions."""
    return dict(zip(measures, means([question.scores(measures) for question in questions], seed=seed), strict=False))


def by_category(questions: Sequence[_Categorized]) -> Mapping[str, list[_Categorized]]:
    """Return the questions of each category, in order of its name."""
    return {
        category: [question for question in questions if question.category == category]
        for category in sorted({question.category for question in questions})
    }


def ablation_loss(full: Sequence[ScoredQuestion], ablated: Sequence[ScoredQuestion], *, seed: int) -> dict[str, Mean]:
    """Return the paired loss of every measure between two runs of the same questions."""
    rows = [
        [before - after for before, after in zip(complete.scores(), reduced.scores(), strict=True)]
        for complete, reduced in zip(full, ablated, strict=True)
    ]
    return dict(zip(MEASURES, means(rows, seed=seed), strict=False))


def _discounted(rank: int) -> float:
    """Return the gain of one hit at a rank, from 1."""
    return 1.0 / math.log2(rank + 1)
