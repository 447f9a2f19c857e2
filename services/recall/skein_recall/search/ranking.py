"""Ranking: the signals of a search become one score. No database, no protobuf, no clock.

Each signal is scaled by its theoretical bounds, not by the best and worst of one response. So scores of separate
calls are comparable. The cosine is scaled by the range of its model; BM25 is a share of the query's upper bound (Bruch
et al., "An Analysis of Fusion Functions for Hybrid Retrieval", 2023). The score is the weighted sum.

The neighbours of an item tell its subject. So words and meaning are also measured over its neighbours, and an item
that follows a matching question is likely the answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeAlias

import numpy as np

from skein_recall.models.similarity_scale import COSINE_SCALE
from skein_recall.search import neighbours
from skein_recall.search.cues import QueryCues
from skein_recall.search.query_terms import K1, B, TermStatistics, rows_of_previous
from skein_recall.search.weights import DEFAULT_WEIGHTS, Fusion, Weights

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date, datetime
    from uuid import UUID

    from numpy.typing import ArrayLike, NDArray

    from skein_recall.models.similarity_scale import SimilarityScale
    from skein_recall.search.neighbours import Neighbours

    _Numbers: TypeAlias = NDArray[np.float64]
    _Rows: TypeAlias = NDArray[np.intp]


# Stems of a neighbour that count: a longer one would drown the item between its neighbours.
_NEIGHBOUR_STEMS: Final = 30
# Assistants answer at length, in the words of the question. So the values of their long messages are lowered, by up to
# this share, linearly between so many stems.
_MAX_DISCOUNT: Final = 0.3
_DISCOUNT_FROM_STEMS: Final = 20
_DISCOUNT_TO_STEMS: Final = 100
# Stems of a full statement; a shorter item is likely a phrase of courtesy.
_FULL_LENGTH_STEMS: Final = 15
# The expected value of `tokens` of an item whose tokens were not compared, from its values of `dense` and `lexical`: a
# linear regression over hits of LoCoMo's questions, of their own conversations and of others.
_TOKENS_BASE: Final = 0.46
_TOKENS_OF_DENSE: Final = 0.23
_TOKENS_OF_LEXICAL: Final = 0.44
# Trust of a memory without rated sources. A lower one lowers the score; a higher one leaves it as it is.
NEUTRAL_TRUST: Final = 0.5
# The constant of reciprocal-rank fusion (Cormack et al., "Reciprocal Rank Fusion", 2009).
_RRF_K: Final = 60

# Weights of the fusion by ranks.
_EQUAL_WEIGHTS: Final = Weights(dense=1.0, lexical=1.0)
_NO_CUES: Final = QueryCues()


class Candidate(NamedTuple):
    """An item that a signal proposed, or a neighbour of one, with its measurements."""

    item_id: UUID
    kind: str
    # Cosine of the query and the best chunk; None without a vector on either side.
    similarity: float | None
    # 0 when no term of the query occurs.
    bm25: float = 0.0
    # Count of each of the query's terms in the text, and in the header; empty when they were not read.
    frequencies: Sequence[float] = ()
    header_frequencies: Sequence[float] = ()
    # In stems.
    length: int = 0
    # The item right before it in its session, if known.
    previous: UUID | None = None
    # The text ends with a question; it mentions a time.
    is_question: bool = False
    mentions_time: bool = False
    # A message of an assistant.
    is_assistant: bool = False
    create_time: datetime | None = None
    # False for an item that a filter excludes; it still is context of its neighbours.
    eligible: bool = True


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Candidates:
    """Candidates column by column, in order of their ids; n of them, and t terms of the query."""

    item_ids: Sequence[UUID]
    kinds: Sequence[str]
    # float64 (n,), NaN without a vector.
    similarities: NDArray[np.float64]
    bm25: NDArray[np.float64]
    # float64 (n, t): counts of the terms in the text, and in the header; zeros where they were not read.
    frequencies: NDArray[np.float64]
    header_frequencies: NDArray[np.float64]
    # bool (n,): whether the counts were read.
    have_frequencies: NDArray[np.bool_]
    # float64 (n,), in stems.
    lengths: NDArray[np.float64]
    # intp (n,): the row of the item right before it in its session, -1 where none is known.
    previous: _Rows
    is_question: NDArray[np.bool_]
    mentions_time: NDArray[np.bool_]
    is_assistant: NDArray[np.bool_]
    # Empty where no signal needs them.
    create_times: Sequence[datetime | None]
    eligible: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.item_ids)

    @classmethod
    def of(cls, candidates: Iterable[Candidate]) -> Self:
        """Order candidates by id, and make columns of them."""
        rows = sorted(candidates, key=attrgetter("item_id"))
        terms = max((len(row.frequencies) for row in rows), default=0)
        no_terms = (0.0,) * terms
        return cls(
            item_ids=[row.item_id for row in rows],
            kinds=[row.kind for row in rows],
            similarities=np.array([math.nan if row.similarity is None else row.similarity for row in rows]),
            bm25=np.array([row.bm25 for row in rows], dtype=np.float64),
            frequencies=np.array([tuple(row.frequencies) or no_terms for row in rows]).reshape(len(rows), terms),
            header_frequencies=np.array([tuple(row.header_frequencies) or no_terms for row in rows]).reshape(
                len(rows), terms
            ),
            have_frequencies=np.array([bool(row.frequencies) for row in rows], dtype=np.bool_),
            lengths=np.array([row.length for row in rows], dtype=np.float64),
            previous=rows_of_previous([row.item_id for row in rows], {row.item_id: row.previous for row in rows}),
            is_question=np.array([row.is_question for row in rows], dtype=np.bool_),
            mentions_time=np.array([row.mentions_time for row in rows], dtype=np.bool_),
            is_assistant=np.array([row.is_assistant for row in rows], dtype=np.bool_),
            create_times=[row.create_time for row in rows],
            eligible=np.array([row.eligible for row in rows], dtype=np.bool_),
        )


class Component(NamedTuple):
    """One signal's part of a score: weight times value."""

    signal: str
    raw: float
    value: float
    weight: float
    # Rank by this signal alone, from 1; 0 when it did not find the item.
    rank: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RankedItem:
    """A candidate with its score, 0 to 1, and the components that add up to it."""

    item_id: UUID
    kind: str
    # Cosine of the query and the best chunk; None without a vector on either side.
    similarity: float | None
    score: float
    # Whether the item itself contains a word of the query; None when words were not searched.
    has_words: bool | None
    _components: _ComponentTable | tuple[Component, ...] = field(repr=False, compare=False)
    _row: int = field(default=0, repr=False, compare=False)

    @property
    def components(self) -> tuple[Component, ...]:
        """The part of each signal in the score."""
        if isinstance(self._components, tuple):
            return self._components
        return self._components.of_row(self._row)

    def demote(self, trust: float) -> RankedItem:
        """Return the item with the score of a trust below the neutral one: lowered in proportion."""
        score = self.score * trust / NEUTRAL_TRUST
        loss = Component("trust", trust, score - self.score, 1.0, 0)
        return replace(self, score=score, _components=(*self.components, loss), _row=0)

    def move_to(self, score: float) -> RankedItem:
        """Return the item with the score of another place, which something newer takes or leaves."""
        if score == self.score:
            return self
        gain = Component("newer", score - self.score, score - self.score, 1.0, 0)
        return replace(self, score=score, _components=(*self.components, gain), _row=0)


