"""The items nearest to the vector of a query: proposed by the vector cache or found by a scan of the index."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from skein_kit.search_text.vector_columns import COVERED_DIMENSIONS
from skein_recall.search.store import NewVectors
from skein_recall.vector_cache.item_ids import to_uuids

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    import asyncpg
    import numpy as np
    from numpy.typing import NDArray

    from skein_recall.models.model import EmbeddingModel
    from skein_recall.search.filter import Filter
    from skein_recall.search.model import ItemRow, Query
    from skein_recall.search.store import QueryTransaction
    from skein_recall.term_cache.words import CachedWords
    from skein_recall.vector_cache.cache import VectorCache
    from skein_recall.vector_cache.matrix import Shortlist

    # A row of compare_shortlist.
    _ComparedRow = asyncpg.Record | dict[str, Any]

# The path of searches that approximate codes answer.
APPROXIMATE = "approximate"

# Kinds and cosines by item, the nearest first.
Nearest: TypeAlias = dict[UUID, tuple[str, float]]

# Chunks read per wanted item. More are read where the nearest chunks belong to a few long items.
_CHUNKS_PER_ITEM = 2
# A shortlist has a tenth more items than needed, and this many: some may be deleted.
_SHORTLIST_SURPLUS = 5
# A filter that this share of the cached chunks passes, or so many, is tested on the nearest items instead, on so many
# times as many as needed.
_BROAD_FILTER_SHARE, _BROAD_FILTER_ITEMS, _BROAD_FILTER_FACTOR = 0.1, 10_000, 20
# Items compared over all dimensions where the index covers only some of them.
_RESCORED_ITEMS = 400
# A scan that finds too few items is repeated with so many times the chunks.
_CHUNKS_FACTOR = 8


def shortlist_size(depth: int) -> int:
    """Return the size of a shortlist that shall have the `depth` nearest items."""
    return depth + depth // 10 + _SHORTLIST_SURPLUS


@dataclass(frozen=True, slots=True)
class CachedSimilarities:
    """The vector cache as a source of cosines: a shortlist that the database proved, and the items written since."""

    shortlist: Shortlist
    new_item_ids: AbstractSet[UUID]


class NearestSearch:
    """Finds the items nearest to one query's vector in one transaction."""

    def __init__(
        self,
        tx: QueryTransaction,
        model: EmbeddingModel,
        query: Query,
        vector: NDArray[np.float32] | None,
        vector_cache: VectorCache,
        shortlist: Shortlist | None,
        at: datetime,
    ) -> None:
        """`shortlist` is what the cache proposes of all items; without a `vector` nothing is found."""
        self._tx = tx
        self._model = model
        self._query = query
        self._vector = vector
        self._vector_cache = vector_cache
        self._shortlist = shortlist
        self._at = at
        self._uses_terms = query.uses_terms(has_vector=vector is not None)
        # Set when the term cache searches the words: it then also proves exact shortlists.
        self.words: CachedWords | None = None
        # Set when exact codes found the nearest items; other items are then compared there as well.
        self.cached: CachedSimilarities | None = None
        # Rows of items that came with the statements.
        self.rows: Mapping[UUID, ItemRow] = {}
        # The nearest items have the cosines of the vector cache, also where the database found them.
        self.is_quantized = False
        # How the nearest items were found.
        self.path = "none"

    def new_vectors(self) -> NewVectors | None:
        """Return which vectors the proof of the words shall compare too; None where none are of use."""
        shortlist = self._shortlist
        if self._vector is None or shortlist is None or not shortlist.is_exact:
            return None
        if shortlist.kinds != self._query.searched_kinds:
            return None
        return NewVectors(vector=self._vector, horizon=shortlist.horizon.transaction, max_count=shortlist.max_new)

    async def find(self, filter_: Filter, kinds: Sequence[str], depth: int) -> tuple[Nearest, bool]:
        """Return the items nearest to the vector, and whether there may be more."""
        self.cached, self.is_quantized = None, False
        if self._vector is None:
            return {}, False
        nearest = await self._from_cache(self._vector, filter_, kinds, depth)
        return nearest or await self._from_index(self._vector, filter_, kinds, depth)

    async def _from_cache(
        self, vector: NDArray[np.float32], filter_: Filter, kinds: Sequence[str], depth: int
    ) -> tuple[Nearest, bool] | None:
        """Find the nearest items by a shortlist; None when it does not prove them. Without a filter, once."""
        if self._tx.is_replica or self._query.as_of_time is not None:
            return None
        if filter_.has_index_conditions:
            shortlist = await self._filtered_shortlist(vector, filter_, tuple(kinds), depth)
        else:
            shortlist, self._shortlist = self._shortlist, None
        if shortlist is None or tuple(kinds) != shortlist.kinds:
            return None
        rows: Sequence[_ComparedRow]
        if self.words is not None and shortlist.is_exact:
            rows = await self._compare_with_words(self.words, vector, shortlist)
        else:
            rows = await self._compare_shortlist(vector, shortlist)
        new_ids = {row["item_id"] for row in rows if row["is_new"] is True}
        hidden_ids = await self._excluded(filter_, kinds, new_ids)
        nearest: Nearest = {}
        for row in rows:
            if row["item_id"] is not None and row["item_id"] not in hidden_ids:
                # The nearest chunk of an item comes first.
                nearest.setdefault(row["item_id"], (row["kind"], -row["distance"]))
        if self._uses_terms and shortlist.is_exact:
            nearest = await self._quantize(vector, shortlist, nearest, new_ids, depth)
        cosines = [cosine for _, cosine in nearest.values()]
        if not (self._vector_cache.accept_rows(shortlist, rows) and shortlist.is_complete(cosines, depth)):
            return None
        self.path = APPROXIMATE
        if shortlist.is_exact:
            self.path = "cached"
            self.cached = CachedSimilarities(shortlist, new_ids)
        return dict(islice(nearest.items(), depth)), not shortlist.has_every_item or len(nearest) > depth

    async def _excluded(self, filter_: Filter, kinds: Sequence[str], item_ids: AbstractSet[UUID]) -> AbstractSet[UUID]:
        """Return the items that a filter excludes by the conditions that the index can test."""
        if not item_ids or not filter_.has_index_conditions:
            return set()
        return item_ids - set(to_uuids(await self._tx.filter_candidates(filter_, kinds, list(item_ids))))

    async def _quantize(
        self,
        vector: NDArray[np.float32],
        shortlist: Shortlist,
        nearest: Nearest,
        new_ids: AbstractSet[UUID],
        depth: int,
    ) -> Nearest:
        """Return the nearest items by the cosines of the vector cache, those of new vectors too as far as they count.

        With other signals a last digit may decide, and it must be the same whatever is cached.
        """
        self.is_quantized = True
        # With the words in memory, those of old vectors are there already.
        old = [item_id for item_id in nearest if item_id not in new_ids] if self.words is None else []
        new = list(islice((item_id for item_id in nearest if item_id in new_ids), shortlist_size(depth)))
        cosines = dict(zip(old, shortlist.similarities(old).tolist(), strict=True))
        cosines |= await self._tx.quantized_similarities(self._model, vector, new)
        return _ordered({item_id: (kind, cosines.get(item_id, cosine)) for item_id, (kind, cosine) in nearest.items()})

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
        cosines |= await self._tx.quantized_similarities(self._model, vector, changed)
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
        size = shortlist_size(depth)
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
        self.rows = {row["memory_id"]: row for row in rows if row["memory_id"] is not None}
        return rows

    async def _from_index(
        self, vector: NDArray[np.float32], filter_: Filter, kinds: Sequence[str], depth: int
    ) -> tuple[Nearest, bool]:
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
            chunks *= _CHUNKS_FACTOR
        if self._uses_terms:
            self.is_quantized = True
            similarities = await self._tx.quantized_similarities(self._model, vector, similarities)
        elif self.path == "rescored":
            similarities = await self._tx.similarities(self._model, vector, similarities)
        nearest = _ordered({id_: (kind_of[id_], similarity) for id_, similarity in similarities.items()})
        return dict(islice(nearest.items(), depth)), len(rows) == chunks or len(nearest) > depth

    async def _scan_index(
        self, vector: NDArray[np.float32], filter_: Filter, kinds: Sequence[str], chunks: int
    ) -> list[asyncpg.Record]:
        """Scan the index. Where its order is the rank, the first memories are read as well."""
        if self._uses_terms or filter_.all_names or self.rows or self.path != "exact":
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
        self.rows = {row["memory_id"]: row for row in rows if row["memory_id"] is not None}
        return rows


def _ordered(nearest: Nearest) -> Nearest:
    """Order items by their cosines, the greatest first, and equal ones by their ids."""
    return dict(sorted(nearest.items(), key=lambda item: (-item[1][1], item[0])))
