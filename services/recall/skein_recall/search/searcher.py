"""Recall: embed the query, collect the candidates of all signals, rank them, read the best."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from skein_kit.errors import ReadTooCostly
from skein_kit.ids import id_time, now
from skein_kit.search_text.vector_columns import COVERED_DIMENSIONS
from skein_kit.telemetry.metrics import RECALL_SEARCHES
from skein_recall.errors import DocumentNotFound, ModelNotFound, ModelUnavailable
from skein_recall.models.model import Purpose
from skein_recall.quality.sampler import APPROXIMATE, Sample
from skein_recall.search import ranking
from skein_recall.search.cues import QueryCues
from skein_recall.search.expansion import QueryExpansion, Reason, alias_expansions, word_of_stem
from skein_recall.search.keywords import match_keywords
from skein_recall.search.model import (
    CANDIDATES_PER_SIGNAL,
    SPARE_HITS,
    Filter,
    Mode,
    RecallResult,
    ScoringFormula,
    SearchHit,
    SignalMatches,
)
from skein_recall.search.ranking import Candidates
from skein_recall.search.store import NewVectors
from skein_recall.term_cache.words import read_cached_words
from skein_recall.vector_cache.item_ids import to_uuids

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime
    from uuid import UUID

    import asyncpg
    from numpy.typing import NDArray

    from skein_kit.policies.store import Policy
    from skein_recall.index.embedding_queue import EmbeddingQueue
    from skein_recall.models.model import EmbeddingModel, ModelRegistry
    from skein_recall.providers.text_embedder import TextEmbedder
    from skein_recall.quality.sampler import Sampler
    from skein_recall.search.model import Query, ReferenceItem
    from skein_recall.search.query_reader import QueryReader
    from skein_recall.search.query_terms import ItemMeasurements
    from skein_recall.search.ranking import RankedItem
    from skein_recall.search.store import QueryStore, QueryTransaction
    from skein_recall.term_cache.cache import TermCache
    from skein_recall.term_cache.words import CachedWords
    from skein_recall.vector_cache.cache import VectorCache
    from skein_recall.vector_cache.matrix import Shortlist

    # A row of compare_shortlist.
    _ComparedRow = asyncpg.Record | dict[str, Any]
    # Kinds and cosines by item, the nearest first.
    _Nearest = dict[UUID, tuple[str, float]]

# Neighbours are measured of this many of the best candidates, so far before and after.
CONTEXT_CENTRES = 60
CONTEXT_REACH = 2
# Where many items may not be shown, at most this many more are read at once.
_MAX_SPARE = 1000
_DEPTH_FACTOR = 8
# Candidates of each signal that are tested on their rows.
_MAX_FILTERED = 5000
_MAX_CANDIDATES = 100_000
# Chunks read per wanted item. More are read where the nearest chunks belong to a few long items.
_CHUNKS_PER_ITEM = 2
_SEARCHES = {path: RECALL_SEARCHES.labels(path) for path in ("cached", APPROXIMATE, "exact", "rescored", "none")}
# A shortlist has a tenth more items than needed, and this many: some may be deleted.
_SHORTLIST_SURPLUS = 5
# A filter that this share of the cached chunks passes, or so many, is tested on the nearest items instead, on so many
# times as many as needed.
_BROAD_FILTER_SHARE, _BROAD_FILTER_ITEMS, _BROAD_FILTER_FACTOR = 0.1, 10_000, 20
# A longer query is a text, not a question: the relevance was fitted to questions and the last turns of dialogues.
_MAX_CALIBRATED_CHARACTERS = 1000
# Items compared over all dimensions where the index covers only some of them.
_RESCORED_ITEMS = 400
# Time that the vectors of a reference item may take, when it was written just before.
_REFERENCE_WAIT_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchCaches:
    """What a process caches of the tenants that search most."""

    vectors: VectorCache
    terms: TermCache


class RecallSearcher:
    """Answers queries from the index of one cluster."""

    def __init__(
        self,
        store: QueryStore,
        registry: ModelRegistry,
        embedder: TextEmbedder,
        sampler: Sampler,
        queue: EmbeddingQueue,
        caches: SearchCaches,
        reader: QueryReader,
        *,
        wait_seconds: float,
    ) -> None:
        """Wait up to `wait_seconds` for vectors of items that the tenant wrote just before."""
        self._store = store
        self._registry = registry
        self._embedder = embedder
        self._sampler = sampler
        self._queue = queue
        self._vector_cache = caches.vectors
        self._term_cache = caches.terms
        self._reader = reader
        self._wait_seconds = wait_seconds

    async def recall(self, tenant_id: UUID, query: Query, *, seconds: float) -> RecallResult:
        """Find the best items for a query within `seconds`. Embedding uses no database connection.

        Raises ModelUnavailable or ModelNotFound in the semantic mode without a vector: an empty result would mean that
        nothing exists.
        """
        model = await self._registry.active()
        if query.mode is Mode.SEMANTIC and query.vector is None and not model.can_embed:
            raise ModelNotFound(model=model.model)
        at = now()
        query = await self._reader.read(tenant_id, query, at)
        vector = await self._query_vector(tenant_id, model, query, seconds)
        if query.mode is Mode.SEMANTIC and vector is None:
            raise ModelUnavailable(model=model.model, cause="no answer")
        shortlist = await self._shortlist(tenant_id, model, query, vector)
        async with self._store.transaction(tenant_id, is_filtered=bool(query.filter.all_names)) as tx:
            policy = await tx.policy()
            search = SearchTransaction(tx, model, query, vector, self._vector_cache, shortlist, policy, at)
            await search.read_cached_words(self._term_cache, tenant_id)
            hits, is_truncated = await search.hits()
            excluding = await search.excluding_conditions() if not hits and query.filter.all_names else []
            pending_count = await search.pending_count()
        relevant_hits = search.with_relevance(hits)
        _SEARCHES[search.path].inc()
        if vector is not None and query.filter.row_condition is None and self._sampler.should_sample():
            self._sampler.put(
                Sample(
                    tenant_id=tenant_id,
                    model=model,
                    vector=vector,
                    kinds=query.kinds,
                    filter=query.filter,
                    path=search.path,
                    limit=query.limit,
                    nearest=search.nearest,
                )
            )
        return RecallResult(
            model="" if query.mode is Mode.KEYWORD else model.model,
            dense_unavailable=vector is None and not query.is_lexical_only,
            dense_path=search.path,
            formula=search.formula.name,
            hits=relevant_hits,
            nothing_relevant=bool(hits) and not relevant_hits,
            pending_count=pending_count,
            expansions=search.expansions(relevant_hits),
            excluding_conditions=excluding,
            filter_truncated=is_truncated,
        )

    async def read_reference_item(
        self, tenant_id: UUID, item_id: UUID | None, external_id: str, kind: str, *, seconds: float
    ) -> ReferenceItem:
        """Read the item that FindSimilar starts from, by id or by external id and kind. Raises DocumentNotFound."""
        model = await self._registry.active()
        await self._queue.wait_drained(tenant_id, min(_REFERENCE_WAIT_SECONDS, seconds / 4))
        async with self._store.transaction(tenant_id, is_filtered=False) as tx:
            if item_id is None:
                item_id = await tx.find_item_id(external_id, kind)
            item = None if item_id is None else await tx.read_reference_item(model, item_id, now())
        if item is None:
            raise DocumentNotFound
        return item

    async def _query_vector(
        self, tenant_id: UUID, model: EmbeddingModel, query: Query, seconds: float
    ) -> NDArray[np.float32] | None:
        """Return the query's vector (dimensions,); None when it needs none, or the model fails."""
        if query.vector is not None:
            model.check_dimensions(len(query.vector))
        if query.is_lexical_only:
            return None
        if query.vector is None and not model.can_embed:
            return None
        await self._queue.wait_drained(tenant_id, min(self._wait_seconds, seconds / 4))
        if query.vector is not None:
            return query.vector
        purpose = Purpose.QUERY if query.excluded_id is None else Purpose.PASSAGE
        return await self._embedder.embed_query(
            model, query.embedded_text, tenant_id=tenant_id, seconds=seconds, purpose=purpose
        )

    async def _shortlist(
        self, tenant_id: UUID, model: EmbeddingModel, query: Query, vector: NDArray[np.float32] | None
    ) -> Shortlist | None:
        """Return what the vector cache proposes; None without a vector, with a filter, or when nothing is cached."""
        if vector is None or query.filter.has_index_conditions:
            return None
        depth = query.candidate_count(uses_terms=query.uses_terms(has_vector=True))
        return await self._vector_cache.shortlist(
            tenant_id, model, vector, query.searched_kinds, _shortlist_size(depth)
        )


