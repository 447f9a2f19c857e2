"""The terms of a query with their readings, and their counts in items. No SQL, no protobuf, no clock."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Self
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from skein_kit.search_text.segmentation import joined_words
from skein_recall.search.expansion import MAX_NEAR_TERMS, ReadMention, shared_letters, typo_factor, words_of

# Postings that a query reads: the lists of its rarest terms up to this number, and always the rarest one's. Frequent
# terms have little weight. The items found are measured by every term.
POSTINGS_READ = 8000
# Factors of POSTINGS_READ for repeated attempts where too few items are found.
_READ_FACTORS = (1, 8, 64)
# Constants of BM25, measured on LoCoMo and MADial-Bench; queries.sql has the same.
K1, B = 0.9, 0.75
# Documents of a term that a query counts itself; of longer lists the worker keeps the number.
MAX_COUNTED = 2000
# Weight of a term in the title of an item's session, beside 1 in the item.
TITLE_WEIGHT = 0.25


@dataclass(frozen=True, kw_only=True, slots=True)
class TermStatistics:
    """The query's terms in the tenant."""

    # Inverse document frequency of each term.
    idf: tuple[float, ...]
    # Of the tenant's documents, in stems.
    mean_length: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Term:
    """One term of a query with its other readings, which count as one term (as in Lucene's SynonymQuery)."""

    term: str
    # Documents that have it, or its most frequent reading.
    documents: int
    # Inverse document frequency.
    idf: float
    # Each is one term, or the terms of a name, which must all occur.
    readings: tuple[tuple[str, ...], ...] = ()
    # The share of the weight that a match has: less than 1 for near terms in place of a typo.
    factor: float = 1.0

    @property
    def is_corrected(self) -> bool:
        """Whether the readings are near terms in place of a typo."""
        return self.factor < 1

    def read_as(self, readings: Sequence[tuple[str, ...]], counts: Mapping[str, int], all_documents: int) -> Term:
        """Return the term with other readings, by the numbers of documents of each term and of the corpus."""
        documents = max([self.documents, *(min(counts[part] for part in reading) for reading in readings)])
        idf = idf_of(min(documents, all_documents), all_documents)
        return replace(self, readings=tuple(readings), documents=documents, idf=idf)


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryTerms:
    """A query's terms, the rarest first, and the mean length of the tenant's documents in stems."""

    terms: tuple[Term, ...]
    mean_length: float
    # Documents of each term and of each term of a reading, the rarest first.
    counts: Mapping[str, int]
    # Canonical memories by the terms of a name that means them; the terms count as words of their headers.
    entities: Mapping[str, AbstractSet[UUID]] = field(default_factory=dict)
    # Documents of the corpus.
    corpus_documents: int = 1

    @classmethod
    def of_counts(cls, counts: Mapping[str, int], documents: int, length: int) -> Self:
        """Make the terms of a query without other readings, by their numbers of documents and by the whole corpus."""
        return cls.with_readings(list(counts), counts, documents, length, {}, {}, ())

    @classmethod
    def with_readings(
        cls,
        own_terms: Sequence[str],
        counts: Mapping[str, int],
        documents: int,
        length: int,
        names: Mapping[str, list[tuple[str, ...]]],
        near: Mapping[str, tuple[int, list[str]]],
        mentions: Sequence[ReadMention],
    ) -> Self:
        """Make the terms of a query, each with the other names and near terms that some document has.

        `counts` has the documents of each term and of each term of a reading; `documents` and `length` are of all
        documents.
        """
        documents = max(1, documents)
        terms = [
            # Outdated counts may exceed the number of documents.
            Term(term=term, documents=counts[term], idf=idf_of(min(counts[term], documents), documents))
            for term in own_terms
        ]
        if names or near:
            terms = [with_readings(term, names, near, counts, documents) for term in terms]
        used = {part for term in terms for reading in ((term.term,), *term.readings) for part in reading}
        terms.sort(key=lambda term: (term.documents, term.term))
        entities = {
            term.term: {entity_id for read in mentions if term.term in read.stems for entity_id in read.entity_ids}
            for term in terms
        }
        return cls(
            terms=tuple(terms),
            mean_length=max(1.0, length / documents),
            counts=dict(sorted(((term, counts[term]) for term in used), key=lambda item: (item[1], item[0]))),
            entities={term: entity_ids for term, entity_ids in entities.items() if entity_ids},
            corpus_documents=documents,
        )

    @property
    def max_bm25(self) -> float:
        """The upper bound of BM25 for this query."""
        return (K1 + 1) * sum(term.idf for term in self.terms)

    @property
    def entity_ids(self) -> set[UUID]:
        """The canonical memories that the query names."""
        return {entity_id for entity_ids in self.entities.values() for entity_id in entity_ids}

    @property
    def weights(self) -> tuple[float, ...]:
        """The weight of each term."""
        return tuple(term.idf * term.factor for term in self.terms)

    def bm25(self, items: ItemMeasurements) -> NDArray[np.float64]:
        """Return BM25 (n,) of n items, each alone, with its header."""
        idf = np.array(self.weights)
        frequencies = items.frequencies + items.header_frequencies
        free = K1 * (1 - B + B * items.lengths / self.mean_length)
        bm25: NDArray[np.float64] = (idf * (K1 + 1) * frequencies / (frequencies + free[:, np.newaxis])).sum(axis=1)
        return bm25

    def frequencies(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the counts of the terms (n, terms) with their readings, from those of all `self.counts` (n, counts).

        A name occurs as often as the rarest of its words.
        """
        column = dict(zip(self.counts, range(len(self.counts)), strict=True))
        frequencies = counts[:, np.array([column[term.term] for term in self.terms], dtype=np.intp)]
        for index, term in enumerate(self.terms):
            for reading in term.readings:
                frequencies[:, index] += counts[:, [column[part] for part in reading]].min(axis=1)
        return frequencies

    def index_weights(self, terms: Iterable[Term]) -> dict[str, float]:
        """Return the weights by which the lists of postings of some terms are searched.

        It is less exact than `bm25`: readings are added up, and each word of a name has its share.
        """
        weights: dict[str, float] = {}
        for term in terms:
            for reading in ((term.term,), *term.readings):
                for part in reading:
                    weights[part] = weights.get(part, 0.0) + term.idf * term.factor / len(reading)
        return weights

    def rarest(self, postings: int) -> tuple[Term, ...]:
        """Return the rarest terms with up to so many postings together, at least one."""
        sums = accumulate(sum(self.counts[part] for part in self.index_weights([term])) for term in self.terms)
        return self.terms[: max(1, sum(read <= postings for read in sums))]

    def attempts(self) -> list[tuple[Term, ...]]:
        """Return the terms whose lists are read first, and those of the repeated attempts."""
        attempts = dict.fromkeys(self.rarest(POSTINGS_READ * factor) for factor in _READ_FACTORS)
        return [attempt for attempt in attempts if attempt]


# Of a query of stop words.
NO_TERMS = QueryTerms(terms=(), mean_length=1.0, counts={})


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemMeasurements:
    """n items and their neighbours, column by column, in order of their ids."""

    item_ids: list[UUID]
    kinds: list[str]
    # float64 (n,), in stems.
    lengths: NDArray[np.float64]
    # bool (n,): the text ends with a question; it mentions a time.
    is_question: NDArray[np.bool_]
    is_assistant: NDArray[np.bool_]
    mentions_time: NDArray[np.bool_]
    # bool (n,): written since the horizon, if there is one.
    changed: NDArray[np.bool_]
    # float64 (n, terms): counts of the query's terms in the text, and in the header.
    frequencies: NDArray[np.float64]
    header_frequencies: NDArray[np.float64]
    # The items that have a near term in place of a typo, by the term and the near one.
    corrected: Mapping[tuple[str, str], set[UUID]]
    # intp (n,): the row of the item right before each item around a centre, in its session; -1 where none is known.
    previous: NDArray[np.intp]
    # Items of the tenant that have no vector yet, counted up to a limit.
    pending_count: int


def rows_of_previous(item_ids: Sequence[UUID], previous: Mapping[UUID, UUID | None]) -> NDArray[np.intp]:
    """Return the row (n,) of the item before each of n items, from the ids; -1 where it is none of them."""
    row_of = dict(zip(item_ids, range(len(item_ids)), strict=True))
    rows = (row_of.get(before, -1) if (before := previous.get(item_id)) else -1 for item_id in item_ids)
    return np.fromiter(rows, np.intp, len(item_ids))


def names_by_term(terms: Iterable[str], mentions: Sequence[ReadMention]) -> dict[str, list[tuple[str, ...]]]:
    """Return the stems of the other names of what a query mentions, by each term of the written name.

    A name of several words is read as its words together, wherever they are in an item. So each word of a written name
    matches an item with a one-word alias; and the alias matches an item with all words of the name, but none with some.
    """
    names: dict[str, list[tuple[str, ...]]] = {}
    for term in terms:
        for mention in mentions:
            if term in mention.stems:
                names.setdefault(term, []).extend(name.stems for name in mention.others if name.stems != (term,))
    return names


def reading_parts(names: Mapping[str, list[tuple[str, ...]]], near: Mapping[str, tuple[int, list[str]]]) -> set[str]:
    """Return every term of the names and near terms."""
    parts = {part for stems_of_names in names.values() for stems in stems_of_names for part in stems}
    return parts.union(*(others for _, others in near.values()))


def with_readings(
    term: Term,
    names: Mapping[str, list[tuple[str, ...]]],
    near: Mapping[str, tuple[int, list[str]]],
    counts: Mapping[str, int],
    documents: int,
) -> Term:
    """Return a term with its readings that some document has: other names, else the most frequent near terms."""
    readings = [stems for stems in dict.fromkeys(names.get(term.term, ())) if all(counts[part] for part in stems)]
    if not readings and term.term in near:
        edits, others = near[term.term]
        frequent = sorted((other for other in others if counts[other]), key=lambda other: (-counts[other], other))
        readings = [(other,) for other in frequent[:MAX_NEAR_TERMS]]
        if readings:
            term = replace(term, factor=typo_factor(term.term, edits))
    return term.read_as(readings, counts, documents) if readings else term


def without_absent_joins(counts: Mapping[str, int], text: str) -> dict[str, int]:
    """Return the documents of a query's terms without the joined words that no document has.

    Their parts are terms too. So "TCP/IP" asks for no more than "TCP IP", and is no typo of anything.
    """
    if all(counts.values()) or not (wholes := joined_words(text)):
        return dict(counts)
    words = words_of(text)
    return {
        term: count
        for term, count in counts.items()
        if count or _shared_most(term, wholes) <= _shared_most(term, words)
    }


def _shared_most(term: str, words: Iterable[str]) -> int:
    """Return how many letters a term shares with the beginning of the word that is most like it."""
    return max((shared_letters(term, word) for word in words), default=0)


def corrected_items(
    terms: QueryTerms, item_ids: Sequence[UUID], counts: NDArray[np.float64]
) -> dict[tuple[str, str], set[UUID]]:
    """Return the items that have a near term in place of a typo, by the counts of all terms (n, terms.counts)."""
    column = dict(zip(terms.counts, range(len(terms.counts)), strict=True))
    return {
        (term.term, other): {item_ids[row] for row in np.flatnonzero(counts[:, column[other]]).tolist()}
        for term in terms.terms
        if term.is_corrected
        for (other,) in term.readings
    }


def idf_of(documents: int, all_documents: int) -> float:
    """Return the inverse document frequency, in the form of BM25 that is never negative."""
    return math.log(1 + (all_documents - documents + 0.5) / (documents + 0.5))
