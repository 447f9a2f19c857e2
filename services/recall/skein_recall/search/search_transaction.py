"""One search in its transaction: the candidates of all signals, or of words alone, ranked, and the best read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from skein_kit.dates.date_words import LANGUAGES
from skein_kit.errors import ReadTooCostly
from skein_kit.ids import id_time, now
from skein_kit.policies.store import Policy
from skein_kit.search_text.postings import is_name
from skein_recall.models.model import EmbeddingModel
from skein_recall.providers.provider import QueryEmbedding
from skein_recall.providers.text_embedder import MAX_QUESTION_CHARACTERS
from skein_recall.search import changes, ranking
from skein_recall.search.changes import newer_first
from skein_recall.search.cues import QueryCues
from skein_recall.search.expansion import QueryExpansion, Reason, alias_expansions, word_of_stem
from skein_recall.search.filter import WALLS, Filter
from skein_recall.search.late_interaction import COMPARED_ITEMS, compare_tokens
from skein_recall.search.model import (
    CANDIDATES_PER_SIGNAL,
    SPARE_HITS,
    Mode,
    Query,
    ScoringFormula,
    SearchBasis,
    SearchHit,
    SignalMatches,
    best_hits,
    merge_distrusted,
    place_of_its_message,
)
from skein_recall.search.nearest import Nearest, NearestSearch
from skein_recall.search.neighbours import FORMER_REACH, REACH
from skein_recall.search.query_terms import ItemMeasurements, QueryTerms, TermStatistics
from skein_recall.search.ranking import Candidates, RankedItem, Ranking
from skein_recall.search.relevance import Evidence
from skein_recall.search.store import QueryTransaction
from skein_recall.term_cache.cache import TermCache
from skein_recall.term_cache.words import CachedWords, read_cached_words
from skein_recall.vector_cache.cache import VectorCache
from skein_recall.vector_cache.matrix import Shortlist

# Neighbours are measured of this many of the best candidates.
CONTEXT_CENTRES = 60
# Where many items may not be shown, at most this many more are read at once.
_MAX_SPARE = 1000
_DEPTH_FACTOR = 8
# Candidates of each signal that are tested on their rows.
_MAX_FILTERED = 5000
_MAX_CANDIDATES = 100_000
# A longer query is a text, not a question: the relevance was fitted to questions and the last turns of dialogues.
_MAX_CALIBRATED_CHARACTERS = 1000
# Share of the query's letters that the model must read.
_MIN_READABLE_SHARE = 0.5
# Only the beginning of a long text is likely a question.
_READ_CHARACTERS: Final = 1000
# A capital within a sentence.
_NAME: Final = re.compile(r"(?:(?<=[^\W\d_] )|(?<=[,;:] ))[A-Z\u00c0-\u00de][^\W\d_]{2,}")
_DATE_WORDS: Final = frozenset(word for language in LANGUAGES for word in (*language.months, *language.weekdays))
# Languages that write each noun with a capital.
_WITH_CAPITALS: Final = frozenset({"german"})


class SearchTransaction:
    """One query in one transaction."""

    def __init__(
        self,
        tx: QueryTransaction,
        model: EmbeddingModel,
        query: Query,
        embedding: QueryEmbedding | None,
        vector_cache: VectorCache,
        shortlist: Shortlist | None,
        policy: Policy,
        at: datetime,
    ) -> None:
        """Raises FieldInvalid for weights that name or leave no signal."""
        self._tx = tx
        self._model = model
        self._query = query
        # The items that have a near term in place of a typo, by the term and the near one.
        self._corrected: Mapping[tuple[str, str], AbstractSet[UUID]] = {}
        self._terms: QueryTerms | None = None
        # Documents that were searched, as far as they are known, and the greatest cosine with one that may be a hit.
        self._documents = 0
        self._nearest_similarity = 0.0
        vector = self._vector = None if embedding is None else embedding.vector
        self._search = NearestSearch(tx, model, query, vector, vector_cache, shortlist, at)
        # Set when the term cache searches the words.
        self._words: CachedWords | None = None
        self._uses_terms = query.uses_terms(has_vector=vector is not None)
        # A query of stop words has none.
        self._has_terms = False
        self._at = at
        readable_share = model.readable_share(query.text)
        self.formula = ScoringFormula.of(query, policy, model=model.calibrated_name, readable_share=readable_share)
        self._language = policy.search_language
        # Of the query, where they are compared with those of items.
        self._tokens = None if embedding is None else embedding.tokens
        # The formula with tokens, for a search that finds items with such.
        self._tokens_formula = ScoringFormula.of(
            query,
            policy,
            model=model.calibrated_name,
            readable_share=readable_share,
            with_tokens=policy.recall_token_vectors,
        )
        if tx.pins is not None:
            self.formula = self._tokens_formula = tx.pins.formula
            self._language = tx.pins.language
        self._cues = QueryCues.of(query.text, at, query.zone or policy.zone)
        # A vector asks for vectors, and an item that is searched for its likes must find its copies.
        self._merges_duplicates = bool(query.text) and not query.show_duplicates and query.excluded_id is None
        # A query for a time, or for what was before, asks for no change since.
        self._puts_newer_first = (
            bool(query.text) and self.formula.puts_newer_first and not (self._cues.dates or self._cues.asks_for_former)
        )
        # Items without a vector, if a statement of the search counted them.
        self._pending_count: int | None = None

    def with_relevance(self, hits: list[SearchHit]) -> list[SearchHit]:
        """Return the hits that are relevant enough, each with its relevance; none if the best one answers nothing.

        It is not known by another formula, and of items that have no vector yet; those stay.
        """
        model = self._model.calibrated_name
        is_known = self._has_terms and self._vector is not None and self.formula.has_relevance_of(model)
        is_known = is_known and len(self._query.text) <= _MAX_CALIBRATED_CHARACTERS
        # Of a text that the model reads in part, low cosines say nothing.
        is_known = is_known and self._model.readable_share(self._query.text) >= _MIN_READABLE_SHARE
        if not is_known:
            return hits
        relevances = self.formula.relevances([hit.item.score for hit in hits], self._evidence(), model)
        answers = not hits or hits[0].item.similarity is None or relevances[0] >= self.formula.min_best_relevance
        return [
            hit if hit.item.similarity is None else replace(hit, relevance=relevance)
            for hit, relevance in zip(hits, relevances, strict=True)
            if hit.item.similarity is None or (answers and relevance >= self._least_relevance(hit.item, relevances[0]))
        ]

    def _evidence(self) -> Evidence:
        terms, text, person_id = self._terms, self._query.text, self._query.filter.person_id
        return Evidence(
            documents=self._documents,
            nearest=self._nearest_similarity,
            unknown_names=0.0 if terms is None else unknown_name_share(text, terms, self._language, person_id),
        )

    def _least_relevance(self, item: RankedItem, best: float) -> float:
        if self._query.min_relevance is not None:
            return self.formula.min_relevance
        if self._terms is not None and item.item_id in self._terms.entity_ids and not self.formula.is_former:
            # The query names it.
            return 0.0
        is_question = len(self._query.text) <= MAX_QUESTION_CHARACTERS
        return self.formula.least_relevance(item.kind, is_question=is_question, best=best)

    def expansions(self, hits: Sequence[SearchHit]) -> list[QueryExpansion]:
        """Tell what the query was read as too; of near terms only what a hit has, because others may be hidden."""
        expansions = dict.fromkeys(alias_expansions(self._query.text, self._query.mentions))
        for (term, other), item_ids in self._corrected.items():
            row = next((hit.row for hit in hits if hit.item.item_id in item_ids), None)
            if row is not None:
                text = " ".join(row[name] or "" for name in ("title", "key", "content") if name in row)
                written = word_of_stem(term, self._query.text)
                expansions[QueryExpansion(written, word_of_stem(other, text), Reason.TYPO)] = None
        return list(expansions)

    async def read_cached_words(self, cache: TermCache, tenant_id: UUID) -> None:
        """Search words in the term cache from now on, if it has the tenant and the query needs nothing else."""
        query = self._query
        if not self._uses_terms or query.filter.has_index_conditions or not query.searched_kinds:
            return
        new_vectors = self._search.new_vectors()
        words = await read_cached_words(cache, self._tx, tenant_id, self._model, query, self._language, new_vectors)
        self._words = self._search.words = words

    @property
    def path(self) -> str:
        """How the nearest items were found."""
        return self._search.path

    async def hits(self) -> tuple[list[SearchHit], bool]:
        """Return the best items that may be shown, and whether some were not tested against the filter."""
        hits, is_truncated = await self._find_hits()
        if self._puts_newer_first:
            hits = newer_first(hits, self._query.text)
        return hits[: self._query.limit], is_truncated

    async def _find_hits(self) -> tuple[list[SearchHit], bool]:
        """Return the best items that may be shown, beyond the limit where a newer one may take the place of another.

        The search goes deeper until there are enough items that may be shown, or no more candidates.
        """
        query = self._query
        limit = max(query.limit, changes.MAX_HITS) if self._puts_newer_first else query.limit
        depth = query.candidate_count(uses_terms=self._uses_terms)
        is_tested = bool(query.filter.row_tests(query.searched_kinds))
        max_depth = _MAX_FILTERED if is_tested else _MAX_CANDIDATES
        hits: list[SearchHit] = []
        while True:
            try:
                matches = await self._collect_candidates(query.filter, query.searched_kinds, depth)
                matches = await self._compare_tokens(matches)
            except ReadTooCostly:
                if hits:
                    # Deeper candidates would scan more than a call may.
                    return hits, True
                raise
            self._corrected = matches.corrected
            self._terms, self._documents = matches.query_terms, matches.documents
            self._nearest_similarity = matches.nearest_similarity
            trusted, distrusted = await self._read_hits(self._rank(matches, limit + SPARE_HITS), query.filter, limit)
            if len(trusted) < limit and limit + SPARE_HITS < len(matches):
                trusted, distrusted = await self._read_hits(self._rank(matches, len(matches)), query.filter, limit)
            hits = best_hits(trusted, distrusted, limit)
            # What is distrusted never keeps the search from what is not.
            if len(trusted) == limit or not matches.has_more or depth >= max_depth:
                return hits, is_tested and matches.has_more and depth >= max_depth
            depth = min(max_depth, depth * _DEPTH_FACTOR)

    async def pending_count(self) -> int:
        """Return the number of the tenant's items that have no vector yet, up to a limit; 0 in the keyword mode."""
        is_known = self._query.mode is Mode.KEYWORD or self._pending_count is not None
        return self._pending_count or 0 if is_known else await self._tx.count_pending()

    async def basis(self) -> SearchBasis:
        """Return what the hits follow from, beside the request."""
        return SearchBasis(
            at=self._at,
            position_time=now() if self._query.as_of_time is None else self._at,
            position=await self._tx.log_position(),
            formula=self.formula,
            scale=self._model.ranking_scale,
            language=self._language,
            terms=self._terms,
            entity_ids=tuple(dict.fromkeys(id_ for mention in self._query.mentions for id_ in mention.entity_ids)),
        )

    async def excluding_conditions(self) -> list[str]:
        """Name the conditions each of which alone excludes everything; all of them when only several together do.

        The list is empty when there is nothing to show without these conditions either. It names none of the conditions
        of what the caller may see, and tells nothing about what those exclude.
        """
        filter_ = self._query.filter
        if not await self._has_hits(filter_.wall):
            return []
        all_names = [name for name in filter_.all_names if name not in WALLS]
        names: list[str] = []
        # If the tests cost more than the call may scan, all conditions are named.
        with suppress(ReadTooCostly):
            names = [name for name in all_names if await self._has_hits(filter_.without(name))]
        return names or all_names

    async def _has_hits(self, filter_: Filter) -> bool:
        kinds = tuple(kind for kind in self._query.kinds if kind in filter_.kinds)
        depth = _MAX_FILTERED if filter_.row_tests(kinds) else CANDIDATES_PER_SIGNAL
        matches = await self._collect_candidates(filter_, kinds, depth)
        return any(await self._read_hits(self._rank(matches, len(matches)), filter_, limit=1))

    async def _compare_tokens(self, matches: SignalMatches) -> SignalMatches:
        """Compare the tokens of the best candidates with those of the query, and take the formula for that."""
        formula, terms = self._tokens_formula, matches.query_terms
        if self._tokens is None or self._vector is None or not formula.compares_tokens:
            return matches
        if matches.candidates is None or terms is None or not terms.terms:
            return matches
        ranking = self._ranking(matches, formula)
        best = ranking.candidates_for_tokens(COMPARED_ITEMS, min_similarity=self._query.min_similarity)
        codes = await self._tx.tokens_of_items(self._model, self._vector, best)
        if not codes and self._tx.pins is None:
            return matches
        self.formula = formula
        ranking.compare_tokens(compare_tokens(self._tokens, self._query.text, terms, codes))
        return replace(matches, ranking=ranking)

    def _rank(self, matches: SignalMatches, limit: int) -> list[RankedItem]:
        min_similarity = self._query.min_similarity
        if matches.lexical_matches is not None:
            return ranking.rank_by_terms(matches.lexical_matches, max_bm25=matches.max_bm25, limit=limit)
        if matches.dense_matches and self.formula.fusion == "scores":
            return ranking.rank_by_similarity(matches.dense_matches, limit=limit, min_similarity=min_similarity)
        ranked = matches.ranking or self._ranking(matches, self.formula)
        return ranked.best(limit, min_similarity=min_similarity)

    def _ranking(self, matches: SignalMatches, formula: ScoringFormula) -> Ranking:
        return Ranking(
            matches.as_candidates,
            dense=self._vector is not None,
            max_bm25=matches.max_bm25,
            terms=matches.terms,
            cues=self._cues,
            weights=formula.weights,
            fusion=formula.fusion,
            scale=self._model.ranking_scale,
            by_words=not formula.is_former,
        )

    async def _read_hits(
        self, ranked: Sequence[RankedItem], filter_: Filter, limit: int = 0
    ) -> tuple[list[SearchHit], list[SearchHit]]:
        """Read the best items until `limit` of them, or the query's limit, may be shown and are not distrusted.

        Return these, and the distrusted ones among the items that were read. Duplicates are one hit.
        """
        hits: list[SearchHit] = []
        distrusted: list[SearchHit] = []
        positions: dict[tuple[object, ...], int] = {}
        limit = limit or self._query.limit
        ranked = [item for item in ranked if item.item_id != self._query.excluded_id]
        start = spare = 0
        while len(hits) < limit and start < len(ranked):
            batch = ranked[start : start + limit - len(hits) + spare]
            start += len(batch)
            spare = min(_MAX_SPARE, 2 * spare or SPARE_HITS)
            kinds = {item.item_id: item.kind for item in batch}
            rows = {item_id: self._search.rows[item_id] for item_id in kinds.keys() & self._search.rows.keys()}
            unread = {item_id: kind for item_id, kind in kinds.items() if item_id not in rows}
            rows |= await self._tx.items(unread, self._at, show_superseded=self._query.show_superseded)
            for item in batch:
                if (row := rows.get(item.item_id)) is None or not filter_.admits_trust_of(row):
                    continue
                hit = SearchHit(item=item, row=row)
                if (demoted := hit.demoted) is not None:
                    distrusted.append(demoted)
                    continue
                key = hit.text_key if self._merges_duplicates else None
                if key is not None and key in positions:
                    hits[positions[key]] = hits[positions[key]].merge(hit)
                    continue
                if self._merges_duplicates and (place := place_of_its_message(hits, hit)) is not None:
                    hits[place] = hits[place].with_duplicate(hit)
                    continue
                if key is not None:
                    positions[key] = len(hits)
                hits.append(hit)
        if self._merges_duplicates and distrusted:
            distrusted = merge_distrusted(hits, distrusted)
        return hits[:limit], distrusted

    async def _collect_candidates(self, filter_: Filter, kinds: Sequence[str], depth: int) -> SignalMatches:
        """Find up to `depth` items by each signal that pass a filter, and measure them by all signals."""
        if not kinds:
            return SignalMatches()
        if self._query.mode is Mode.KEYWORD:
            return await match_keywords(
                self._tx,
                self._query,
                self._language,
                filter_=filter_,
                kinds=kinds,
                depth=depth,
                is_first=depth == self._query.candidate_count(uses_terms=True),
            )
        nearest, is_cut = await self._search.find(filter_, kinds, depth)
        if not self._uses_terms:
            item_ids = await self._filter_rows(filter_, kinds, nearest.keys())
            return SignalMatches(
                dense_matches={id_: match for id_, match in nearest.items() if id_ in item_ids},
                has_more=self._has_more(nearest, is_cut=is_cut),
            )
        similarities = {id_: similarity for id_, (_, similarity) in nearest.items()}
        words = self._words
        min_items = self._query.limit - len(nearest)
        if words is not None:
            terms = words.query_terms
            bm25s = dict(words.match_terms(kinds, count=depth, min_items=min_items))
        else:
            terms = await self._tx.terms(
                self._query.text,
                kinds,
                self._language,
                self._query.mentions,
                is_typo=self._query.is_typo,
            )
            matches = await self._tx.match_terms(terms, kinds, filter_, count=depth, min_items=min_items)
            bm25s = {row["item_id"]: row["bm25"] for row in matches}
        self._has_terms = bool(terms.terms)
        item_ids = await self._filter_rows(filter_, kinds, similarities.keys() | bm25s.keys())
        if not filter_.all_names:
            item_ids |= terms.entity_ids
        centre_count = CONTEXT_CENTRES if self._query.excluded_id is None else 0
        scale = self._model.ranking_scale
        centres = ranking.select_centres(item_ids, similarities, bm25s, terms.max_bm25, count=centre_count, scale=scale)
        horizon = None if self._search.cached is None else self._search.cached.shortlist.horizon.transaction
        reach = FORMER_REACH if self.formula.is_former else REACH
        if words is not None:
            items = words.measure(kinds, item_ids, centres, reach=reach, changed_since=horizon)
        else:
            items = await self._tx.measure(terms, kinds, item_ids, centres, reach=reach, horizon=horizon)
        self._pending_count = items.pending_count
        candidates = Candidates(
            item_ids=items.item_ids,
            kinds=items.kinds,
            similarities=await self._similarities(items, similarities),
            bm25=terms.bm25(items),
            frequencies=items.frequencies,
            header_frequencies=items.header_frequencies,
            have_frequencies=np.ones(len(items.item_ids), dtype=np.bool_),
            lengths=items.lengths,
            previous=items.previous,
            is_question=items.is_question,
            is_assistant=items.is_assistant,
            mentions_time=items.mentions_time,
            create_times=[id_time(item_id) for item_id in items.item_ids] if self._cues.dates else (),
            # With a filter, a neighbour that no signal found has not been tested: it is context alone.
            eligible=np.array([item_id in item_ids for item_id in items.item_ids], dtype=np.bool_)
            if filter_.all_names
            else np.ones(len(items.item_ids), dtype=np.bool_),
        )
        return SignalMatches(
            candidates=candidates,
            max_bm25=terms.max_bm25,
            terms=TermStatistics(idf=terms.weights, mean_length=terms.mean_length),
            corrected=items.corrected,
            query_terms=terms,
            has_more=self._has_more(nearest, is_cut=is_cut, has_more_terms=len(bm25s) == depth),
            documents=len(item_ids & nearest.keys()) if filter_.all_names else terms.corpus_documents,
        )

    async def _similarities(self, items: ItemMeasurements, nearest: Mapping[UUID, float]) -> NDArray[np.float64]:
        """Return the cosines (n,) of items, NaN without a vector; those of the nearest ones are known.

        The vector cache has those of items that were not written since. The document of an item with another text is
        written again; of one with other vectors, these are new.
        """
        cached, vector = self._search.cached, self._vector
        cosines = np.full(len(items.item_ids), np.nan)
        if vector is None:
            return cosines
        missing = np.ones(len(items.item_ids), dtype=np.bool_)
        if cached is not None:
            cosines = cached.shortlist.similarities(items.item_ids)
            missing = np.isnan(cosines) | items.changed
            if cached.new_item_ids:
                missing |= np.array([item_id in cached.new_item_ids for item_id in items.item_ids], dtype=np.bool_)
        rows = np.flatnonzero(missing).tolist()
        known = {**nearest} if self._search.is_quantized else {}
        unknown = [item_id for row in rows if (item_id := items.item_ids[row]) not in known]
        known |= await self._tx.quantized_similarities(self._model, vector, unknown)
        cosines[rows] = [known.get(items.item_ids[row], np.nan) for row in rows]
        return cosines

    def _has_more(self, nearest: Nearest, *, is_cut: bool, has_more_terms: bool = False) -> bool:
        """Return whether a deeper search may find more; items below the minimum similarity do not count."""
        if self._query.min_similarity <= 0:
            return is_cut or has_more_terms
        farthest = min((similarity for _, similarity in nearest.values()), default=-1.0)
        return is_cut and farthest >= self._query.min_similarity

    async def _filter_rows(
        self, filter_: Filter, kinds: Sequence[str], item_ids: AbstractSet[UUID]
    ) -> AbstractSet[UUID]:
        """Return the items, of some kinds, that pass the conditions that the index cannot test."""
        tests = filter_.row_tests(kinds)
        return await self._tx.filter_items(item_ids, tests) if tests and item_ids else item_ids