def _shortlist_size(depth: int) -> int:
    """Return the size of a shortlist that shall have the `depth` nearest items."""
    return depth + depth // 10 + _SHORTLIST_SURPLUS


@dataclass(frozen=True, slots=True)
class _CachedSimilarities:
    """The vector cache as a source of cosines: a shortlist that the database proved, and the items written since."""

    shortlist: Shortlist
    new_item_ids: AbstractSet[UUID]


class SearchTransaction:
    """One query in one transaction."""

    def __init__(
        self,
        tx: QueryTransaction,
        model: EmbeddingModel,
        query: Query,
        vector: NDArray[np.float32] | None,
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
        self._vector = vector
        self._vector_cache = vector_cache
        self._shortlist = shortlist
        # Set when the vector cache found the nearest items; other items are then compared there as well.
        self._cached: _CachedSimilarities | None = None
        # Set when the term cache searches the words.
        self._words: CachedWords | None = None
        # Rows of items that came with other statements.
        self._rows: Mapping[UUID, asyncpg.Record] = {}
        self._uses_terms = query.uses_terms(has_vector=vector is not None)
        # A query of stop words has none.
        self._has_terms = False
        self._at = at
        self.formula = ScoringFormula.of(query, policy, readable_share=model.readable_share(query.text))
        self._language = policy.search_language
        self._cues = QueryCues.of(query.text, at)
        # A vector asks for vectors, and an item that is searched for its likes must find its copies.
        self._merges_duplicates = bool(query.text) and not query.show_duplicates and query.excluded_id is None
        # The items that the vector found last, the nearest first, and how they were found.
        self.nearest: tuple[UUID, ...] = ()
        self.path = "none"
        # Items without a vector, if a statement of the search counted them.
        self._pending_count: int | None = None

    def with_relevance(self, hits: list[SearchHit]) -> list[SearchHit]:
        """Return the hits that are relevant enough, each with its relevance; none if the best one answers nothing.

        It is not known by another formula, and of items that have no vector yet; those stay.
        """
        is_known = self._has_terms and self._vector is not None and self._model.is_calibrated
        is_known = is_known and len(self._query.text) <= _MAX_CALIBRATED_CHARACTERS
        if not (is_known and self.formula.is_calibrated):
            return hits
        relevances = ranking.relevances([hit.item.score for hit in hits])
        answers = not hits or hits[0].item.similarity is None or relevances[0] >= self.formula.min_best_relevance
        return [
            hit if hit.item.similarity is None else replace(hit, relevance=relevance)
            for hit, relevance in zip(hits, relevances, strict=True)
            if hit.item.similarity is None or (answers and relevance >= self.formula.min_relevance)
        ]

    def expansions(self, hits: Sequence[SearchHit]) -> list[QueryExpansion]:
        """Tell what the query was read as too.

        Of near terms only those that a hit has are named: others may be from items that the caller may not see.
        """
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
        query, shortlist = self._query, self._shortlist
        if not self._uses_terms or query.filter.has_index_conditions or not query.searched_kinds:
            return
        new_vectors = None
        is_compared = shortlist is not None and shortlist.is_exact and shortlist.kinds == query.searched_kinds
        if self._vector is not None and shortlist is not None and is_compared:
            horizon = shortlist.horizon.transaction
            new_vectors = NewVectors(vector=self._vector, horizon=horizon, max_count=shortlist.max_new)
        self._words = await read_cached_words(
            cache,
            self._tx,
            tenant_id,
            self._model,
            query,
            self._language,
            new_vectors,
        )

    async def hits(self) -> tuple[list[SearchHit], bool]:
        """Return the best items that may be shown, and whether some were not tested against the filter.

        The search goes deeper until there are enough items that may be shown, or no more candidates.
        """
        query = self._query
        depth = query.candidate_count(uses_terms=self._uses_terms)
        is_tested = bool(query.filter.row_tests(query.searched_kinds))
        max_depth = _MAX_FILTERED if is_tested else _MAX_CANDIDATES
        hits: list[SearchHit] = []
        while True:
            try:
                matches = await self._collect_candidates(query.filter, query.searched_kinds, depth)
            except ReadTooCostly:
                if hits:
                    # Deeper candidates would scan more than a call may.
                    return hits, True
                raise
            self.nearest = matches.nearest
            self._corrected = matches.corrected
            hits = await self._read_hits(self._rank(matches, query.limit + SPARE_HITS))
            if len(hits) < query.limit and query.limit + SPARE_HITS < len(matches):
                hits = await self._read_hits(self._rank(matches, len(matches)))
            if len(hits) == query.limit or not matches.has_more or depth >= max_depth:
                return hits, is_tested and matches.has_more and depth >= max_depth
            depth = min(max_depth, depth * _DEPTH_FACTOR)

    async def pending_count(self) -> int:
        """Return the number of the tenant's items that have no vector yet, up to a limit; 0 in the keyword mode."""
        if self._query.mode is Mode.KEYWORD:
            return 0
        return await self._tx.count_pending() if self._pending_count is None else self._pending_count

    async def excluding_conditions(self) -> list[str]:
        """Name the conditions each of which alone excludes everything; all of them when only several together do.

        The list is empty when there is nothing to show without a filter either.
        """
        filter_ = self._query.filter
        if not await self._has_hits(Filter()):
            return []
        names: list[str] = []
        # If the tests cost more than the call may scan, all conditions are named.
        with suppress(ReadTooCostly):
            names = [name for name in filter_.all_names if await self._has_hits(filter_.without(name))]
        return names or list(filter_.all_names)

    async def _has_hits(self, filter_: Filter) -> bool:
        kinds = tuple(kind for kind in self._query.kinds if kind in filter_.kinds)
        depth = _MAX_FILTERED if filter_.row_tests(kinds) else CANDIDATES_PER_SIGNAL
        matches = await self._collect_candidates(filter_, kinds, depth)
        return bool(await self._read_hits(self._rank(matches, len(matches)), limit=1))

    def _rank(self, matches: SignalMatches, limit: int) -> list[RankedItem]:
        min_similarity = self._query.min_similarity
        if matches.lexical_matches is not None:
            return ranking.rank_by_terms(matches.lexical_matches, max_bm25=matches.max_bm25, limit=limit)
        if matches.dense_matches and self.formula.fusion == "scores":
            return ranking.rank_by_similarity(matches.dense_matches, limit=limit, min_similarity=min_similarity)
        return ranking.rank(
            matches.as_candidates,
            dense=self._vector is not None,
            max_bm25=matches.max_bm25,
            limit=limit,
            min_similarity=min_similarity,
            terms=matches.terms,
            cues=self._cues,
            weights=self.formula.weights,
            fusion=self.formula.fusion,
            scale=self._model.ranking_scale,
        )

    async def _read_hits(self, ranked: Sequence[RankedItem], limit: int = 0) -> list[SearchHit]:
        """Read the best items until `limit` of them, or the query's limit, may be shown. Duplicates are one hit."""
        hits: list[SearchHit] = []
        positions: dict[tuple[object, ...], int] = {}
        limit = limit or self._query.limit
        ranked = [item for item in ranked if item.item_id != self._query.excluded_id]
        start = spare = 0
        while len(hits) < limit and start < len(ranked):
            batch = ranked[start : start + limit - len(hits) + spare]
            start += len(batch)
            spare = min(_MAX_SPARE, 2 * spare or SPARE_HITS)
            kinds = {item.item_id: item.kind for item in batch}
            rows = {item_id: self._rows[item_id] for item_id in kinds.keys() & self._rows.keys()}
            unread = {item_id: kind for item_id, kind in kinds.items() if item_id not in rows}
            rows |= await self._tx.items(unread, self._at, show_superseded=self._query.show_superseded)
            for item in batch:
                if (row := rows.get(item.item_id)) is None:
                    continue
                hit = SearchHit(item=item, row=row)
                key = hit.text_key if self._merges_duplicates else None
                if key is not None and key in positions:
                    hits[positions[key]] = hits[positions[key]].merge(hit)
                    continue
                if key is not None:
                    positions[key] = len(hits)
                hits.append(hit)
        return hits[:limit]

    async def _collect_candidates(self, filter_: Filter, kinds: Sequence[str], depth: int) -> SignalMatches:
        """Find up to `depth` items by each signal that pass a filter, and measure them by all signals."""
        if not kinds:
            return SignalMatches()
        if self._query.mode is Mode.KEYWORD:
            return await match_keywords(
                self._tx,
                self._model,
                self._query,
                self._language,
                filter_=filter_,
                kinds=kinds,
                depth=depth,
                is_first=depth == self._query.candidate_count(uses_terms=True),
            )
        nearest, is_cut = await self._nearest(filter_, kinds, depth)
        if not self._uses_terms:
            item_ids = await self._filter_rows(filter_, kinds, nearest.keys())
            return SignalMatches(
                dense_matches={id_: match for id_, match in nearest.items() if id_ in item_ids},
                has_more=self._has_more(nearest, is_cut=is_cut),
                nearest=tuple(nearest),
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
        horizon = None if self._cached is None else self._cached.shortlist.horizon.transaction
        if words is not None:
            items = words.measure(kinds, item_ids, centres, reach=CONTEXT_REACH, changed_since=horizon)
        else:
            items = await self._tx.measure(
                self._model,
                self._vector if self._cached is None else None,
                terms,
                kinds,
                item_ids,
                centres,
                reach=CONTEXT_REACH,
                horizon=horizon,
            )
        self._pending_count = items.pending_count
        candidates = Candidates(
            item_ids=items.item_ids,
            kinds=items.kinds,
            similarities=await self._similarities(items),
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
            terms=ranking.TermStatistics(idf=terms.weights, mean_length=terms.mean_length),
            corrected=items.corrected,
            has_more=self._has_more(nearest, is_cut=is_cut, has_more_terms=len(bm25s) == depth),
            nearest=tuple(nearest),
        )

    async def _similarities(self, items: ItemMeasurements) -> NDArray[np.float64]:
        """Return the cosines (n,) of items. The vector cache has those of items that were not written since.

        A change of an item's vectors writes the item again, or other vectors of it.
        """
        cached, vector = self._cached, self._vector
        if vector is None:
            return items.similarities
        if cached is None:
            if self._words is None:
                return items.similarities
            computed = await self._tx.similarities(self._model, vector, items.item_ids)
            return np.array([computed.get(item_id, np.nan) for item_id in items.item_ids], dtype=np.float64)
        cosines = cached.shortlist.similarities(items.item_ids)
        missing = np.isnan(cosines) | items.changed
        if cached.new_item_ids:
            missing |= np.array([item_id in cached.new_item_ids for item_id in items.item_ids], dtype=np.bool_)
        rows = np.flatnonzero(missing).tolist()
        item_ids = [items.item_ids[row] for row in rows]
        computed = await self._tx.similarities(self._model, vector, item_ids)
        cosines[rows] = [computed.get(item_id, np.nan) for item_id in item_ids]
        return cosines

    def _has_more(self, nearest: _Nearest, *, is_cut: bool, has_more_terms: bool = False) -> bool:
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

    async def _nearest(self, filter_: Filter, kinds: Sequence[str], depth: int) -> tuple[_Nearest, bool]:
        """Return the items nearest to the vector, and whether there may be more."""
        self._cached = None
        if self._vector is None:
            return {}, False
        nearest = await self._nearest_from_cache(self._vector, filter_, kinds, depth)
        return nearest or await self._nearest_from_index(self._vector, filter_, kinds, depth)

    async def _nearest_from_cache(
        self, vector: NDArray[np.float32], filter_: Filter, kinds: Sequence[str], depth: int
    ) -> tuple[_Nearest, bool] | None:
        """Find the nearest items by a shortlist; None when it does not prove them. Without a filter, once."""
        if self._tx.is_replica:
            return None
        if filter_.has_index_conditions:
            shortlist = await self._filtered_shortlist(vector, filter_, tuple(kinds), depth)
        else:
            shortlist, self._shortlist = self._shortlist, None
        if shortlist is None or tuple(kinds) != shortlist.kinds:
            return None
        rows: Sequence[_ComparedRow]
        if self._words is not None and shortlist.is_exact:
            rows = await self._compare_with_words(self._words, vector, shortlist)
        else:
            rows = await self._compare_shortlist(vector, shortlist)
        new_ids = {row["item_id"] for row in rows if row["is_new"] is True}
        hidden_ids: AbstractSet[UUID] = set()
        if new_ids and filter_.has_index_conditions:
            hidden_ids = new_ids - set(to_uuids(await self._tx.filter_candidates(filter_, kinds, list(new_ids))))
        nearest: _Nearest = {}
        for row in rows:
            if row["item_id"] is not None and row["item_id"] not in hidden_ids:
                # The nearest chunk of an item comes first.
                nearest.setdefault(row["item_id"], (row["kind"], -row["distance"]))
        cosines = [cosine for _, cosine in nearest.values()]
        if not (self._vector_cache.accept_rows(shortlist, rows) and shortlist.is_complete(cosines, depth)):
            return None
        self.path = APPROXIMATE
        if shortlist.is_exact:
            self.path = "cached"
            self._cached = _CachedSimilarities(shortlist, new_ids)
        return dict(islice(nearest.items(), depth)), not shortlist.has_every_item or len(nearest) > depth

    async def _compare_with_words(
        self, words: CachedWords, vector: NDArray[np.float32], shortlist: Shortlist
    ) -> Sequence[_ComparedRow]:
        """Return what `compare_shortlist` does. The term cache knows which items are there and unchanged.

        The vectors of those are in the vector cache, unless others were written since.
        """
        new_item_ids = {item_id for item_id, _, _ in words.new_vectors}
        candidates = [item_id for item_id in shortlist.item_ids if item_id not in new_item_ids]
        unchanged, changed = words.table.unchanged_and_changed(candidates, shortlist.horizon.transaction)
        cosines = dict(zip(unchanged, shortlist.similarities(unchanged).tolist(), strict=True))
        cosines |= await self._tx.similarities(self._model, vector, changed)
        kinds = words.table.kinds_of(cosines)
        compared = [(*pair, kind, False) for pair, kind in zip(cosines.items(), kinds, strict=True)]
        compared += [(item_id, cosine, kind, True) for item_id, kind, cosine in words.new_vectors]
        compared.sort(key=itemgetter(1), reverse=True)
        return [
            {"server": words.server_start, "item_id": item_id, "kind": kind, "distance": -cosine, "is_new": is_new}
            for item_id, cosine, kind, is_new in compared
        ] or [{"server": words.server_start, "item_id": None, "is_new": None}]

    async def _filtered_shortlist(
        self, vector: NDArray[np.float32], filter_: Filter, kinds: tuple[str, ...], depth: int
    ) -> Shortlist | None:
        """Return what the vector cache proposes of the items that pass a filter; None when nothing is cached.

        The database names the items that pass. Where these are many, it tests the nearest ones instead.
        """
        cache, model, tenant_id = self._vector_cache, self._model, self._tx.tenant_id
        cached_count = cache.count_cached(tenant_id, model)
        if not cached_count:
            return None
        size = _shortlist_size(depth)
        max_count = max(_BROAD_FILTER_ITEMS, int(_BROAD_FILTER_SHARE * cached_count))
        ids = await self._tx.filter_ids(filter_, kinds, max_count)
        if ids is not None:
            return await cache.shortlist(tenant_id, model, vector, kinds, size, ids)
        nearest = await cache.shortlist(tenant_id, model, vector, kinds, size * _BROAD_FILTER_FACTOR)
        if nearest is None:
            return None
        ids = await self._tx.filter_candidates(filter_, kinds, nearest.item_ids)
        shortlist = await cache.shortlist(tenant_id, model, vector, kinds, size, ids)
        # The chunks of both may be of different horizons.
        is_same = shortlist is not None and shortlist.matrix is nearest.matrix
        return replace(shortlist, bound=max(shortlist.bound, nearest.bound)) if shortlist and is_same else None

    async def _compare_shortlist(self, vector: NDArray[np.float32], shortlist: Shortlist) -> Sequence[_ComparedRow]:
        """Have the database compare the shortlist. Where the vector alone ranks, it returns the memories as well."""
        if self._uses_terms:
            return await self._tx.compare_shortlist(self._model, vector, shortlist)
        rows = await self._tx.compare_and_read_shortlist(
            self._model,
            vector,
            shortlist,
            self._at,
            first=self._query.limit,
            show_superseded=self._query.show_superseded,
        )
        self._rows = {row["memory_id"]: row for row in rows if row["memory_id"] is not None}
        return rows

    async def _nearest_from_index(
        self, vector: NDArray[np.float32], filter_: Filter, kinds: Sequence[str], depth: int
    ) -> tuple[_Nearest, bool]:
        """Find the nearest items by a scan of the index; rescore them where it covers only some dimensions."""
        self.path = "rescored" if self._model.dimensions > COVERED_DIMENSIONS else "exact"
        count = max(depth, _RESCORED_ITEMS) if self.path == "rescored" else depth
        chunks = count * _CHUNKS_PER_ITEM
        while True:
            rows = await self._scan_index(vector, filter_, kinds, chunks)
            similarities: dict[UUID, float] = {}
            kind_of: dict[UUID, str] = {}
            for row in rows:
                # The nearest chunk of an item comes first.
                similarities.setdefault(row["item_id"], -row["distance"])
                kind_of[row["item_id"]] = row["kind"]
            if len(rows) < chunks or len(similarities) >= count:
                break
            chunks *= _DEPTH_FACTOR
        is_cut = len(rows) == chunks
        if self.path == "rescored":
            similarities = await self._tx.similarities(self._model, vector, list(similarities))
            nearest = sorted(similarities, key=lambda item_id: (-similarities[item_id], item_id))[:depth]
        else:
            nearest = list(similarities)[:depth]
        return {id_: (kind_of[id_], similarities[id_]) for id_ in nearest}, is_cut or len(similarities) > depth

    async def _scan_index(
        self, vector: NDArray[np.float32], filter_: Filter, kinds: Sequence[str], chunks: int
    ) -> list[asyncpg.Record]:
        """Scan the index. Where its order is the rank, the first memories are read as well."""
        if self._uses_terms or filter_.all_names or self._rows or self.path != "exact":
            return await self._tx.nearest(self._model, vector, kinds, filter_, chunks=chunks)
        rows = await self._tx.nearest_and_read(
            self._model,
            vector,
            kinds,
            self._at,
            chunks=chunks,
            first=self._query.limit,
            show_superseded=self._query.show_superseded,
        )
        self._rows = {row["memory_id"]: row for row in rows if row["memory_id"] is not None}
        return rows
