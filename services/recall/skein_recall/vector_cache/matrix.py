"""A tenant's vectors as a matrix, and the shortlists made with it.

With exact codes a shortlist states a bound: no other item has a greater cosine. So the database proves the result by
comparing the vectors themselves. With approximate codes it is believed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from skein_recall.vector_cache.codes import ExactCodes
from skein_recall.vector_cache.item_ids import IdIndex, pack_ids, to_uuids
from skein_recall.vector_cache.quantization import QuantizedQuery, to_half_precision

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from numpy.typing import NDArray

    from skein_recall.vector_cache.codes import BitCodes
    from skein_recall.vector_cache.store import ChunkVectors, TransactionHorizon

    # Tenant, and table and creation of the model: a dropped model's name may come back.
    CacheKey = tuple[UUID, str, datetime]

# Memory of a row beside its codes: the id, its place in the index, and two flags.
_ROW_BYTES = 32
# Chunks compared per wanted item.
_CHUNKS_PER_ITEM = 2
# With so many new vectors, or this share of all, the index is faster than a comparison of each.
MAX_NEW, _MAX_NEW_SHARE = 2000, 0.02
# Below any cosine.
_NO_BOUND = -2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class VectorMatrix:
    """A tenant's chunks at a horizon: the first `count` rows, except those hidden since.

    The other rows are free. A later matrix shares these arrays and fills rows there.
    """

    horizon: TransactionHorizon
    # By the clock of the vector cache.
    read_time: float
    count: int
    # uint64 (rows, 2): the item of each row.
    ids: NDArray[np.uint64]
    index: IdIndex
    # bool (rows,) each.
    are_messages: NDArray[np.bool_]
    are_hidden: NDArray[np.bool_]
    codes: ExactCodes | BitCodes
    hidden_count: int = 0

    @classmethod
    def empty(cls, horizon: TransactionHorizon, read_time: float, codes: ExactCodes | BitCodes) -> VectorMatrix:
        """Return a matrix without chunks, with room for as many as its codes have."""
        rows = codes.capacity
        return cls(
            horizon=horizon,
            read_time=read_time,
            count=0,
            ids=np.empty((rows, 2), dtype=np.uint64),
            index=IdIndex(),
            are_messages=np.zeros(rows, dtype=np.bool_),
            are_hidden=np.zeros(rows, dtype=np.bool_),
            codes=codes,
        )

    @property
    def byte_size(self) -> int:
        """Its memory in bytes, about."""
        return byte_size(self.codes.capacity, self.codes.dimensions, type(self.codes))

    def mask(self, rows: NDArray[np.integer] | slice, kinds: Sequence[str]) -> NDArray[np.bool_]:
        """Return which of some rows are not hidden, and of one of the kinds."""
        visible = ~self.are_hidden[rows]
        if len(kinds) == 1:
            visible &= self.are_messages[rows] == (kinds[0] == "message")
        return visible

    def rows_of(self, ids: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
        """Return the pairs (positions, rows) of each of some ids (n, 2) and its rows, in no order."""
        return self.index.find(self.ids, ids)

    def nearest(
        self,
        vector: NDArray[np.float32],
        kinds: Sequence[str],
        count: int,
        *,
        among: NDArray[np.uint64] | None = None,
        max_values: float = math.inf,
    ) -> tuple[list[UUID], float] | None:
        """Return up to `count` items, the nearest first, and an upper bound of the cosines of all others.

        With `among` (n, 2), only the items with these ids count. None when more than `max_values` numbers would have to
        be compared exactly, because too many are about as near.
        """
        rows: NDArray[np.int32] | slice = slice(self.count)
        compared_count = self.count
        if among is not None:
            rows = self.rows_of(among)[1]
            compared_count = len(rows)
        chunks = min(_CHUNKS_PER_ITEM * count, compared_count)
        if not chunks:
            return [], _NO_BOUND
        hidden = ~self.mask(rows, kinds) if len(kinds) == 1 or self.hidden_count else None
        nearest = self.codes.nearest(vector, rows, hidden, chunks, count=self.count, max_values=max_values)
        if nearest is None:
            return None
        item_ids: dict[UUID, None] = {}
        bound = _NO_BOUND
        for item_id, cosine in zip(to_uuids(self.ids[nearest.rows]), nearest.cosines.tolist(), strict=True):
            if len(item_ids) == count:
                return list(item_ids), cosine + nearest.margin
            item_ids[item_id] = None
            bound = cosine + nearest.margin
        has_all = len(nearest.rows) < chunks or chunks == compared_count
        return list(item_ids), _NO_BOUND if has_all else bound

    def with_chunks(self, new: ChunkVectors, *, horizon: TransactionHorizon | None = None) -> VectorMatrix | None:
        """Return a matrix with more chunks; None when there is no room.

        With a later `horizon`, the chunks replace those that their items had.
        """
        end = self.count + len(new.ids)
        if end > self.codes.capacity:
            return None
        matrix = self if horizon is None else self.without_rows(self.rows_of(new.ids)[1])
        # Readers of this matrix use none of these rows.
        codes = self.codes.with_vectors(self.count, new.vectors)
        self.are_messages[self.count : end] = new.are_messages
        self.ids[self.count : end] = new.ids
        return replace(
            matrix,
            horizon=horizon or self.horizon,
            count=end,
            index=self.index.with_rows(new.ids, self.count),
            codes=codes,
        )

    def without_rows(self, rows: NDArray[np.integer]) -> VectorMatrix:
        """Return a matrix in which some rows are hidden."""
        if not len(rows):
            return self
        are_hidden = self.are_hidden.copy()
        are_hidden[rows] = True
        return replace(self, are_hidden=are_hidden, hidden_count=int(np.count_nonzero(are_hidden[: self.count])))

    def without_items_beyond(self, ids: NDArray[np.uint64], read_time: float) -> VectorMatrix:
        """Return a matrix without the chunks of items that are not among some ids (n, 2), as read at a time.

        The codes of these chunks are erased, in earlier matrices too: nothing shall keep them.
        """
        known = np.zeros(self.count, dtype=np.bool_)
        known[self.rows_of(ids)[1]] = True
        gone = np.flatnonzero(~known)
        self.codes.erase(gone)
        return replace(self.without_rows(gone), read_time=read_time)


@dataclass(frozen=True, kw_only=True, slots=True)
class Shortlist:
    """The items that may be nearest to a vector, by a tenant's cached vectors."""

    key: CacheKey
    matrix: VectorMatrix
    kinds: tuple[str, ...]
    # float32 (dimensions,), rounded to half precision as in the database.
    vector: NDArray[np.float32]
    item_ids: Sequence[UUID]
    # By exact codes: no other item at the horizon has a greater cosine.
    bound: float

    @classmethod
    def of_matrix(
        cls,
        key: CacheKey,
        matrix: VectorMatrix,
        vector: NDArray[np.float32],
        kinds: tuple[str, ...],
        count: int,
        *,
        among: NDArray[np.uint64] | None = None,
        max_values: float = math.inf,
    ) -> Self | None:
        """List about `count` items, the nearest to a vector (dimensions,) first; more by approximate codes.

        `among`, `max_values` and None are as in `VectorMatrix.nearest`.
        """
        vector = to_half_precision(vector)
        count = matrix.codes.listed_items(count)
        nearest = matrix.nearest(vector, kinds, count, among=among, max_values=max_values)
        if nearest is None:
            return None
        item_ids, bound = nearest
        return cls(key=key, matrix=matrix, kinds=kinds, vector=vector, item_ids=item_ids, bound=bound)

    @property
    def horizon(self) -> TransactionHorizon:
        """The horizon at which the matrix had every chunk."""
        return self.matrix.horizon

    @property
    def max_new(self) -> int:
        """As many chunks as the database compares of those that were written since the horizon."""
        return max(MAX_NEW, int(_MAX_NEW_SHARE * self.matrix.count))

    @property
    def has_every_item(self) -> bool:
        """Whether every item of the matrix is listed."""
        return self.bound == _NO_BOUND

    @property
    def is_exact(self) -> bool:
        """Whether the bound holds, and cosines are known."""
        return self.matrix.codes.is_exact

    def similarities(self, item_ids: Sequence[UUID]) -> NDArray[np.float64]:
        """Return the cosines (len(item_ids),) of the vector and each item's best chunk; NaN for unknown items.

        By approximate codes all are unknown.
        """
        similarities = np.full(len(item_ids), np.nan)
        matrix = self.matrix
        if isinstance(matrix.codes, ExactCodes):
            items, rows = matrix.rows_of(pack_ids(item_ids))
            visible = matrix.mask(rows, self.kinds)
            cosines = matrix.codes.cosines(QuantizedQuery.of(self.vector), rows[visible], matrix.count)
            np.fmax.at(similarities, items[visible], cosines)
        return similarities

    def is_complete(self, cosines: Sequence[float], depth: int) -> bool:
        """Return whether items with these cosines, in descending order, contain the `depth` nearest of all.

        By approximate codes, whether they are enough.
        """
        has_enough = len(cosines) >= depth and (not self.is_exact or cosines[depth - 1] >= self.bound)
        return self.has_every_item or has_enough


def byte_size(rows: int, dimensions: int, codes: type[ExactCodes | BitCodes] = ExactCodes) -> int:
    """Return the memory in bytes of a matrix."""
    return rows * (codes.row_bytes(dimensions) + _ROW_BYTES)
