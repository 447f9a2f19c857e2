"""What is asked of a recall, and by which formula its signals become one score."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Self

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.errors import FieldInvalid
from skein_kit.search_text import vector_columns as kit
from skein_recall.errors import QueryEmpty
from skein_recall.query import ranking
from skein_recall.query.filter import Filter

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    import numpy as np
    from numpy.typing import NDArray

    from skein_kit.policies.store import Policy

DEFAULT_LIMIT = 10
# Items of each signal that are ranked at first. Where too few of them may be shown, more are looked at.
POOL = 100
# For a vector alone the order is known: more than the hits wanted only stand in for some that may not be shown.
SPARE = 10
# Of an item's text, as many as a query may have.
MOST_CHARACTERS = 10_000
SIMILAR_WEIGHTS = {"dense": ranking.Weights().dense, "lexical": ranking.Weights().lexical}
KINDS = {pb.ITEM_KIND_MEMORY: "memory", pb.ITEM_KIND_MESSAGE: "message"}


class Mode(StrEnum):
    """How a search finds items and scores them."""

    HYBRID = "hybrid"
    KEYWORD = "keyword"
    SEMANTIC = "semantic"


_MODES = {
    pb.SEARCH_MODE_UNSPECIFIED: Mode.HYBRID,
    pb.SEARCH_MODE_HYBRID: Mode.HYBRID,
    pb.SEARCH_MODE_KEYWORD: Mode.KEYWORD,
    pb.SEARCH_MODE_SEMANTIC: Mode.SEMANTIC,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ReferenceItem:
    """A stored item that others are compared with."""

    item_id: UUID
    text: str
    # Of unit length, by the active model: the mean over the item's chunks. None where it has none.
    vector: NDArray[np.float32] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """What a caller looks for: a text, a vector of unit length, or both."""

    text: str
    vector: NDArray[np.float32] | None
    limit: int
    kinds: tuple[str, ...]
    filter: Filter
    min_similarity: float
    show_superseded: bool
    # By signal; those that are not named are the tenant's. Empty: the tenant's fusion.
    weights: Mapping[str, float]
    fusion: str
    mode: Mode = Mode.HYBRID
    # The item that the question was made of, which is no answer to it.
    excluded_id: UUID | None = None

    @property
    def is_of_words(self) -> bool:
        """Say whether the search needs no vector: by its mode, or because the weights leave no signal that does."""
        if self.mode is not Mode.HYBRID:
            return self.mode is Mode.KEYWORD
        return bool(self.text) and all(self.weights.get(signal) == 0 for signal in ("dense", "context"))

    @property
    def is_of_meaning(self) -> bool:
        """Say whether the search needs nothing but the vector: by its mode, or because the weights leave no more."""
        if self.mode is not Mode.HYBRID:
            return self.mode is Mode.SEMANTIC
        others = ranking.SIGNALS - {"dense"}
        return all(self.weights.get(signal) == 0 for signal in others) and self.weights.get("dense") != 0

    def depth(self, *, asks_words: bool) -> int:
        """Return how many items each signal is asked for at first."""
        return max(POOL, 2 * self.limit) if asks_words else self.limit + SPARE

    def asks_words(self, *, has_vector: bool) -> bool:
        """Say whether words are searched: not where there is a vector and nothing else counts."""
        return bool(self.text) and not (self.is_of_meaning and has_vector)

    @classmethod
    def of(cls, request: pb.RecallRequest) -> Self:
        """Read a request; refuse one that asks for nothing."""
        text = request.query.strip()
        if not text and not request.embedding:
            raise QueryEmpty
        vector = kit.normalize(request.embedding) if request.embedding else None
        return replace(cls._of(request, text, vector), weights=dict(request.weights), fusion=request.fusion)

    @classmethod
    def of_item(cls, request: pb.FindSimilarRequest, item: ReferenceItem) -> Self:
        """Ask for what is like a stored item, by cosine and BM25 alone; refuse one that has nothing to compare."""
        text = item.text[:MOST_CHARACTERS].strip()
        if not text and (item.vector is None or _MODES[request.mode] is Mode.KEYWORD):
            raise QueryEmpty
        question = cls._of(request, text, item.vector)
        weights = {} if question.mode is not Mode.HYBRID else dict.fromkeys(ranking.SIGNALS, 0.0) | SIMILAR_WEIGHTS
        return replace(question, weights=weights, fusion="scores" if weights else "", excluded_id=item.item_id)

    @classmethod
    def _of(
        cls, request: pb.RecallRequest | pb.FindSimilarRequest, text: str, vector: NDArray[np.float32] | None
    ) -> Self:
        asked = Filter.of(request.filter) if request.HasField("filter") else Filter()
        return cls(
            text=text,
            vector=vector,
            limit=request.limit or DEFAULT_LIMIT,
            kinds=tuple(KINDS[kind] for kind in request.kinds) or tuple(KINDS.values()),
            filter=asked,
            min_similarity=request.min_similarity,
            show_superseded=request.show_superseded or asked.is_of_the_past,
            weights={},
            fusion="",
            mode=_MODES[request.mode],
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoringFormula:
    """How the signals become one score, for one call."""

    weights: ranking.Weights
    fusion: ranking.Fusion
    name: str

    @classmethod
    def of(cls, question: Query, policy: Policy) -> Self:
        """Take the caller's word, else the tenant's, else the default; refuse weights that name or leave no signal.

        A mode that is not hybrid has a formula of its own, which neither the caller nor the tenant changes.
        """
        if question.mode is not Mode.HYBRID:
            return cls(weights=ranking.Weights(), fusion="scores", name=f"{question.mode}-{ranking.VERSION}")
        signals = ranking.SIGNALS
        unknown = [("weights", f"{name} is no signal") for name in sorted(question.weights.keys() - signals)]
        if unknown:
            raise FieldInvalid(violations=unknown)
        weights = _tenant_weights(policy.recall_weights)
        if question.weights:
            weights = replace(weights, **question.weights)
        if question.weights and not any(asdict(weights).values()):
            raise FieldInvalid(violations=[("weights", "leave no signal")])
        fusion = question.fusion or policy.recall_fusion
        name = fusion if question.excluded_id is None else "similar"
        return cls(weights=weights, fusion="rrf" if fusion == "ranks" else "scores", name=f"{name}-{ranking.VERSION}")


@lru_cache(maxsize=1024)
def _tenant_weights(recall_weights: str) -> ranking.Weights:
    """Read what a tenant's policy says; a name that it has from another version is passed over."""
    given = json.loads(recall_weights)
    return ranking.Weights(**{name: weight for name, weight in given.items() if name in ranking.SIGNALS})