def rank(  # noqa: PLR0913 - candidates, query and formula, all of it by name.
    candidates: Candidates,
    *,
    dense: bool,
    max_bm25: float,
    limit: int,
    min_similarity: float = 0.0,
    terms: TermStatistics | None = None,
    cues: QueryCues = _NO_CUES,
    weights: Weights = DEFAULT_WEIGHTS,
    fusion: Fusion = "scores",
    scale: SimilarityScale = COSINE_SCALE,
) -> list[RankedItem]:
    """Return the best candidates, best first; equal scores are ordered by cosine, then by id.

    `dense`: the query has a vector. `max_bm25` is the upper bound of BM25 for the query; 0 without terms, and then the
    cosine alone decides. Without `terms`, the signals of neighbours and texts are left out. Candidates below
    `min_similarity`, and those without one unless it is 0, are no hits; they still are context of their neighbours.
    `scale` is of the model's cosines.
    """
    ranking = Ranking(
        candidates,
        dense=dense,
        max_bm25=max_bm25,
        terms=terms,
        cues=cues,
        weights=weights,
        fusion=fusion,
        scale=scale,
    )
    return ranking.best(limit, min_similarity=min_similarity)


def rank_by_similarity(
    matches: Mapping[UUID, tuple[str, float]], *, limit: int, min_similarity: float = 0.0
) -> list[RankedItem]:
    """Rank items by their cosines alone: `matches` has the kind and the cosine of each item.

    It is three times as fast as `rank`. The ranks of its components differ for negative cosines, which `rank` orders by
    id.
    """
    threshold = min_similarity if min_similarity > 0 else -math.inf
    ordered = sorted((-cosine, item_id, kind) for item_id, (kind, cosine) in matches.items() if cosine >= threshold)
    return [
        RankedItem(
            item_id=item_id,
            kind=kind,
            similarity=-distance,
            score=(score := min(1.0, max(0.0, -distance))),
            has_words=None,
            _components=(Component("dense", -distance, score, 1.0, rank_number),),
        )
        for rank_number, (distance, item_id, kind) in enumerate(ordered[:limit], start=1)
    ]


