"""How the signals of a search become one score. Pure: no database, no protobuf, no clock.

Each measure is scaled by the bounds that it has in theory, not by the best and worst of one answer, so that scores of
separate calls mean the same and may be merged: the cosine as it is, BM25 as a share of what no document could pass for
the query (Bruch et al., "An Analysis of Fusion Functions for Hybrid Retrieval", 2023). The score is the weighted sum.

What was said right before and after an entry tells what it is about, so words and meaning are also measured over its
neighbours, and an entry that follows a question that matches is likely the answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from skein_recall.query.cues import QueryCues

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date
    from uuid import UUID

    from numpy.typing import ArrayLike, NDArray

    from skein_recall.query.candidates import Candidates

    _Numbers: TypeAlias = NDArray[np.float64]
    _Rows: TypeAlias = NDArray[np.intp]

# Raised with every change of what follows, so that scores of different times are not compared.
VERSION: Final = 2

# How many neighbours count on each side, and what one counts for its words: half of the entry itself, then a quarter.
NEIGHBOURS: Final = (0.5, 0.25)
# What the words of an entry and all its neighbours count together, in entries.
_WINDOW: Final = 1 + 2 * sum(NEIGHBOURS)
# BM25's constants; search.sql has the same.
_K1: Final = 1.2
_B: Final = 0.75
# An entry of so many words (stems) says enough; below, it is likely a phrase of courtesy.
_LONG_ENOUGH: Final = 15
# An entry so far from the date in question is worth half of one at the date.
_HALF_DAYS: Final = 7
# The constant of reciprocal-rank fusion (Cormack et al., "Reciprocal Rank Fusion", 2009).
_RRF_K: Final = 60

Fusion: TypeAlias = Literal["scores", "rrf"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Weights:
    """What each signal counts; 0 switches one off. Those that a query can ask for are scaled to sum to 1."""

    # Cosine of query and entry; the mean of the same over the entry and its neighbours.
    dense: float = 0.20
    context: float = 0.10
    # BM25 over the words of the entry and, counting less, of its neighbours.
    lexical: float = 0.40
    # How well the entry right before matches, when that ends with a question.
    reply: float = 0.12
    # The entry does not end with a question; it is longer than a phrase.
    statement: float = 0.02
    length: float = 0.05
    # The question wants a time and the entry tells one.
    time: float = 0.05
    # The question names a date and the entry was created near it.
    date: float = 0.15

    def __post_init__(self) -> None:
        given = [getattr(self, signal) for signal in self.__dataclass_fields__]
        if not all(math.isfinite(weight) and weight >= 0 for weight in given):
            raise ValueError("A weight is a finite number that is not negative.")


_DEFAULT: Final = Weights()
SIGNALS: Final = frozenset(Weights.__dataclass_fields__)
# Ranks count the same.
_EVEN: Final = Weights(dense=1.0, lexical=1.0)
_NO_CUES: Final = QueryCues()


@dataclass(frozen=True, kw_only=True, slots=True)
class TermStatistics:
    """The query's terms, by their place: each one's inverse document frequency in the tenant."""

    idf: tuple[float, ...]
    # Of the tenant's entries, in stems.
    mean_length: float


class Component(NamedTuple):
    """One signal's part of a score: weight times value."""

    signal: str
    raw: float
    value: float
    weight: float
    # Place among the ranked items by this signal alone, from 1; 0 when it did not find the item.
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
    _told: _Table | tuple[Component, ...] = field(repr=False, compare=False)
    _row: int = field(default=0, repr=False, compare=False)

    @property
    def components(self) -> tuple[Component, ...]:
        """What each signal that the query asked has to do with the score."""
        return self._told if isinstance(self._told, tuple) else self._told.components(self._row)