async def match_keywords(
    tx: QueryTransaction,
    query: Query,
    language: str,
    *,
    filter_: Filter,
    kinds: Sequence[str],
    depth: int,
    is_first: bool,
) -> SignalMatches:
    """Find up to `depth` items that have a word of the query, and measure each by all words.

    The first search of a call stops at the lists of the rarest words if they have as many items as the query's limit.
    Deeper ones read more lists, because too few of those items may be shown.
    """
    terms = await tx.terms(query.text, kinds, language, query.mentions, is_typo=query.is_typo)
    if not terms.terms:
        return SignalMatches(lexical_matches={}, query_terms=terms)
    min_items = query.limit if is_first else depth
    matches = await tx.match_terms(terms, kinds, filter_, count=depth, min_items=min_items)
    item_ids = {row["item_id"] for row in matches}
    if item_ids and (tests := filter_.row_tests(kinds)):
        item_ids = await tx.filter_items(item_ids, tests)
    if not filter_.all_names:
        item_ids |= terms.entity_ids
    items = await tx.measure(terms, kinds, item_ids, (), reach=0)
    bm25s = terms.bm25(items).tolist()
    return SignalMatches(
        lexical_matches={
            item_id: (kind, bm25)
            for item_id, kind, bm25 in zip(items.item_ids, items.kinds, bm25s, strict=True)
            if bm25 > 0
        },
        max_bm25=terms.max_bm25,
        corrected=items.corrected,
        query_terms=terms,
        has_more=len(matches) == depth or (is_first and len(matches) >= min_items and len(terms.attempts()) > 1),
    )


def names_in(text: str) -> set[str]:
    """Return the names in a query, in lower case: words with a capital within a sentence but days and months."""
    return {match.casefold() for match in _NAME.findall(text[:_READ_CHARACTERS])} - _DATE_WORDS


def unknown_name_share(text: str, terms: QueryTerms, language: str, person_id: str = "") -> float:
    """Return the share, 0 to 1, of the names in a query that no document of the tenant has; 0 without a name.

    `terms` are those of the text. A name with an alias that a document has is known, and a likely typo is not. In a
    `language` with capital nouns, none is taken for a name. A query about a person may name that person, who says "I":
    the words of an id that reads as a name are known. A display name is not read here.
    """
    if language in _WITH_CAPITALS:
        return 0.0
    names = names_in(text)
    if not names:
        return 0.0
    own_names = set(person_id.casefold().split()) if is_name(person_id) else set()
    written = [(term, word_of_stem(term.term, text).casefold()) for term in terms.terms]
    known = [
        (term.documents > 0 and not term.is_corrected) or word in own_names for term, word in written if word in names
    ]
    return known.count(False) / max(1, len(known))
