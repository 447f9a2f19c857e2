"""What a search knows on its way from the question to the answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skein_recall.query.candidates import Candidate, Candidates

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet
    from uuid import UUID

    import asyncpg

    from skein_recall.query import ranking
    from skein_recall.query.ranking import RankedItem
    from skein_recall.vector_cache.cache import VectorCache
    from skein_recall.vector_cache.matrix import Shortlist


@dataclass(frozen=True, kw_only=True, slots=True)
class RecallResult:
    """The hits, best first, each with its item's row."""

    # Empty when no vectors were searched because the question was of words alone.
    model: str
    # The vector that the question needs was not to be had.
    dense_unavailable: bool
    # How the vectors were searched: "held", "exact", "rescored", or "none".
    path: str
    # The fusion and its version.
    formula: str
    hits: list[tuple[RankedItem, asyncpg.Record]]
    # Conditions that keep everything out; more was found than was held against the filter.
    emptied_by: list[str]
    filter_truncated: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class SignalMatches:
    """What the signals found."""

    # None where the vector alone finds, as only it was asked for: then kinds and cosines by item, the nearest first.
    candidates: Candidates | None = None
    alone: Mapping[UUID, tuple[str, float]] = field(default_factory=dict)
    # In the keyword mode: kinds and BM25 by item, in no order.
    by_words: Mapping[UUID, tuple[str, float]] | None = None
    max_bm25: float = 0.0
    terms: ranking.TermStatistics | None = None
    # There may be more.
    is_cut: bool = False
    # By the vector alone, in their order.
    nearest: tuple[UUID, ...] = ()

    def __len__(self) -> int:
        """Return how many there are."""
        if self.by_words is not None:
            return len(self.by_words)
        return len(self.alone if self.candidates is None else self.candidates)

    @property
    def side_by_side(self) -> Candidates:
        """All of it, as it is ranked."""
        if self.candidates is not None:
            return self.candidates
        return Candidates.of(
            Candidate(item_id=item_id, kind=kind, similarity=cosine) for item_id, (kind, cosine) in self.alone.items()
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class CachedSimilarities:
    """What is held of the tenant, compared with the vector, and the items that were written since."""

    shortlist: Shortlist
    new: AbstractSet[UUID]


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheShortlist:
    """What may be nearest to a question's vector by what is held in memory, and who holds it."""

    held: VectorCache
    shortlist: Shortlist
