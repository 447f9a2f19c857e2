"""Queries, their filters, and the formula by which signals become one score. No SQL, no protobuf."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

from skein_kit.errors import FieldInvalid
from skein_kit.ids import id_time
from skein_kit.search_text.list_questions import asks_for_all
from skein_kit.text.unicode_form import same_text
from skein_recall.search import ranking, relevance
from skein_recall.search.expansion import embedded_text, word_of_stem
from skein_recall.search.filter import Filter
from skein_recall.search.query_terms import TermStatistics
from skein_recall.search.weights import (
    OLDEST_VERSION,
    SIGNALS,
    TOKENS_WEIGHTS,
    VERSION,
    Fusion,
    Weights,
    compares_tokens,
    version_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime, tzinfo
    from uuid import UUID

    import asyncpg
    from numpy.typing import NDArray

    from skein_kit.filters.expression import Expression
    from skein_kit.policies.store import Policy
    from skein_recall.models.similarity_scale import SimilarityScale
    from skein_recall.search.expansion import QueryExpansion, ReadMention
    from skein_recall.search.query_terms import QueryTerms
    from skein_recall.search.ranking import Candidates, RankedItem, Ranking

    # The row of a memory or message, as a search reads it.
    ItemRow: TypeAlias = asyncpg.Record | dict[str, Any]

# Candidates of each signal at first, whatever the limit, so that a larger one changes no earlier hit. The search goes
# deeper where too few of them may be shown.
CANDIDATES_PER_SIGNAL = 200
# The source of facts that were found in messages.
_EXTRACTOR = "extractor:"
# A shorter text is likely a phrase that many items have.
_MIN_DUPLICATE_CHARACTERS = 20
# What a memory must have that answers a question alone, in times of a message; the share of the best one's for lists.
_ALONE_FACTOR, _LIST_SHARE = 3, 0.05
# Candidates beyond the limit where the vector alone ranks: some may not be shown.
SPARE_HITS = 10
# Signals by which FindSimilar ranks.
_SIMILAR_WEIGHTS = {"dense": Weights().dense, "lexical": Weights().lexical}


class Mode(StrEnum):
    """How a search finds items and scores them."""

    HYBRID = "hybrid"
    KEYWORD = "keyword"
    SEMANTIC = "semantic"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """The name of a stored item: its id, or the external id of an item of a kind."""

    item_id: UUID | None
    external_id: str
    # "memory" or "message".
    kind: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ReferenceItem:
    """A stored item that FindSimilar starts from."""

    item_id: UUID
    text: str
    # Float32, of unit length: the mean of the active model's vectors of its chunks. None where it has none.
    vector: NDArray[np.float32] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """A query: a text, a vector, or both."""

    text: str
    # Float32 of the model's dimensions, of unit length.
    vector: NDArray[np.float32] | None
    limit: int
    kinds: tuple[str, ...]
    filter: Filter
    min_similarity: float
    show_superseded: bool
    # By signal; the others have the tenant's weights.
    weights: Mapping[str, float]
    # Empty: the tenant's.
    fusion: str
    # None: the tenant's.
    min_relevance: float | None = None
    # Items of the same text are hits of their own.
    show_duplicates: bool = False
    mode: Mode = Mode.HYBRID
    # The reference item, which is no hit.
    excluded_id: UUID | None = None
    # Memories whose names the caller may see; None: all.
    name_condition: Expression | None = None
    # Names in the text that have other names.
    mentions: tuple[ReadMention, ...] = ()
    # Words of the text that are no typos, in lower case, because a dictionary has them.
    known_words: frozenset[str] = frozenset()
    # It is answered as it would have been answered then; None: now.
    as_of_time: datetime | None = None
    # The zone of the days that it names; None: the tenant's.
    zone: tzinfo | None = None

    def with_entities(self, entity_ids: AbstractSet[UUID]) -> Self:
        """Return the query without the mentions of other entities."""
        return replace(self, mentions=tuple(each for each in self.mentions if entity_ids >= set(each.entity_ids)))

    def for_agent(self, agent_id: str) -> Self:
        """Return the query for what the credential's agent sees; the query itself for no agent."""
        return self._within("bound_agent", bound_agent_id=agent_id) if agent_id else self

    def for_spaces(self, space_ids: Sequence[UUID] | None) -> Self:
        """Return the query for what lies in some spaces; the query itself for None, in a tenant that has no others."""
        return self if space_ids is None else self._within("space", seen_space_ids=list(space_ids))

    def _within(self, wall: str, **values: object) -> Self:
        conditions, values = (*self.filter.index_conditions, wall), {**self.filter.values, **values}
        return replace(self, filter=replace(self.filter, index_conditions=conditions, values=values))

    def similar_to(self, item: ReferenceItem) -> Self:
        """Return the query for items that are like a stored one, by cosine and BM25 alone."""
        weights = {} if self.mode is not Mode.HYBRID else dict.fromkeys(SIGNALS, 0.0) | _SIMILAR_WEIGHTS
        return replace(self, weights=weights, fusion="scores" if weights else "", excluded_id=item.item_id)

    @property
    def reads_names(self) -> bool:
        """Whether other names of what the text mentions are searched: not in a stored item's text."""
        is_text_used = self.vector is None or self.mode is not Mode.SEMANTIC
        return bool(self.text) and self.excluded_id is None and is_text_used

    def is_typo(self, term: str) -> bool:
        """Whether a term that no document has may be a typo."""
        return self.excluded_id is None and word_of_stem(term, self.text).casefold() not in self.known_words

    @property
    def embedded_text(self) -> str:
        """The text whose meaning is searched: with the other names of what it mentions."""
        return embedded_text(self.text, self.mentions)

    @property
    def is_lexical_only(self) -> bool:
        """Whether the search needs no vector: by its mode, or because the weights leave no signal that does."""
        if self.mode is not Mode.HYBRID:
            return self.mode is Mode.KEYWORD
        by_meaning = [self.weights.get("dense"), self.weights.get("context"), self.weights.get("tokens", 0)]
        return bool(self.text) and all(weight == 0 for weight in by_meaning)

    @property
    def is_dense_only(self) -> bool:
        """Whether the search needs the vector alone: by its mode, or because the weights leave no other signal."""
        if self.mode is not Mode.HYBRID:
            return self.mode is Mode.SEMANTIC
        # Tokens are compared beside the words of the query alone.
        others = SIGNALS - {"dense", "tokens"}
        return all(self.weights.get(signal) == 0 for signal in others) and self.weights.get("dense") != 0

    @property
    def searched_kinds(self) -> tuple[str, ...]:
        """The kinds that are asked for and can pass the filter."""
        return tuple(kind for kind in self.kinds if kind in self.filter.kinds)

    def candidate_count(self, *, uses_terms: bool) -> int:
        """Return how many candidates each signal proposes at first."""
        return CANDIDATES_PER_SIGNAL if uses_terms else self.limit + SPARE_HITS

    def uses_terms(self, *, has_vector: bool) -> bool:
        """Return whether words are searched: not where a vector is there and nothing else counts."""
        return bool(self.text) and not (self.is_dense_only and has_vector)


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoringFormula:
    """The weights and the fusion of one call."""

    weights: Weights
    fusion: Fusion
    # With its version, as a response has it.
    name: str
    # Hits by this formula have a relevance; the lowest one that is shown, and the lowest of the best hit.
    is_calibrated: bool = False
    min_relevance: float = 0.0
    min_best_relevance: float = 0.0
    # The query asks for all of something: its hits are cut by their share of the best one's relevance.
    asks_for_all: bool = False

    @property
    def compares_tokens(self) -> bool:
        """Whether the tokens of the query and of items are compared."""
        return compares_tokens(self.name)

    @property
    def is_former(self) -> bool:
        """Whether it is of a version before, for a replay."""
        return version_of(self.name) < VERSION

    def least_relevance(self, kind: str, *, is_question: bool, best: float) -> float:
        """Return the lowest relevance of a hit of a kind that the policy shows, where the `best` hit has this one."""
        if self.is_former:
            return self.min_relevance
        # The turns of a chat answer together, and a long text asks for nothing in particular.
        least = self.min_relevance if kind == "memory" and is_question else self.min_relevance / _ALONE_FACTOR
        return min(least, _LIST_SHARE * best) if self.asks_for_all else least

    @property
    def puts_newer_first(self) -> bool:
        """Whether hits that say what has changed go before those that they change: where all signals rank."""
        return self.name.startswith(("scores-", "ranks-")) and version_of(self.name) > OLDEST_VERSION

    def has_relevance_of(self, model: str) -> bool:
        """Return whether hits by this formula and the vectors of an embedded model have a relevance."""
        return self.is_calibrated and relevance.is_fitted(version_of(self.name), model)

    def relevances(self, scores: Sequence[float], evidence: relevance.Evidence, model: str) -> list[float]:
        """Return the relevance of each hit, best first, by its score and the evidence that something answers."""
        return relevance.relevances(scores, evidence, version_of(self.name), model)

    @classmethod
    def of(cls, query: Query, policy: Policy, *, model: str, readable_share: float, with_tokens: bool = False) -> Self:
        """Take the caller's weights and fusion, else the tenant's, else the defaults. Raises FieldInvalid.

        `model`: the name by which coefficients of relevance are found; empty for a model that has none.

        Of a text that the model reads in part, cosines have that share of their weight, unless the caller sets them.
        A mode that is not hybrid has a formula of its own, which neither the caller nor the tenant changes.
        `with_tokens`: tokens can be compared, which the fusion of scores does unless their weight is 0.
        """
        if query.mode is not Mode.HYBRID:
            return cls(weights=Weights(), fusion="scores", name=f"{query.mode}-{VERSION}")
        unknown = [("weights", f"{name} is no signal") for name in sorted(query.weights.keys() - SIGNALS)]
        if unknown:
            raise FieldInvalid(violations=unknown)
        fusion = query.fusion or policy.recall_fusion
        name = fusion if query.excluded_id is None else "similar"
        chosen = {**_tenant_weights(policy.recall_weights), **query.weights}
        with_tokens = with_tokens and name == "scores" and chosen.get("tokens") != 0
        if not with_tokens:
            chosen.pop("tokens", None)
        weights = TOKENS_WEIGHTS if with_tokens else Weights()
        if readable_share < 1 and query.vector is None:
            weights = weights.for_meaning(readable_share)
        weights = replace(weights, **chosen)
        if query.weights and not any(asdict(weights).values()):
            raise FieldInvalid(violations=[("weights", "leave no signal")])
        version = relevance.version_for(model if name == "scores" else "", with_tokens=with_tokens)
        return cls(
            weights=weights,
            fusion="rrf" if fusion == "ranks" else "scores",
            name=f"{name}-{version}",
            is_calibrated=name == "scores" and not chosen,
            min_relevance=policy.recall_min_relevance if query.min_relevance is None else query.min_relevance,
            min_best_relevance=policy.recall_min_best_relevance if query.min_relevance is None else 0.0,
            asks_for_all=query.excluded_id is None and asks_for_all(query.text),
        )