def rank_by_terms(matches: Mapping[UUID, tuple[str, float]], *, max_bm25: float, limit: int) -> list[RankedItem]:
    """Rank items by their own words alone: `matches` has the kind and the BM25, above 0, of each item.

    The score is BM25 as a share of its upper bound `max_bm25`. Equal scores are ordered by id.
    """
    ordered = sorted((-bm25, item_id, kind) for item_id, (kind, bm25) in matches.items())
    return [
        RankedItem(
            item_id=item_id,
            kind=kind,
            similarity=None,
            score=(score := min(1.0, -negative / max_bm25)),
            has_words=True,
            _components=(Component("lexical", -negative, score, 1.0, rank_number),),
        )
        for rank_number, (negative, item_id, kind) in enumerate(ordered[:limit], start=1)
    ]


def select_centres(
    item_ids: Iterable[UUID],
    similarities: Mapping[UUID, float],
    bm25s: Mapping[UUID, float],
    max_bm25: float,
    *,
    count: int,
    scale: SimilarityScale = COSINE_SCALE,
) -> list[UUID]:
    """Return up to `count` items that are likely the best, by the cosines and BM25 known so far."""
    bound = max_bm25 or 1.0
    values = dict(zip(similarities, (0.4 * scale.scaled(np.array([*similarities.values()]))).tolist(), strict=True))
    estimates = [(-(values.get(item_id, 0.0) + 0.6 * bm25s.get(item_id, 0.0) / bound), item_id) for item_id in item_ids]
    return [item_id for _, item_id in sorted(estimates)[:count]]


def _shares(signals: Iterable[str], weights: Weights) -> dict[str, float]:
    """Scale the weights of signals to sum to 1; those of weight 0 are missing.

    Should all of them have weight 0, all count the same.
    """
    by_signal = {signal: getattr(weights, signal) for signal in signals}
    positive = {signal: weight for signal, weight in by_signal.items() if weight > 0} or dict.fromkeys(by_signal, 1.0)
    total = sum(positive.values())
    return {signal: weight / total for signal, weight in positive.items()}


class _SignalValues(NamedTuple):
    """One signal of all candidates: arrays (n,), by row."""

    raw: _Numbers
    # Scaled to 0 to 1.
    values: _Numbers
    # Whether the candidate has this signal.
    measured: NDArray[np.bool_]


class _ComponentTable:
    """All signals of one ranking. Components are made on demand."""

    def __init__(self, measures: Mapping[str, _SignalValues], shares: Mapping[str, float], best: _Rows) -> None:
        self._measures = measures
        self._shares = shares
        self._best = best
        self._ranks: dict[str, _Rows] = {}

    def of_row(self, row: int) -> tuple[Component, ...]:
        return tuple(
            Component(
                signal=signal,
                raw=float(self._measures[signal].raw[row]),
                value=float(self._measures[signal].values[row]),
                weight=share,
                rank=self._rank(signal, row),
            )
            for signal, share in self._shares.items()
        )

    def _rank(self, signal: str, row: int) -> int:
        if signal not in self._ranks:
            self._ranks[signal] = _ranks(self._measures[signal], np.sort(self._best))
        return int(self._ranks[signal][row])


