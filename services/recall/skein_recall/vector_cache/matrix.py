"""A tenant's vectors as a matrix, and the rows nearest to another vector.

Each vector is stored as two int8 numbers per dimension. The first ones of all vectors are compared, which reads half of
the memory; the residuals of quantization bound the error. Only vectors that may be among the nearest within that bound,
some dozens, are compared by both numbers. What these leave out is part of the bound that a shortlist states, and the
database compares the vectors themselves. So the result is that of an exact comparison of all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from skein_recall.vector_cache.item_ids import IdIndex, pack_ids, to_uuids
from skein_recall.vector_cache.quantization import QuantizedQuery, QuantizedVectors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from numpy.typing import NDArray

    from skein_recall.vector_cache.store import ChunkVectors, TransactionHorizon

    # Tenant, and table and creation of the model: a dropped model's name may come back.
    CacheKey = tuple[UUID, str, datetime]

# Memory of a row beside its codes: the id, its place in the index, a scale, a residual and two flags.
_ROW_BYTES = 40
# Chunks compared per wanted item.
_CHUNKS_PER_ITEM = 2
# With so many new vectors, or this share of all, the index is faster than a comparison of each.
MAX_NEW, _MAX_NEW_SHARE = 2000, 0.02
# One in so many cosines is sampled to estimate the greatest ones.
_SAMPLE_STEP = 16
# With more than this share of all rows, all are compared, which is faster than gathering them.
_MAX_GATHERED_SHARE = 0.25
# Below any cosine.
_NO_BOUND = -2.0
# The cosine of a hidden row, and the least finite number.
_HIDDEN, _MIN_FLOAT32 = -np.inf, float(np.finfo(np.float32).min)


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
    # As in `QuantizedVectors`, for all rows.
    codes: NDArray[np.int8]
    fine_codes: NDArray[np.int8]
    scales: NDArray[np.float32]
    residual_norms: NDArray[np.float32]
    max_norm: float = 0.0
    max_fine_residual: float = 0.0
    hidden_count: int = 0

    @classmethod
    def empty(cls, horizon: TransactionHorizon, read_time: float, *, rows: int, dimensions: int) -> VectorMatrix:
        """Return a matrix with room for so many rows."""
        return cls(
            horizon=horizon,
            read_time=read_time,
            count=0,
            ids=np.empty((rows, 2), dtype=np.uint64),
            index=IdIndex(),
            are_messages=np.zeros(rows, dtype=np.bool_),
            are_hidden=np.zeros(rows, dtype=np.bool_),
            codes=np.empty((rows, dimensions), dtype=np.int8),
            fine_codes=np.empty((rows, dimensions), dtype=np.int8),
            scales=np.empty(rows, dtype=np.float32),
            residual_norms=np.empty(rows, dtype=np.float32),
        )

    @property
    def byte_size(self) -> int:
        """Its memory in bytes, about."""
        return byte_size(*self.codes.shape)

    def cosines(self, query: QuantizedQuery, rows: NDArray[np.integer]) -> NDArray[np.float32]:
        """Return the cosines (len(rows),) of some rows and a vector, to within `query.fine_margin`."""
        if len(rows) > _MAX_GATHERED_SHARE * self.count:
            count = self.count
            cosines = query.fine_products(self.codes[:count], self.fine_codes[:count], self.scales[:count])
            return cosines.take(rows)
        return query.fine_products(
            self.codes.take(rows, axis=0), self.fine_codes.take(rows, axis=0), self.scales.take(rows)
        )

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
        query = QuantizedQuery.of(vector)
        compared = None if among is None else self.rows_of(among)[1]
        compared_count = self.count if compared is None else len(compared)
        chunks = min(_CHUNKS_PER_ITEM * count, compared_count)
        rows = self._candidates(query, kinds, chunks, compared)
        if rows.size * vector.size > max_values:
            return None
        cosines = self.cosines(query, rows)
        order = np.argsort(-cosines, kind="stable")[:chunks]
        margin = query.fine_margin(self.max_norm, self.max_fine_residual)
        item_ids: dict[UUID, None] = {}
        bound = _NO_BOUND
        for item_id, cosine in zip(to_uuids(self.ids[rows[order]]), cosines[order].tolist(), strict=True):
            if len(item_ids) == count:
                return list(item_ids), cosine + margin
            item_ids[item_id] = None
            bound = cosine + margin
        has_all = len(order) < chunks or chunks == compared_count
        return list(item_ids), _NO_BOUND if has_all else bound

    def with_chunks(self, new: ChunkVectors, *, horizon: TransactionHorizon | None = None) -> VectorMatrix | None:
        """Return a matrix with more chunks; None when there is no room.

        With a later `horizon`, the chunks replace those that their items had.
        """
        end = self.count + len(new.ids)
        if end > len(self.codes):
            return None
        quantized = QuantizedVectors.of(new.vectors)
        matrix = self if horizon is None else self.without_rows(self.rows_of(new.ids)[1])
        # Readers of this matrix use none of these rows.
        self.codes[self.count : end] = quantized.codes
        self.fine_codes[self.count : end] = quantized.fine_codes
        self.scales[self.count : end] = quantized.scales
        self.residual_norms[self.count : end] = quantized.residual_norms
        self.are_messages[self.count : end] = new.are_messages
        self.ids[self.count : end] = new.ids
        return replace(
            matrix,
            horizon=horizon or self.horizon,
            count=end,
            index=self.index.with_rows(new.ids, self.count),
            max_norm=max(self.max_norm, quantized.max_norm),
            max_fine_residual=max(self.max_fine_residual, quantized.max_fine_residual),
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
        for array in (self.codes, self.fine_codes, self.scales):
            array[gone] = 0
        return replace(self.without_rows(gone), read_time=read_time)

    def _candidates(
        self, query: QuantizedQuery, kinds: Sequence[str], count: int, compared: NDArray[np.int32] | None
    ) -> NDArray[np.integer]:
        """Return all rows that may be among the `count` nearest, by their codes; of the `compared` rows, else of all.

        Each cosine is known within a margin. The candidates are the rows whose greatest possible cosine reaches the
        `count`-th greatest of the least possible ones.
        """
        if not count:
            return np.empty(0, dtype=np.intp)
        rows = slice(self.count) if compared is None else compared
        cosines = query.products(self.codes[rows], self.scales[rows])
        if len(kinds) == 1 or self.hidden_count:
            cosines[~self.mask(rows, kinds)] = _HIDDEN
        margins = query.margins(self.residual_norms[rows], self.max_norm)
        threshold = _kth_greatest(cosines - margins, count)
        cosines += margins
        candidates = np.flatnonzero(cosines >= max(threshold, _MIN_FLOAT32))
        return candidates if compared is None else compared[candidates]


@dataclass(frozen=True, kw_only=True, slots=True)
class Shortlist:
    """The items that may be nearest to a vector, by a tenant's cached vectors."""

    key: CacheKey
    matrix: VectorMatrix
    kinds: tuple[str, ...]
    # float32 (dimensions,), rounded to half precision as in the database.
    vector: NDArray[np.float32]
    item_ids: Sequence[UUID]
    # No other item at the horizon has a greater cosine.
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
        """List up to `count` items, the nearest to a vector (dimensions,) first.

        `among`, `max_values` and None are as in `VectorMatrix.nearest`.
        """
        vector = vector.astype(np.float16).astype(np.float32)
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

    def similarities(self, item_ids: Sequence[UUID]) -> NDArray[np.float64]:
        """Return the cosines (len(item_ids),) of the vector and each item's best chunk; NaN for unknown items."""
        items, rows = self.matrix.rows_of(pack_ids(item_ids))
        visible = self.matrix.mask(rows, self.kinds)
        similarities = np.full(len(item_ids), np.nan)
        query = QuantizedQuery.of(self.vector)
        np.fmax.at(similarities, items[visible], self.matrix.cosines(query, rows[visible]))
        return similarities

    def is_complete(self, cosines: Sequence[float], depth: int) -> bool:
        """Return whether items with these cosines, in descending order, contain the `depth` nearest of all."""
        return self.has_every_item or (len(cosines) >= depth and cosines[depth - 1] >= self.bound)


def byte_size(rows: int, dimensions: int) -> int:
    """Return the memory in bytes of a matrix."""
    return rows * (2 * dimensions + _ROW_BYTES)


def _kth_greatest(numbers: NDArray[np.float32], k: int) -> float:
    """Return the k-th greatest number. A sample estimates it first, so that few numbers are partitioned."""
    sample = numbers[::_SAMPLE_STEP]
    position = len(sample) - min(len(sample), 2 * k // _SAMPLE_STEP + _SAMPLE_STEP)
    great = numbers[numbers >= np.partition(sample, position)[position]]
    if len(great) < k:
        great = numbers
    kth: float = np.partition(great, len(great) - k)[len(great) - k].item()
    return kth