@lru_cache(maxsize=1024)
def _tenant_weights(recall_weights: str) -> Mapping[str, float]:
    """Read the weights of a policy; signals of other versions are ignored."""
    weights = json.loads(recall_weights)
    return {name: weight for name, weight in weights.items() if name in SIGNALS}


@dataclass(frozen=True, kw_only=True, slots=True)
class SignalMatches:
    """The candidates that the signals proposed."""

    # None where one signal alone searches.
    candidates: Candidates | None = None
    # Of a vector alone: kind and cosine by item, the nearest first.
    dense_matches: Mapping[UUID, tuple[str, float]] = field(default_factory=dict)
    # Of words alone: kind and BM25 by item, in no order.
    lexical_matches: Mapping[UUID, tuple[str, float]] | None = None
    max_bm25: float = 0.0
    terms: TermStatistics | None = None
    # The items that have a near term in place of a typo, by the term and the near one.
    corrected: Mapping[tuple[str, str], AbstractSet[UUID]] = field(default_factory=dict)
    # A deeper search may find more.
    has_more: bool = False
    # Documents that were searched; with a filter, at most as many as the vector proposed.
    documents: int = 0

    # Of the words that were searched; None where the vector alone searches.
    query_terms: QueryTerms | None = None
    # Of candidates whose tokens were compared.
    ranking: Ranking | None = None

    @property
    def nearest_similarity(self) -> float:
        """The greatest cosine of a candidate that may be a hit; 0 without any."""
        if self.candidates is None:
            return 0.0
        cosines = self.candidates.similarities[self.candidates.eligible]
        return float(np.fmax.reduce(cosines, initial=0.0))

    def __len__(self) -> int:
        if self.lexical_matches is not None:
            return len(self.lexical_matches)
        return len(self.dense_matches if self.candidates is None else self.candidates)

    @property
    def as_candidates(self) -> Candidates:
        """All candidates as `ranking.rank` takes them."""
        if self.candidates is not None:
            return self.candidates
        return ranking.Candidates.of(
            ranking.Candidate(item_id=item_id, kind=kind, similarity=cosine)
            for item_id, (kind, cosine) in self.dense_matches.items()
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchHit:
    """An item with its row, and the older items with the same text."""

    item: RankedItem
    row: ItemRow
    duplicate_ids: tuple[UUID, ...] = ()
    # Older hits since which something has changed that this one says.
    older_ids: tuple[UUID, ...] = ()
    # None where the formula is not calibrated.
    relevance: float | None = None

    @property
    def text_key(self) -> tuple[object, ...] | None:
        """What duplicates have in common: text, speaker and subject. None for a text too short to be a sentence."""
        text = same_text(self.row["content"] or "")
        if len(text) < _MIN_DUPLICATE_CHARACTERS:
            return None
        names = ("name", "role") if self.item.kind == "message" else ("title", "type", "key", "scope", "agent_id")
        return (self.item.kind, text, self.row["subject_id"], *(self.row[name] for name in names))

    @property
    def topic(self) -> tuple[object, ...]:
        """What a hit has in common with one that it changes: speaker or owner, and key."""
        names = ("name", "role", "agent_id") if self.item.kind == "message" else ("title", "key", "scope", "agent_id")
        return (self.item.kind, self.row["subject_id"], *(self.row[name] for name in names))

    @property
    def order_key(self) -> tuple[datetime, UUID]:
        """When it became true, else when it was written; by id, which begins with that time, where both are equal."""
        valid_from = self.row["valid_from_time"] if self.item.kind == "memory" else None
        return valid_from or id_time(self.item.item_id), self.item.item_id

    @property
    def demoted(self) -> SearchHit | None:
        """The hit with a lower score, if it is distrusted; None for any other one."""
        trust = self.row["trust"]
        if trust is None or trust >= ranking.NEUTRAL_TRUST:
            return None
        return replace(self, item=self.item.demote(trust))

    def with_duplicate(self, other: SearchHit) -> SearchHit:
        """Return the hit, which names another one that says no more."""
        return replace(self, duplicate_ids=(*self.duplicate_ids, other.item.item_id, *other.duplicate_ids))

    def merge(self, other: SearchHit) -> SearchHit:
        """Return the newer of two hits of the same text, at the better rank, which names the older one."""
        older, newer = sorted((self, other), key=lambda hit: hit.item.item_id)
        return replace(
            self,
            item=replace(self.item, item_id=newer.item.item_id),
            row=newer.row,
            duplicate_ids=(*self.duplicate_ids, *other.duplicate_ids, older.item.item_id),
        )


def place_of_its_message(hits: Sequence[SearchHit], fact: SearchHit) -> int | None:
    """Return the place of the message whose words an extracted fact is: one statement is one hit. None without such."""
    row = fact.row
    if fact.item.kind != "memory" or not (row["source"] or "").startswith(_EXTRACTOR):
        return None
    origin = (row["session_id"], row["subject_id"])
    places = (
        place
        for place, hit in enumerate(hits)
        if hit.item.kind == "message"
        and (hit.row["session_id"], hit.row["subject_id"]) == origin
        and row["content"] in hit.row["content"]
    )
    return next(places, None)


def best_hits(hits: Sequence[SearchHit], distrusted: Sequence[SearchHit], limit: int) -> list[SearchHit]:
    """Return the best of both, best first. Without distrusted ones the hits stay in their order."""
    if not distrusted:
        return list(hits)
    # The order of equal scores stays.
    return sorted([*hits, *distrusted], key=lambda hit: -hit.item.score)[:limit]


def merge_distrusted(hits: list[SearchHit], distrusted: Sequence[SearchHit]) -> list[SearchHit]:
    """Return the distrusted hits of different texts. Those with the text of a hit become duplicates of it."""
    positions = {key: place for place, hit in enumerate(hits) if (key := hit.text_key) is not None}
    merged: dict[tuple[object, ...], SearchHit] = {}
    for hit in distrusted:
        key = hit.text_key
        if key in positions and key is not None:
            hits[positions[key]] = hits[positions[key]].with_duplicate(hit)
        elif key is None:
            merged["", hit.item.item_id] = hit
        else:
            merged[key] = merged[key].merge(hit) if key in merged else hit
    return list(merged.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchPins:
    """What a receipt says of its search, for a replay."""

    # When it began.
    at: datetime
    # It did not see what was recorded at these times.
    unseen_times: tuple[datetime, ...]
    # Empty in the keyword mode.
    model: str
    formula: ScoringFormula
    scale: SimilarityScale
    language: str
    has_vector: bool
    corpus_documents: int
    corpus_length: int
    # Of each term, in order of the terms.
    term_documents: tuple[int, ...]
    entity_ids: frozenset[UUID]


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchOptions:
    """How the transaction of a search reads."""

    # Its first statements have a filter, whose values decide which index serves them.
    is_filtered: bool = False
    # Its statements see one state.
    repeatable_read: bool = False
    # It reads the items of this time; None: those of the present.
    as_of_time: datetime | None = None
    # Of a replay.
    pins: SearchPins | None = None

    @classmethod
    def of(cls, query: Query, *, repeatable_read: bool, pins: SearchPins | None) -> Self:
        """Return the options for the search of a query."""
        return cls(
            is_filtered=bool(query.filter.all_names),
            repeatable_read=repeatable_read,
            as_of_time=query.as_of_time,
            pins=pins,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class LogPosition:
    """What a transaction sees: the writes of the transactions below `start`, and of some of the following ones."""

    start: int
    # It sees no transaction from start + size on, and none of start + each of gaps.
    size: int
    gaps: tuple[int, ...]

    @classmethod
    def of(cls, start: int, beyond: int, running: Sequence[int]) -> Self:
        """Make the position of a snapshot, from the numbers of transactions."""
        return cls(start=start, size=beyond - start, gaps=tuple(number - start for number in running))


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchBasis:
    """What an answer follows from, beside its request: a search with the same basis has the same hits."""

    at: datetime
    # When it saw the last write.
    position_time: datetime
    position: LogPosition
    formula: ScoringFormula
    scale: SimilarityScale
    language: str
    # None where the vector alone searched.
    terms: QueryTerms | None
    # Entities whose names the query has.
    entity_ids: tuple[UUID, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class RecallResult:
    """The hits, best first, each with its item's row."""

    # Empty in the keyword mode.
    model: str
    # The query needs a vector and has none.
    dense_unavailable: bool
    # How the vectors were searched: "cached", "approximate", "exact", "rescored", or "none".
    dense_path: str
    # The name of the formula.
    formula: str
    hits: list[SearchHit]
    # Conditions that exclude everything.
    excluding_conditions: list[str]
    # More was found than was tested against the filter.
    filter_truncated: bool
    # There were hits, and the relevance of each was too low.
    nothing_relevant: bool
    # Hits were cut as those of a query that asks for all of something.
    asks_for_all: bool
    # Items of the tenant that have no vector yet, counted up to a limit; 0 in the keyword mode.
    pending_count: int
    # Items of the tenant that were known at the query's as_of_time and purged since, counted up to a limit.
    purged_count: int
    expansions: list[QueryExpansion]
    # Only of a search for a receipt.
    basis: SearchBasis | None = None