def rank(  # noqa: PLR0913 - what was found, what was asked, and by which formula: all of it by name.
    candidates: Candidates,
    *,
    dense: bool,
    max_bm25: float,
    limit: int,
    min_similarity: float = 0.0,
    terms: TermStatistics | None = None,
    cues: QueryCues = _NO_CUES,
    weights: Weights = _DEFAULT,
    fusion: Fusion = "scores",
) -> list[RankedItem]:
    """Return the best candidates, best first; equal scores are ordered by cosine, then by id.

    `dense` says that there was a vector to compare with; `max_bm25` is the bound of BM25 for the query, 0 without
    terms: then the cosine alone decides. Without `terms` nothing is known of neighbours and texts, and the signals that
    need it are not asked. Candidates below `min_similarity` are left out, and so are those without a similarity when it
    is not 0; they still lend their neighbours context.
    """
    pool = _Pool(candidates, dense=dense, max_bm25=max_bm25, terms=terms, cues=cues)
    rows = pool.found(min_similarity)
    if not len(rows):
        return []
    measures = pool.measures(weights) if fusion == "scores" else pool.places(rows)
    shares = _shares(measures, weights if fusion == "scores" else _EVEN)
    scores = np.zeros(len(candidates))
    for signal, share in shares.items():
        scores += share * measures[signal].values
    best = pool.ordered(rows, scores)[:limit]
    table = _Table(measures, shares, best)
    return [
        RankedItem(
            item_id=candidates.item_ids[row],
            kind=candidates.kinds[row],
            similarity=None if math.isnan(similarity) else similarity,
            score=score,
            has_words=None if terms is None else bm25 > 0,
            _told=table,
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


def by_cosine(near: Mapping[UUID, tuple[str, float]], *, limit: int, min_similarity: float = 0.0) -> list[RankedItem]:
    """Rank items, given with their kinds and cosines, as `rank` does where there is nothing else to go by.

    For the few that a vector alone finds it is a third of the work. Components tell the places of those that point away
    from the query by their cosines as well, where `rank` has them by their ids.
    """
    least = min_similarity if min_similarity > 0 else -math.inf
    found = [(-cosine, item_id, kind) for item_id, (kind, cosine) in near.items() if cosine >= least]
    return [
        RankedItem(
            item_id=item_id,
            kind=kind,
            similarity=-distance,
            score=(score := min(1.0, max(0.0, -distance))),
            has_words=None,
            _told=(Component("dense", -distance, score, 1.0, place),),
        )
        for place, (distance, item_id, kind) in enumerate(sorted(found)[:limit], start=1)
    ]


def by_words(matches: Mapping[UUID, tuple[str, float]], *, max_bm25: float, limit: int) -> list[RankedItem]:
    """Rank items by their own words alone: `matches` has the kind and the BM25, above 0, of each item.

    The score is the share of `max_bm25`, which no item can pass. Equal scores are ordered by id.
    """
    ordered = sorted((-bm25, item_id, kind) for item_id, (kind, bm25) in matches.items())
    return [
        RankedItem(
            item_id=item_id,
            kind=kind,
            similarity=None,
            score=(score := min(1.0, -negative / max_bm25)),
            has_words=True,
            _told=(Component("lexical", -negative, score, 1.0, place),),
        )
        for place, (negative, item_id, kind) in enumerate(ordered[:limit], start=1)
    ]


def select_centres(
    item_ids: Iterable[UUID],
    similarities: Mapping[UUID, float],
    bm25s: Mapping[UUID, float],
    max_bm25: float,
    *,
    count: int,
) -> list[UUID]:
    """Return up to `count` items that are likely the best, by the cosines and BM25 that are known of them so far."""

    def estimate(item_id: UUID) -> float:
        return 0.4 * similarities.get(item_id, 0.0) + 0.6 * bm25s.get(item_id, 0.0) / (max_bm25 or 1.0)

    return sorted(item_ids, key=lambda item_id: (-estimate(item_id), item_id))[:count]


def _shares(asked: Iterable[str], weights: Weights) -> dict[str, float]:
    """Return what each signal asked counts, together 1; those that count nothing are missing.

    Should the weights switch off all that there is to go by, all of it counts the same.
    """
    given = {signal: getattr(weights, signal) for signal in asked}
    counting = {signal: weight for signal, weight in given.items() if weight > 0} or dict.fromkeys(given, 1.0)
    total = sum(counting.values())
    return {signal: weight / total for signal, weight in counting.items()}


class _Measure(NamedTuple):
    """What one signal says of each candidate, by its row."""

    raw: _Numbers
    # The same between 0 and 1.
    values: _Numbers
    # Whether it says anything.
    found: NDArray[np.bool_]


class _Table:
    """All measures of one ranking, from which components are made for those who look at them."""

    def __init__(self, measures: Mapping[str, _Measure], shares: Mapping[str, float], best: _Rows) -> None:
        self._measures = measures
        self._shares = shares
        self._best = best
        self._places: dict[str, _Rows] = {}

    def components(self, row: int) -> tuple[Component, ...]:
        return tuple(
            Component(
                signal=signal,
                raw=float(self._measures[signal].raw[row]),
                value=float(self._measures[signal].values[row]),
                weight=share,
                rank=self._place(signal, row),
            )
            for signal, share in self._shares.items()
        )

    def _place(self, signal: str, row: int) -> int:
        if signal not in self._places:
            self._places[signal] = _places(self._measures[signal], np.sort(self._best))
        return int(self._places[signal][row])


class _Pool:
    """The candidates of one query as each other's neighbours, and what each signal measures of them.

    Each has a row, in order of their ids, so that nothing depends on how they came; the last row is that of nobody.
    """

    def __init__(
        self, candidates: Candidates, *, dense: bool, max_bm25: float, terms: TermStatistics | None, cues: QueryCues
    ) -> None:
        self._candidates = candidates
        self._dense = dense
        self._max_bm25 = max_bm25
        self._terms = terms
        self._cues = cues
        self._embedded = ~np.isnan(candidates.similarities)
        self._cosines = np.where(self._embedded, candidates.similarities, 0.0)

    def found(self, min_similarity: float) -> _Rows:
        """Return the rows of those that may be an answer."""
        passing = self._candidates.eligible
        if min_similarity > 0:
            passing = passing & self._embedded & (self._cosines >= min_similarity)
        return np.flatnonzero(passing)

    def ordered(self, rows: _Rows, scores: _Numbers) -> _Rows:
        """Order rows by score, then by cosine: scores take all that point away from the query for the same."""
        return rows[np.lexsort((-self._cosines[rows], -scores[rows]))]

    def measures(self, weights: Weights) -> dict[str, _Measure]:
        """Measure the candidates by each signal that the query can ask for."""
        measures = self._alone()
        if self._max_bm25 <= 0:
            return measures
        if self._terms is not None:
            measures |= self._around(self._terms, measures, weights)
        if self._cues.wants_time:
            measures["time"] = _told(self._candidates.tells_time)
        if self._cues.spans:
            measures["date"] = self._near_date()
        return measures

    def places(self, rows: _Rows) -> dict[str, _Measure]:
        """Measure them by their places alone, by meaning and by words: each as a share of what the first is worth."""
        return {
            signal: measure._replace(values=np.where(place > 0, (_RRF_K + 1) / (_RRF_K + place), 0.0))
            for signal, measure in self._alone().items()
            for place in [_places(measure, rows)]
        }

    def _alone(self) -> dict[str, _Measure]:
        """Measure meaning and words of each item alone, as far as the query has them."""
        measures: dict[str, _Measure] = {}
        if self._dense:
            measures["dense"] = _Measure(self._cosines, np.clip(self._cosines, 0.0, 1.0), self._embedded)
        if self._max_bm25 > 0:
            measures["lexical"] = self._words(self._candidates.bm25)
        return measures

    def _words(self, bm25: _Numbers) -> _Measure:
        return _Measure(bm25, np.minimum(1.0, bm25 / self._max_bm25), bm25 > 0)

    def _around(self, terms: TermStatistics, alone: Mapping[str, _Measure], weights: Weights) -> dict[str, _Measure]:
        """Measure by what stands around each item, and by what kind of text it is."""
        before, after = self._neighbours()
        nobody = len(self._candidates)
        near = [before, after, before[before], after[after]]
        counts = [weight for weight in NEIGHBOURS for _ in range(2)]
        lengths, asking = self._candidates.lengths, self._candidates.asks
        measures = {
            "lexical": self._words(self._windowed(terms, lengths, list(zip(counts, near, strict=True)))),
            "reply": self._replies(before[:nobody], asking, alone, weights),
            "statement": _told(~asking),
            "length": _Measure(lengths, np.minimum(1.0, lengths / _LONG_ENOUGH), lengths > 0),
        }
        if self._dense:
            measures["context"] = self._context(near)
        return measures

    def _neighbours(self) -> tuple[_Rows, _Rows]:
        """Return the rows of the items right before and right after each."""
        nobody = len(self._candidates)
        row_of = dict(zip(self._candidates.item_ids, range(nobody), strict=True))
        before = np.full(nobody + 1, nobody)
        after = np.full(nobody + 1, nobody)
        known = [(row_of.get(one), row_of.get(other)) for one, other in self._candidates.previous.items()]
        steps = np.array([step for step in known if None not in step], dtype=np.intp).reshape(-1, 2)
        before[steps[:, 0]] = steps[:, 1]
        # Should several name the same one, the last of them follows it.
        last = steps[np.argsort(steps[:, 0], kind="stable")]
        after[last[:, 1]] = last[:, 0]
        return before, after

    def _windowed(self, terms: TermStatistics, lengths: _Numbers, near: Sequence[tuple[float, _Rows]]) -> _Numbers:
        """BM25 of each item and its neighbours as one text; a place of the window that nobody fills counts as empty.

        What stands alone is measured alone.
        """
        nobody = len(self._candidates)
        own = np.zeros((nobody + 1, len(terms.idf)))
        own[:nobody, : self._candidates.frequencies.shape[1]] = self._candidates.frequencies
        own_length = np.append(lengths, 0.0)
        said, length = own.copy(), own_length.copy()
        is_alone = np.ones(nobody + 1, dtype=np.bool_)
        for weight, rows in near:
            said += weight * own[rows]
            length += weight * own_length[rows]
            is_alone &= rows == nobody
        is_alone[:nobody] |= ~self._candidates.are_read
        free = _K1 * (1 - _B + _B * length / (_WINDOW * terms.mean_length))
        bm25: _Numbers = (np.array(terms.idf) * said * (_K1 + 1) / (said + free[:, np.newaxis])).sum(axis=1)
        return np.where(is_alone[:nobody], self._candidates.bm25, bm25[:nobody])

    def _context(self, near: Iterable[_Rows]) -> _Measure:
        """The mean cosine of each item and its neighbours, of those that have one."""
        cosines = np.append(self._cosines, 0.0)
        embedded = np.append(self._embedded, False).astype(np.float64)
        total, number = cosines.copy(), embedded.copy()
        for rows in near:
            total += cosines[rows]
            number += embedded[rows]
        mean = (total / np.maximum(number, 1.0))[:-1]
        return _Measure(mean, np.clip(mean, 0.0, 1.0), number[:-1] > 0)

    def _replies(
        self, before: _Rows, asking: NDArray[np.bool_], alone: Mapping[str, _Measure], weights: Weights
    ) -> _Measure:
        """How well the question matches, by meaning and words, that each item follows."""
        match = np.zeros(len(before) + 1)
        for signal, share in _shares(alone, weights).items():
            match[:-1] += share * alone[signal].values
        replies = np.append(asking, False)[before]
        values = np.where(replies, np.minimum(1.0, match[before]), 0.0)
        return _Measure(values, values, replies)

    def _near_date(self) -> _Measure:
        """How near each item's creation is to a date that the question names; raw, in days."""
        known: dict[date, int | None] = {}
        days: list[float] = []
        for create_time in self._candidates.create_times:
            day = None if create_time is None else create_time.astimezone(UTC).date()
            if day is not None and day not in known:
                known[day] = self._cues.days_from(day)
            gap = None if day is None else known[day]
            days.append(math.inf if gap is None else gap)
        raw = np.array(days)
        return _Measure(np.where(np.isfinite(raw), raw, 0.0), 1 / (1 + raw / _HALF_DAYS), np.isfinite(raw))


def _told(said: ArrayLike) -> _Measure:
    """Measure by yes and no."""
    found = np.asarray(said, dtype=np.bool_)
    numbers = found.astype(np.float64)
    return _Measure(numbers, numbers, found)


def _places(measure: _Measure, rows: _Rows) -> _Rows:
    """Return by row the place of each of some rows, which stand in order, from 1; 0 for all others."""
    places = np.zeros(len(measure.values), dtype=np.intp)
    found = rows[measure.found[rows]]
    places[found[np.argsort(-measure.values[found], kind="stable")]] = np.arange(1, len(found) + 1)
    return places
