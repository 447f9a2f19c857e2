"""How exact answers are: whether more came back than was expected, as they are and after a cut. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredHit:
    """One hit with what recall says of it."""

    item_id: str
    score: float
    # None where recall sets none.
    relevance: float | None

    def as_json(self) -> dict[str, str | float | None]:
        """Return it for a program."""
        relevance = None if self.relevance is None else round(self.relevance, 4)
        return {"id": self.item_id, "score": round(self.score, 4), "relevance": relevance}


class CutMeasure(StrEnum):
    """What a cut compares with its threshold."""

    RELEVANCE = "relevance"
    # Of the first hit's.
    RELEVANCE_SHARE = "relevance share"
    SCORE_SHARE = "score share"


@dataclass(frozen=True, slots=True)
class Cut:
    """A threshold below which hits are left out."""

    measure: CutMeasure
    threshold: float

    def kept_hits(self, hits: Sequence[ScoredHit]) -> tuple[ScoredHit, ...]:
        """Return the hits, best first, that are not left out; one without relevance stays, as in recall."""
        return tuple(hit for hit in hits if self._keeps(hit, hits[0]))

    def _keeps(self, hit: ScoredHit, first: ScoredHit) -> bool:
        if self.measure is CutMeasure.SCORE_SHARE:
            return hit.score >= self.threshold * first.score
        if hit.relevance is None:
            return True
        whole = 1.0 if self.measure is CutMeasure.RELEVANCE else first.relevance or 0.0
        return hit.relevance >= self.threshold * whole


CUTS = (
    *(Cut(CutMeasure.RELEVANCE, threshold) for threshold in (0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5)),
    *(Cut(CutMeasure.RELEVANCE_SHARE, threshold) for threshold in (0.1, 0.2, 0.3, 0.5, 0.7)),
    *(Cut(CutMeasure.SCORE_SHARE, threshold) for threshold in (0.5, 0.6, 0.7, 0.8, 0.9)),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExactAnswer:
    """The answer to a question that expects its evidence and nothing else."""

    category: str
    evidence: frozenset[str]
    # Best first, without aliases of the evidence: they are neither expected nor wrong.
    hits: tuple[ScoredHit, ...]

    def after(self, cut: Cut) -> ExactAnswer:
        """Return the answer that the cut leaves."""
        return replace(self, hits=cut.kept_hits(self.hits))

    @property
    def hit_ids(self) -> frozenset[str]:
        """Return the ids of the hits."""
        return frozenset(hit.item_id for hit in self.hits)

    @property
    def is_exact(self) -> bool:
        """Return whether all of the evidence came back, and nothing else."""
        return self.hit_ids == self.evidence

    @property
    def precision(self) -> float:
        """Return the share of the hits that are evidence; without hits, 1 if there is no evidence, else 0."""
        if not self.hits:
            return float(not self.evidence)
        return len(self.hit_ids & self.evidence) / len(self.hit_ids)

    @property
    def recall(self) -> float | None:
        """Return the share of the evidence among the hits; None without evidence."""
        return len(self.hit_ids & self.evidence) / len(self.evidence) if self.evidence else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Exactness:
    """Some exact answers together."""

    questions: int
    exact: int
    # Means over the questions; recall over those with evidence, None if all are without.
    precision: float
    recall: float | None
    hits: float
    # Share of the questions without evidence whose answer has no hits; None if all have evidence.
    abstention: float | None

    @classmethod
    def of(cls, answers: Sequence[ExactAnswer]) -> Exactness:
        """Sum up answers, of which there is one at least."""
        recalls = [answer.recall for answer in answers if answer.recall is not None]
        abstains = [not answer.hits for answer in answers if not answer.evidence]
        return cls(
            questions=len(answers),
            exact=sum(answer.is_exact for answer in answers),
            precision=sum(answer.precision for answer in answers) / len(answers),
            recall=sum(recalls) / len(recalls) if recalls else None,
            hits=sum(len(answer.hits) for answer in answers) / len(answers),
            abstention=sum(abstains) / len(abstains) if abstains else None,
        )

    def as_json(self) -> dict[str, float | None]:
        """Return it for a program."""
        return {
            "questions": self.questions,
            "exact": self.exact,
            "precision": round(self.precision, 4),
            "recall": None if self.recall is None else round(self.recall, 4),
            "mean_hits": round(self.hits, 2),
            "abstention": None if self.abstention is None else round(self.abstention, 4),
        }