class Ranking:
    """The candidates of one query with their signals, of which the best are taken."""

    def __init__(  # noqa: PLR0913 - candidates, query and formula, as of `rank`.
        self,
        candidates: Candidates,
        *,
        dense: bool,
        max_bm25: float,
        terms: TermStatistics | None,
        cues: QueryCues,
        weights: Weights,
        fusion: Fusion,
        scale: SimilarityScale,
        by_words: bool = True,
    ) -> None:
        """See `rank`. Among people neighbours count `by_words`, which formulas of the versions before did not."""
        self._candidates = candidates
        self._pool = _CandidatePool(
            candidates, dense=dense, max_bm25=max_bm25, terms=terms, cues=cues, scale=scale, by_words=by_words
        )
        self._has_words = terms is not None
        self._weights = weights if fusion == "scores" else _EQUAL_WEIGHTS
        self._measures = self._pool.measures(weights) if fusion == "scores" else None

    def candidates_for_tokens(self, count: int, *, min_similarity: float) -> list[UUID]:
        """Return the best candidates by the other signals, in order of their ids."""
        rows = self._pool.eligible_rows(min_similarity)
        scores, _, _ = self._scores(rows)
        return [self._candidates.item_ids[row] for row in np.sort(self._pool.order(rows, scores)[:count]).tolist()]

    def compare_tokens(self, similarities: Mapping[UUID, float]) -> None:
        """From now on rank by late interaction too, 0 to 1 of each item that was compared."""
        tokens = np.array([similarities.get(item_id, math.nan) for item_id in self._candidates.item_ids])
        if self._measures is not None and "lexical" in self._measures:
            self._measures["tokens"] = self._pool.late_interaction(tokens, self._measures)

    def best(self, limit: int, *, min_similarity: float) -> list[RankedItem]:
        """Return the best candidates as `rank` does."""
        candidates = self._candidates
        rows = self._pool.eligible_rows(min_similarity)
        if not len(rows):
            return []
        scores, measures, shares = self._scores(rows)
        best = self._pool.order(rows, scores)[:limit]
        table = _ComponentTable(measures, shares, best)
        return [
            RankedItem(
                item_id=candidates.item_ids[row],
                kind=candidates.kinds[row],
                similarity=None if math.isnan(similarity) else similarity,
                score=score,
                has_words=bm25 > 0 if self._has_words else None,
                _components=table,
                _row=row,
            )
            for row, score, similarity, bm25 in zip(
                best.tolist(),
                scores[best].tolist(),
                candidates.similarities[best].tolist(),
                candidates.bm25[best].tolist(),
                strict=True,
            )
        ]

    def _scores(self, rows: _Rows) -> tuple[_Numbers, Mapping[str, _SignalValues], Mapping[str, float]]:
        """Return the scores (n,), the signals, and the share of each in the score."""
        measures = self._pool.reciprocal_ranks(rows) if self._measures is None else self._measures
        shares = _shares(measures, self._weights)
        scores = np.zeros(len(self._candidates))
        for signal, share in shares.items():
            scores += share * measures[signal].values
        return scores, measures, shares


