"""How the signals of a search become one score. Pure: no database, no protobuf, no clock.

Each measure is scaled by the bounds that it has in theory, not by the best and worst of one answer, so that scores of
separate calls mean the same and may be merged: the cosine as it is, BM25 as a share of what no document could pass for
the query (Bruch et al., "An Analysis of Fusion Functions for Hybrid Retrieval", 2023). The score is the weighted sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from uuid import UUID

# Raised with every change of what follows, so that scores of different times are not compared.
VERSION: Final = 1
# BM25's share of its bound is small even for a good match, so it gets the larger weight.
WEIGHTS: Final[Mapping[str, float]] = MappingProxyType({"dense": 0.35, "lexical": 0.65})


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """An item that one of the signals found, with what each of them measured."""

    item_id: UUID
    kind: str
    # Cosine of the query and the best chunk; None without a vector on either side.
    similarity: float | None
    # 0 when no term of the query occurs.
    bm25: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Component:
    """One signal's part of a score: weight times value."""

    signal: str
    raw: float
    value: float
    weight: float
    # Place among the ranked items by this signal alone, from 1; 0 when it did not find the item.
    rank: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranked:
    """A candidate with its score, 0 to 1, and the components that add up to it."""

    candidate: Candidate
    score: float
    components: tuple[Component, ...]


def weights(*, dense: bool, lexical: bool) -> dict[str, float]:
    """Return the weights of the signals that the query could ask for; they sum to 1."""
    asked = {"dense": dense, "lexical": lexical}
    present = {signal: weight for signal, weight in WEIGHTS.items() if asked[signal]}
    total = sum(present.values())
    return {signal: weight / total for signal, weight in present.items()}


def rank(
    candidates: Iterable[Candidate], *, dense: bool, max_bm25: float, limit: int, min_similarity: float = 0.0
) -> list[Ranked]:
    """Return the best candidates, best first; equal scores are ordered by id.

    `dense` says that there was a vector to compare with; `max_bm25` is the bound of BM25 for the query, 0 without
    terms. Candidates below `min_similarity` are left out, and so are those without a similarity when it is not 0.
    """
    shares = weights(dense=dense, lexical=max_bm25 > 0)
    scored: list[tuple[float, Candidate, dict[str, tuple[float, float]]]] = []
    for candidate in candidates:
        if min_similarity > 0 and (candidate.similarity is None or candidate.similarity < min_similarity):
            continue
        measures = {signal: _measure(signal, candidate, max_bm25) for signal in shares}
        score = sum(share * measures[signal][1] for signal, share in shares.items())
        scored.append((score, candidate, measures))
    scored.sort(key=lambda entry: (-entry[0], entry[1].item_id))
    best = scored[:limit]
    places = {signal: _places(signal, [candidate for _, candidate, _ in best]) for signal in shares}
    return [
        Ranked(
            candidate=candidate,
            score=score,
            components=tuple(
                Component(
                    signal=signal,
                    raw=measures[signal][0],
                    value=measures[signal][1],
                    weight=share,
                    rank=places[signal].get(candidate.item_id, 0),
                )
                for signal, share in shares.items()
            ),
        )
        for score, candidate, measures in best
    ]


def _measure(signal: str, candidate: Candidate, max_bm25: float) -> tuple[float, float]:
    """The raw measure, and the same between 0 and 1."""
    if signal == "lexical":
        return candidate.bm25, min(1.0, candidate.bm25 / max_bm25)
    similarity = candidate.similarity or 0.0
    return similarity, min(1.0, max(0.0, similarity))


def _places(signal: str, candidates: Sequence[Candidate]) -> dict[UUID, int]:
    if signal == "lexical":
        found = [(-candidate.bm25, candidate.item_id) for candidate in candidates if candidate.bm25 > 0]
    else:
        found = [
            (-candidate.similarity, candidate.item_id) for candidate in candidates if candidate.similarity is not None
        ]
    return {item_id: place for place, (_, item_id) in enumerate(sorted(found), start=1)}
