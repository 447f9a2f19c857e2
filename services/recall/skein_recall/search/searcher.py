"""Recall itself: embed the question, gather what the signals find, rank it, read the best."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from skein_kit.errors import ReadTooCostly
from skein_kit.ids import id_time, now
from skein_kit.search_text.vector_columns import COVERED_DIMENSIONS
from skein_kit.telemetry.metrics import RECALL_SEARCHES
from skein_recall.errors import ModelNotFound, ModelUnavailable
from skein_recall.quality.sampler import Sample
from skein_recall.query import ranking
from skein_recall.query.candidates import Candidates
from skein_recall.query.cues import QueryCues
from skein_recall.query.filter import Filter
from skein_recall.query.model import POOL, SPARE, Mode, ScoringFormula
from skein_recall.search.keyword import KeywordSearch
from skein_recall.search.result import CachedSimilarities, CacheShortlist, RecallResult, SignalMatches
from skein_recall.vector_cache.cache import MOST_NEW

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime
    from uuid import UUID

    import asyncpg
    from numpy.typing import NDArray

    from skein_recall.index.embedding_queue import EmbeddingQueue
    from skein_recall.models.model import EmbeddingModel, ModelRegistry
    from skein_recall.providers.text_embedder import TextEmbedder
    from skein_recall.quality.sampler import Sampler
    from skein_recall.query.model import Query
    from skein_recall.query.ranking import RankedItem
    from skein_recall.query.store import ItemMeasurements, QueryTransaction
    from skein_recall.store import Store
    from skein_recall.vector_cache.cache import VectorCache
    from skein_recall.vector_cache.matrix import Shortlist

# Of the best of them, so many have their neighbours looked at, so far before and after.
CENTRES = 60
REACH = 2
# Where many may not be shown, so many more are read at once at most.
_MOST_SPARE = 1000
_DEEPER = 8
# Items of each signal that are held against a condition that the index does not know.
_MOST_HELD = 5000
_MOST = 100_000
# Chunks read for each item wanted. Where a few long items hold all of the nearest chunks, more are read.
_CHUNKS_PER_ITEM = 2
_SEARCHES = {path: RECALL_SEARCHES.labels(path) for path in ("held", "exact", "rescored", "none")}
# Items that stand in a shortlist beyond a tenth more than are looked for: some may be gone.
_SURPLUS = 5
# Items compared by all dimensions, where the index covers only some of them.
_RESCORED = 400


class RecallSearcher:
    """Answers questions from the index of one cluster."""

    def __init__(
        self,
        store: Store,
        registry: ModelRegistry,
        vectors: TextEmbedder,
        sampler: Sampler,
        deferred: EmbeddingQueue,
        held: VectorCache,
        *,
        wait_seconds: float,
    ) -> None:
        """Wait up to `wait_seconds` for vectors of what was written just before."""
        self._store = store
        self._registry = registry
        self._vectors = vectors
        self._sampler = sampler
        self._deferred = deferred
        self._held = held
        self._wait_seconds = wait_seconds

    async def recall(self, tenant_id: UUID, question: Query, *, seconds: float) -> RecallResult:
        """Find the best items for a question within the `seconds` left. No connection is held while embedding.

        Raises ModelUnavailable or ModelNotFound in the semantic mode when there is no vector to search by: an empty
        answer would say that there is nothing to find.
        """
        model = await self._registry.active()
        if question.mode is Mode.SEMANTIC and question.vector is None and not model.embeds:
            raise ModelNotFound(model=model.model)
        vector = await self._vector(tenant_id, model, question, seconds)
        if question.mode is Mode.SEMANTIC and vector is None:
            raise ModelUnavailable(model=model.model, why="no answer")
        near = await self._listed(tenant_id, model, question, vector)
        at = now()
        async with self._store.reading(tenant_id, filtered=bool(question.filter.all_names)) as reading:
            policy = await reading.policy()
            formula = ScoringFormula.of(question, policy)
            search = SearchTransaction(reading, model, question, vector, near, at, formula, policy.search_language)
            hits, truncated = await search.hits()
            emptied_by = await search.emptied_by() if not hits and question.filter.all_names else []
        _SEARCHES[search.path].inc()
        if vector is not None and question.filter.where is None and self._sampler.wants():
            self._sampler.take(
                Sample(
                    tenant_id=tenant_id,
                    model=model,
                    vector=vector,
                    kinds=question.kinds,
                    filter=question.filter,
                    path=search.path,
                    limit=question.limit,
                    nearest=search.nearest,
                )
            )
        return RecallResult(
            model="" if question.mode is Mode.KEYWORD else model.model,
            dense_unavailable=vector is None and not question.is_of_words,
            path=search.path,
            formula=formula.name,
            hits=hits,
            emptied_by=emptied_by,
            filter_truncated=truncated,
        )

    async def _vector(
        self, tenant_id: UUID, model: EmbeddingModel, question: Query, seconds: float
    ) -> NDArray[np.float32] | None:
        if question.vector is not None:
            model.must_take(len(question.vector))
        if question.is_of_words:
            return None
        if question.vector is None and not model.embeds:
            return None
        await self._deferred.settled(tenant_id, min(self._wait_seconds, seconds / 4))
        if question.vector is not None:
            return question.vector
        return await self._vectors.of_query(model, question.text, tenant_id=tenant_id, seconds=seconds)

    async def _listed(
        self, tenant_id: UUID, model: EmbeddingModel, question: Query, vector: NDArray[np.float32] | None
    ) -> CacheShortlist | None:
        """Look for what is nearest in memory, as far as anything is held and may be looked for there."""
        if vector is None or question.filter.restricts:
            return None
        kinds = tuple(kind for kind in question.kinds if kind in question.filter.kinds)
        depth = question.depth(asks_words=question.asks_words(has_vector=True))
        shortlist = await self._held.shortlist(tenant_id, model, vector, kinds, depth + depth // 10 + _SURPLUS)
        return None if shortlist is None else CacheShortlist(held=self._held, shortlist=shortlist)


class SearchTransaction:
    """One question in one transaction."""

    def __init__(
        self,
        reading: QueryTransaction,
        model: EmbeddingModel,
        question: Query,
        vector: NDArray[np.float32] | None,
        listed: CacheShortlist | None,
        at: datetime,
        formula: ScoringFormula,
        language: str,
    ) -> None:
        self._reading = reading
        self._model = model
        self._question = question
        self._vector = vector
        self._listed = listed
        # When the nearest were found by what is held: whatever else is looked at is compared there as well.
        self._compared: CachedSimilarities | None = None
        # What was read of items on the way.
        self._read: Mapping[UUID, asyncpg.Record] = {}
        self._asks_words = question.asks_words(has_vector=vector is not None)
        self._at = at
        self._formula = formula
        self._language = language
        self._cues = QueryCues.of(question.text, at)
        self._kinds = tuple(kind for kind in question.kinds if kind in question.filter.kinds)
        # The items nearest to the vector, in their order, as they were found last, and how they were found.
        self.nearest: tuple[UUID, ...] = ()
        self.path = "none"

    async def hits(self) -> tuple[list[tuple[RankedItem, asyncpg.Record]], bool]:
        """Return the best items that may be shown, and whether some were not held against the filter.

        When too many of those found may not be shown, the search goes deeper until there are enough, or no more.
        """
        question = self._question
        depth = question.depth(asks_words=self._asks_words)
        most = _MOST if question.filter.where is None else _MOST_HELD
        hits: list[tuple[RankedItem, asyncpg.Record]] = []
        while True:
            try:
                found = await self._gather(question.filter, self._kinds, depth)
            except ReadTooCostly:
                if hits:
                    # What lies deeper would scan more than a call may: it is missing, and the answer says so.
                    return hits, True
                raise
            self.nearest = found.nearest
            hits = await self._shown(self._ranked(found, question.limit + SPARE))
            if len(hits) < question.limit and question.limit + SPARE < len(found):
                hits = await self._shown(self._ranked(found, len(found)))
            if len(hits) == question.limit or not found.is_cut or depth >= most:
                return hits, found.is_cut and depth >= most and question.filter.where is not None
            depth = min(most, depth * _DEEPER)

    def _ranked(self, found: SignalMatches, limit: int) -> list[RankedItem]:
        least = self._question.min_similarity
        if found.by_words is not None:
            return ranking.by_words(found.by_words, max_bm25=found.max_bm25, limit=limit)
        if found.alone and self._formula.fusion == "scores":
            return ranking.by_cosine(found.alone, limit=limit, min_similarity=least)
        return ranking.rank(
            found.side_by_side,
            dense=self._vector is not None,
            max_bm25=found.max_bm25,
            limit=limit,
            min_similarity=least,
            terms=found.terms,
            cues=self._cues,
            weights=self._formula.weights,
            fusion=self._formula.fusion,
        )

    async def _shown(self, ranked: Sequence[RankedItem], limit: int = 0) -> list[tuple[RankedItem, asyncpg.Record]]:
        """Read the best items until there are enough of those that may be shown: as many as are wanted, or a limit."""
        hits: list[tuple[RankedItem, asyncpg.Record]] = []
        limit = limit or self._question.limit
        ranked = [one for one in ranked if one.item_id != self._question.excluded_id]
        start = spare = 0
        while len(hits) < limit and start < len(ranked):
            part = ranked[start : start + limit - len(hits) + spare]
            start += len(part)
            spare = min(_MOST_SPARE, 2 * spare or SPARE)
            kinds = {one.item_id: one.kind for one in part}
            rows = {item_id: self._read[item_id] for item_id in kinds.keys() & self._read.keys()}
            unread = {item_id: kind for item_id, kind in kinds.items() if item_id not in rows}
            rows |= await self._reading.items(unread, self._at, show_superseded=self._question.show_superseded)
            hits += [(one, rows[one.item_id]) for one in part if one.item_id in rows]
        return hits[:limit]

    async def emptied_by(self) -> list[str]:
        """Name the conditions each of which alone keeps everything out; all when only several together do.

        None, when without any there would be nothing to show either.
        """
        filter_ = self._question.filter
        if not await self._finds(Filter()):
            return []
        found: list[str] = []
        # Which one it is costs more to find out than the call may scan: then all are named.
        with suppress(ReadTooCostly):
            found = [name for name in filter_.all_names if await self._finds(filter_.without(name))]
        return found or list(filter_.all_names)

    async def _finds(self, filter_: Filter) -> bool:
        kinds = tuple(kind for kind in self._question.kinds if kind in filter_.kinds)
        depth = _MOST_HELD if filter_.where is not None else POOL
        found = await self._gather(filter_, kinds, depth)
        return bool(await self._shown(self._ranked(found, len(found)), limit=1))

    async def _gather(self, filter_: Filter, kinds: Sequence[str], depth: int) -> SignalMatches:
        """Find up to `depth` items by each signal that pass a filter, and measure them by the other one."""
        if not kinds:
            return SignalMatches()
        if self._question.mode is Mode.KEYWORD:
            is_first = depth == self._question.depth(asks_words=True)
            search = KeywordSearch(self._reading, self._model, self._question, self._language)
            return await search.gather(filter_, kinds, depth, is_first=is_first)
        near, is_cut = await self._near(filter_, kinds, depth)
        if not self._asks_words:
            passing = await self._passing(filter_, near.keys())
            alone = {id_: found for id_, found in near.items() if id_ in passing}
            return SignalMatches(alone=alone, is_cut=self._goes_on(near, is_cut=is_cut), nearest=tuple(near))
        similarities = {id_: similarity for id_, (_, similarity) in near.items()}
        terms = await self._reading.terms(self._question.text, kinds, self._language)
        least = self._question.limit - len(near)
        matches = await self._reading.matching(terms, kinds, filter_, count=depth, least=least)
        bm25s = {row["item_id"]: row["bm25"] for row in matches}
        item_ids = await self._passing(filter_, similarities.keys() | bm25s.keys())
        count = CENTRES if self._question.excluded_id is None else 0
        centres = ranking.select_centres(item_ids, similarities, bm25s, terms.max_bm25, count=count)
        compared = self._compared
        found = await self._reading.measured(
            self._model,
            self._vector if compared is None else None,
            terms,
            kinds,
            item_ids,
            centres,
            reach=REACH,
            horizon=None if compared is None else compared.shortlist.moment.horizon,
        )
        candidates = Candidates(
            item_ids=found.item_ids,
            kinds=found.kinds,
            similarities=await self._similarities(found),
            bm25=terms.bm25(found.frequencies, found.lengths),
            frequencies=found.frequencies,
            are_read=np.ones(len(found.item_ids), dtype=np.bool_),
            lengths=found.lengths,
            previous=found.previous,
            asks=found.asks,
            tells_time=found.dated,
            create_times=[id_time(item_id) for item_id in found.item_ids] if self._cues.spans else (),
            # What was not looked for is only what stands around that which was, unless anything may be found.
            eligible=np.array(
                [not filter_.all_names or item_id in item_ids for item_id in found.item_ids], dtype=np.bool_
            ),
        )
        return SignalMatches(
            candidates=candidates,
            max_bm25=terms.max_bm25,
            terms=ranking.TermStatistics(idf=tuple(term.idf for term in terms.terms), mean_length=terms.mean_length),
            is_cut=self._goes_on(near, is_cut=is_cut, says_more=len(matches) == depth),
            nearest=tuple(near),
        )

    async def _similarities(self, found: ItemMeasurements) -> NDArray[np.float64]:
        """Return the cosines of items. What is held serves for those that nothing was written of since.

        Whatever takes an item's vectors away writes the item anew, or other vectors of it.
        """
        compared, vector = self._compared, self._vector
        if compared is None or vector is None:
            return found.similarities
        cosines = compared.shortlist.of(found.item_ids)
        lacking = np.isnan(cosines) | found.changed
        if compared.new:
            lacking |= np.array([item_id in compared.new for item_id in found.item_ids], dtype=np.bool_)
        rows = np.flatnonzero(lacking).tolist()
        asked = [found.item_ids[row] for row in rows]
        read = await self._reading.similarities(self._model, vector, asked)
        cosines[rows] = [read.get(item_id, np.nan) for item_id in asked]
        return cosines

    def _goes_on(self, near: Mapping[UUID, tuple[str, float]], *, is_cut: bool, says_more: bool = False) -> bool:
        """Say whether there may be more, nearer items or such as say the words: none that is too far away counts."""
        if self._question.min_similarity <= 0:
            return is_cut or says_more
        farthest = min((similarity for _, similarity in near.values()), default=-1.0)
        return is_cut and farthest >= self._question.min_similarity

    async def _passing(self, filter_: Filter, item_ids: AbstractSet[UUID]) -> AbstractSet[UUID]:
        """Leave out what does not pass the conditions that the index does not know."""
        if filter_.where is None or not item_ids:
            return item_ids
        return await self._reading.passing(item_ids, filter_.where)

    async def _near(
        self, filter_: Filter, kinds: Sequence[str], depth: int
    ) -> tuple[dict[UUID, tuple[str, float]], bool]:
        """Return the items nearest to the vector, their kinds and cosines, and whether there may be more."""
        self._compared = None
        if self._vector is None:
            return {}, False
        near = await self._near_by_list(filter_, kinds, depth)
        return near or await self._near_by_index(self._vector, filter_, kinds, depth)

    async def _near_by_list(
        self, filter_: Filter, kinds: Sequence[str], depth: int
    ) -> tuple[dict[UUID, tuple[str, float]], bool] | None:
        """Do so by what is held in memory, if that proves to be enough."""
        listed = self._listed
        if self._vector is None or listed is None or filter_.restricts or self._reading.follows:
            return None
        # Whatever is looked for further is not in the list.
        self._listed = None
        shortlist = listed.shortlist
        if tuple(kinds) != shortlist.kinds:
            return None
        rows = await self._listed_rows(self._vector, shortlist)
        near: dict[UUID, tuple[str, float]] = {}
        for row in rows:
            if row["item_id"] is not None:
                # The nearest chunk of an item comes first.
                near.setdefault(row["item_id"], (row["kind"], -row["distance"]))
        cosines = [cosine for _, cosine in near.values()]
        if not (listed.held.takes(shortlist, rows) and shortlist.proves(cosines, depth)):
            return None
        self.path = "held"
        self._compared = CachedSimilarities(
            shortlist=shortlist, new={row["item_id"] for row in rows if row["is_new"] is True}
        )
        return dict(islice(near.items(), depth)), not shortlist.is_all or len(near) > depth

    async def _listed_rows(self, vector: NDArray[np.float32], shortlist: Shortlist) -> list[asyncpg.Record]:
        """Have the shortlist compared; where nothing else will say what is shown, read its memories at once."""
        if self._asks_words:
            return await self._reading.nearest_listed(self._model, vector, shortlist, most_new=MOST_NEW)
        rows = await self._reading.listed_read(
            self._model,
            vector,
            shortlist,
            self._at,
            first=self._question.limit,
            most_new=MOST_NEW,
            show_superseded=self._question.show_superseded,
        )
        self._read = {row["memory_id"]: row for row in rows if row["memory_id"] is not None}
        return rows

    async def _index_rows(
        self, vector: NDArray[np.float32], filter_: Filter, kinds: Sequence[str], chunks: int
    ) -> list[asyncpg.Record]:
        """Have the index looked through; where its order is that of what is shown, read the first memories at once."""
        if self._asks_words or filter_.all_names or self._read or self.path != "exact":
            return await self._reading.nearest(self._model, vector, kinds, filter_, chunks=chunks)
        rows = await self._reading.nearest_read(
            self._model,
            vector,
            kinds,
            self._at,
            chunks=chunks,
            first=self._question.limit,
            show_superseded=self._question.show_superseded,
        )
        self._read = {row["memory_id"]: row for row in rows if row["memory_id"] is not None}
        return rows

    async def _near_by_index(
        self, vector: NDArray[np.float32], filter_: Filter, kinds: Sequence[str], depth: int
    ) -> tuple[dict[UUID, tuple[str, float]], bool]:
        self.path = "rescored" if self._model.dimensions > COVERED_DIMENSIONS else "exact"
        wanted = max(depth, _RESCORED) if self.path == "rescored" else depth
        chunks = wanted * _CHUNKS_PER_ITEM
        while True:
            rows = await self._index_rows(vector, filter_, kinds, chunks)
            similarities: dict[UUID, float] = {}
            kind_of: dict[UUID, str] = {}
            for row in rows:
                # The nearest chunk of an item comes first.
                similarities.setdefault(row["item_id"], -row["distance"])
                kind_of[row["item_id"]] = row["kind"]
            if len(rows) < chunks or len(similarities) >= wanted:
                break
            chunks *= _DEEPER
        is_cut = len(rows) == chunks
        if self.path == "rescored":
            similarities = await self._reading.similarities(self._model, vector, list(similarities))
            nearest = sorted(similarities, key=lambda item_id: (-similarities[item_id], item_id))[:depth]
        else:
            nearest = list(similarities)[:depth]
        return {id_: (kind_of[id_], similarities[id_]) for id_ in nearest}, is_cut or len(similarities) > depth