class _CandidatePool:
    """The n candidates of one query as each other's neighbours, and their signals.

    Rows are in order of the ids, so that the order of arrival does not matter. Row n stands for a missing neighbour.
    """

    def __init__(
        self,
        candidates: Candidates,
        *,
        dense: bool,
        max_bm25: float,
        terms: TermStatistics | None,
        cues: QueryCues,
        scale: SimilarityScale,
        by_words: bool,
    ) -> None:
        self._candidates = candidates
        self._by_words = by_words
        self._dense = dense
        self._max_bm25 = max_bm25
        self._terms = terms
        self._cues = cues
        self._scale = scale
        self._embedded = ~np.isnan(candidates.similarities)
        self._cosines = np.where(self._embedded, candidates.similarities, 0.0)
        excess = (candidates.lengths - _DISCOUNT_FROM_STEMS) / (_DISCOUNT_TO_STEMS - _DISCOUNT_FROM_STEMS)
        # float64 (n,): factors of the values of meaning and words.
        self._factors = 1 - _MAX_DISCOUNT * np.clip(excess, 0.0, 1.0) * candidates.is_assistant

    def eligible_rows(self, min_similarity: float) -> _Rows:
        """Return the rows of the candidates that may be hits."""
        eligible = self._candidates.eligible
        if min_similarity > 0:
            eligible = eligible & self._embedded & (self._cosines >= min_similarity)
        return np.flatnonzero(eligible)

    def order(self, rows: _Rows, scores: _Numbers) -> _Rows:
        """Order rows by score, then by cosine, because scores do not distinguish negative cosines."""
        return rows[np.lexsort((-self._cosines[rows], -scores[rows]))]

    def measures(self, weights: Weights) -> dict[str, _SignalValues]:
        """Return the signals that the query can use."""
        measures = self._item_signals()
        if self._max_bm25 <= 0:
            return measures
        if self._terms is not None:
            measures |= self._context_signals(self._terms, measures, weights)
        if self._cues.asks_for_time:
            measures["time"] = _boolean_signal(self._candidates.mentions_time)
        if self._cues.dates:
            measures["date"] = self._near_date()
        return measures

    def reciprocal_ranks(self, rows: _Rows) -> dict[str, _SignalValues]:
        """Return the reciprocal ranks by meaning and by words, each as a share of the first one's."""
        return {
            signal: measure._replace(values=np.where(ranks > 0, (_RRF_K + 1) / (_RRF_K + ranks), 0.0))
            for signal, measure in self._item_signals().items()
            for ranks in [_ranks(measure, rows)]
        }

    def _item_signals(self) -> dict[str, _SignalValues]:
        """Return meaning and words of each item alone, as far as the query has them."""
        measures: dict[str, _SignalValues] = {}
        if self._dense:
            measures["dense"] = self._meaning(self._cosines, self._embedded)
        if self._max_bm25 > 0:
            measures["lexical"] = self._words(self._candidates.bm25)
        return measures

    def _meaning(self, cosines: _Numbers, measured: NDArray[np.bool_]) -> _SignalValues:
        values = np.where(measured, np.clip(self._scale.scaled(cosines), 0.0, 1.0), 0.0)
        return _SignalValues(cosines, values * self._factors, measured)

    def _words(self, bm25: _Numbers) -> _SignalValues:
        return _SignalValues(bm25, np.minimum(1.0, bm25 / self._max_bm25) * self._factors, bm25 > 0)

    def late_interaction(self, tokens: _Numbers, measures: Mapping[str, _SignalValues]) -> _SignalValues:
        """Return how well the tokens of each item match; where they were not compared, what others make expect."""
        measured = ~np.isnan(tokens)
        expected = _TOKENS_BASE * self._factors + _TOKENS_OF_LEXICAL * measures["lexical"].values
        if "dense" in measures:
            expected = expected + _TOKENS_OF_DENSE * measures["dense"].values
        raw = np.where(measured, tokens, 0.0)
        return _SignalValues(raw, np.where(measured, raw * self._factors, expected), measured)

    def _context_signals(
        self, terms: TermStatistics, item_signals: Mapping[str, _SignalValues], weights: Weights
    ) -> dict[str, _SignalValues]:
        """Return the signals of each item's neighbours, and of its form."""
        before, after = neighbours.adjacent(self._candidates)
        missing = len(self._candidates)
        near = neighbours.weighted(self._candidates, before, after, by_words=self._by_words)
        lengths, is_question = self._candidates.lengths, self._candidates.is_question
        measures = {
            "lexical": self._words(self._windowed_bm25(terms, lengths, near)),
            "reply": self._replies(before[:missing], is_question, item_signals, weights),
            "statement": _boolean_signal(~is_question),
            "length": _SignalValues(lengths, np.minimum(1.0, lengths / _FULL_LENGTH_STEMS), lengths > 0),
        }
        if self._dense:
            measures["context"] = self._context(near)
        return measures

    def _windowed_bm25(self, terms: TermStatistics, lengths: _Numbers, near: Sequence[Neighbours]) -> _Numbers:
        """Return BM25 (n,) of each item with its neighbours as one text; a missing neighbour counts as empty.

        Of a neighbour, _NEIGHBOUR_STEMS stems count, a longer one in proportion, and none of its header: a speaker's
        name would count once for each neighbour. An item without neighbours is measured alone.
        """
        missing = len(self._candidates)
        own = np.zeros((missing + 1, len(terms.idf)))
        own[:missing, : self._candidates.frequencies.shape[1]] = self._candidates.frequencies
        own_length = np.append(lengths, 0.0)
        frequencies, length = own.copy(), own_length.copy()
        frequencies[:missing, : self._candidates.header_frequencies.shape[1]] += self._candidates.header_frequencies
        parts = np.minimum(1.0, _NEIGHBOUR_STEMS / np.maximum(own_length, 1.0))
        is_alone = np.ones(missing + 1, dtype=np.bool_)
        for weights, rows in near:
            share = weights * parts[rows]
            frequencies += share[:, np.newaxis] * own[rows]
            length += share * own_length[rows]
            is_alone &= rows == missing
        is_alone[:missing] |= ~self._candidates.have_frequencies
        free = K1 * (1 - B + B * length / (neighbours.WINDOW * terms.mean_length))
        bm25: _Numbers = (np.array(terms.idf) * frequencies * (K1 + 1) / (frequencies + free[:, np.newaxis])).sum(
            axis=1
        )
        return np.where(is_alone[:missing], self._candidates.bm25, bm25[:missing])

    def _context(self, near: Iterable[Neighbours]) -> _SignalValues:
        """Return the mean cosine of each item and its neighbours; items without a cosine do not count."""
        cosines = np.append(self._cosines, 0.0)
        embedded = np.append(self._embedded, False).astype(np.float64)
        total, number = cosines.copy(), embedded.copy()
        for _, rows in near:
            total += cosines[rows]
            number += embedded[rows]
        mean = (total / np.maximum(number, 1.0))[:-1]
        return self._meaning(mean, number[:-1] > 0)

    def _replies(
        self,
        before: _Rows,
        is_question: NDArray[np.bool_],
        item_signals: Mapping[str, _SignalValues],
        weights: Weights,
    ) -> _SignalValues:
        """Return how well the question that each item follows matches by meaning and words."""
        match = np.zeros(len(before) + 1)
        for signal, share in _shares(item_signals, weights).items():
            match[:-1] += share * item_signals[signal].values
        replies = np.append(is_question, False)[before]
        values = np.where(replies, np.minimum(1.0, match[before]), 0.0) * self._factors
        return _SignalValues(values, values, replies)

    def _near_date(self) -> _SignalValues:
        """Return how near each item's creation is to a date that the query names; raw in days."""
        known: dict[date, tuple[float, float]] = {}
        values: list[tuple[float, float]] = []
        for create_time in self._candidates.create_times:
            day = None if create_time is None else create_time.astimezone(self._cues.zone).date()
            if day is not None and day not in known:
                gap = self._cues.days_to(day)
                known[day] = (math.inf if gap is None else gap, self._cues.nearness(day))
            values.append((math.inf, 0.0) if day is None else known[day])
        raw, nearness = np.array(values, dtype=np.float64).reshape(-1, 2).T
        return _SignalValues(np.where(np.isfinite(raw), raw, 0.0), nearness, np.isfinite(raw))


def _boolean_signal(values: ArrayLike) -> _SignalValues:
    """Return 1 for true and 0 for false."""
    booleans = np.asarray(values, dtype=np.bool_)
    numbers = booleans.astype(np.float64)
    return _SignalValues(numbers, numbers, booleans)


def _ranks(measure: _SignalValues, rows: _Rows) -> _Rows:
    """Return the ranks (n,) of some rows by one signal, from 1; 0 for all others. The rows are ascending."""
    ranks = np.zeros(len(measure.values), dtype=np.intp)
    measured_rows = rows[measure.measured[rows]]
    order = np.argsort(-measure.values[measured_rows], kind="stable")
    ranks[measured_rows[order]] = np.arange(1, len(measured_rows) + 1)
    return ranks
