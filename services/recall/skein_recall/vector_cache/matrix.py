"""A tenant's vectors as a matrix, and the rows nearest to another vector.

Each vector is stored twice: as in the database, and quantized to int8. All quantized vectors are compared, which reads
a quarter of the memory; the residuals of quantization bound the error. Only vectors that may be among the nearest
within that bound, some dozens, are compared exactly. So the result is that of an exact comparison of all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import simsimd

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from numpy.typing import NDArray

    from skein_recall.vector_cache.store import ChunkVectors, TransactionHorizon

    # Tenant, and table and creation of the model: a dropped model's name may come back.
    CacheKey = tuple[UUID, str, datetime]

# Rounding error of a cosine between two orders of summation.
_ROUNDING_ERROR = 1e-5
# Memory of a row beside its vectors.
_ROW_BYTES = 330
# Chunks compared per wanted item.
_CHUNKS_PER_ITEM = 2
# One in so many cosines is sampled to estimate the greatest ones.
_SAMPLE_STEP = 16
# With more than this share of all rows, all are compared, which is faster than gathering them.
_MAX_GATHERED_SHARE = 0.25
# The greatest int8 whose negative is an int8 as well.
_MAX_CODE = 127
# Below any cosine.
_NO_BOUND = -2.0
# The cosine of a hidden row, and the least finite number.
_HIDDEN, _MIN_FLOAT32 = -np.inf, float(np.finfo(np.float32).min)


class QuantizedVectors(NamedTuple):
    """n vectors quantized to int8: each is about its row of `codes` times its scale."""

    # int8 (n, dimensions).
    codes: NDArray[np.int8]
    # float32 (n,).
    scales: NDArray[np.float32]
    # float32 (n,): lengths of the differences to the original vectors.
    residual_norms: NDArray[np.float32]
    # Length of the longest quantized vector.
    max_norm: float

    @classmethod
    def of(cls, vectors: NDArray[np.float32]) -> Self:
        """Quantize vectors (n, dimensions)."""
        scales = (np.abs(vectors).max(axis=1) / _MAX_CODE).astype(np.float32)
        codes = np.rint(vectors / np.where(scales > 0, scales, 1)[:, np.newaxis])
        quantized = codes * scales[:, np.newaxis]
        residuals = vectors - quantized
        return cls(
            codes=codes.astype(np.int8),
            scales=scales,
            residual_norms=np.sqrt(np.vecdot(residuals, residuals)),
            max_norm=math.sqrt(np.vecdot(quantized, quantized).max(initial=0)),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class VectorMatrix:
    """A tenant's chunks at a horizon: the first `count` rows, except those replaced since.

    The other rows are free. A later matrix shares these arrays and fills rows there.
    """

    horizon: TransactionHorizon
    # By the clock of the vector cache.
    read_time: float
    count: int
    item_ids: list[UUID]
    # The rows of each item, including those of later matrices.
    rows_of: dict[UUID, list[int]]
    # bool (rows,) each.
    are_messages: NDArray[np.bool_]
    are_replaced: NDArray[np.bool_]
    # float32 (rows, dimensions).
    vectors: NDArray[np.float32]
    # Quantized, as in `QuantizedVectors`.
    codes: NDArray[np.int8]
    scales: NDArray[np.float32]
    residual_norms: NDArray[np.float32]
    max_norm: float = 0.0

    @classmethod
    def empty(cls, horizon: TransactionHorizon, read_time: float, *, rows: int, dimensions: int) -> VectorMatrix:
        """Return a matrix with room for so many rows."""
        return cls(
            horizon=horizon,
            read_time=read_time,
            count=0,
            item_ids=[],
            rows_of={},
            are_messages=np.zeros(rows, dtype=np.bool_),
            are_replaced=np.zeros(rows, dtype=np.bool_),
            vectors=np.empty((rows, dimensions), dtype=np.float32),
            codes=np.empty((rows, dimensions), dtype=np.int8),
            scales=np.empty(rows, dtype=np.float32),
            residual_norms=np.empty(rows, dtype=np.float32),
        )

    @property
    def byte_size(self) -> int:
        """Its memory in bytes, about."""
        return byte_size(*self.vectors.shape)

    def cosines(self, vector: NDArray[np.float32], rows: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return the cosines (len(rows),) of some rows and a vector (dimensions,)."""
        # The operator `@` would use every core, and wait for each.
        cosines: NDArray[np.float32]
        if len(rows) > _MAX_GATHERED_SHARE * self.count:
            cosines = np.vecdot(self.vectors[: self.count], vector)[rows]
        else:
            cosines = np.vecdot(self.vectors.take(rows, axis=0), vector)
        return cosines

    def mask(self, rows: NDArray[np.intp] | slice, kinds: Sequence[str]) -> NDArray[np.bool_]:
        """Return which of some rows are not replaced, and of one of the kinds."""
        visible = ~self.are_replaced[rows]
        if len(kinds) == 1:
            visible &= self.are_messages[rows] == (kinds[0] == "message")
        return visible

    def nearest(
        self, vector: NDArray[np.float32], kinds: Sequence[str], count: int, *, max_values: float = math.inf
    ) -> tuple[list[UUID], float] | None:
        """Return up to `count` items, the nearest first, and an upper bound of the cosines of all others.

        None when more than `max_values` numbers would have to be compared exactly, because too many are about as near.
        """
        chunks = min(_CHUNKS_PER_ITEM * count, self.count)
        rows = self._candidates(vector, kinds, chunks)
        if rows.size * vector.size > max_values:
            return None
        cosines = self.cosines(vector, rows)
        order = np.argsort(-cosines, kind="stable")[:chunks]
        item_ids: dict[UUID, None] = {}
        bound = _NO_BOUND
        for row, cosine in zip(rows[order].tolist(), cosines[order].tolist(), strict=True):
            if len(item_ids) == count:
                return list(item_ids), cosine
            item_ids[self.item_ids[row]] = None
            bound = cosine
        has_all = len(order) < chunks or chunks == self.count
        return list(item_ids), _NO_BOUND if has_all else bound

    def with_chunks(
        self, new: ChunkVectors, quantized: QuantizedVectors, *, horizon: TransactionHorizon | None = None
    ) -> VectorMatrix | None:
        """Return a matrix with more chunks, of which `quantized` has the vectors; None when there is no room.

        With a later `horizon`, the chunks replace those that their items had.
        """
        end = self.count + len(new.item_ids)
        if end > len(self.vectors):
            return None
        new_ids = set(new.item_ids)
        replaced = self.are_replaced
        if horizon is not None:
            replaced = replaced.copy()
            replaced[: self.count] |= np.fromiter((each in new_ids for each in self.item_ids), np.bool_, self.count)
        # Readers of this matrix use none of these rows.
        self.vectors[self.count : end] = new.vectors
        self.codes[self.count : end] = quantized.codes
        self.scales[self.count : end] = quantized.scales
        self.residual_norms[self.count : end] = quantized.residual_norms
        self.are_messages[self.count : end] = new.are_messages
        self.item_ids.extend(new.item_ids)
        for row, item_id in enumerate(new.item_ids, start=self.count):
            self.rows_of.setdefault(item_id, []).append(row)
        return replace(
            self,
            horizon=horizon or self.horizon,
            count=end,
            are_replaced=replaced,
            max_norm=max(self.max_norm, quantized.max_norm),
        )

    def _candidates(self, vector: NDArray[np.float32], kinds: Sequence[str], count: int) -> NDArray[np.intp]:
        """Return all rows that may be among the `count` nearest, by the quantized vectors.

        For vectors v and w with quantized v' and w', v w - v' w' = v' (w - w') + (v - v') w. Each product is at most
        that of the lengths (Cauchy-Schwarz). So each cosine is known within a margin. The candidates are the rows
        whose greatest possible cosine reaches the `count`-th greatest of the least possible ones.
        """
        # As in `QuantizedVectors.of`, three times as fast for a single vector.
        scale = float(np.abs(vector).max()) / _MAX_CODE or 1.0
        codes = np.rint(vector / scale)
        residual = vector - codes * scale
        products = np.empty((1, self.count), dtype=np.float32)
        query_codes = codes.astype(np.int8)[np.newaxis]
        simsimd.cdist(query_codes, self.codes[: self.count], metric="dot", out=products, out_dtype="float32")
        cosines: NDArray[np.float32] = products[0]
        cosines *= self.scales[: self.count]
        cosines *= scale
        if len(kinds) == 1 or self.are_replaced[: self.count].any():
            cosines[~self.mask(slice(self.count), kinds)] = _HIDDEN
        margins = self.residual_norms[: self.count] * math.sqrt(vector.dot(vector))
        margins += self.max_norm * math.sqrt(residual.dot(residual)) + _ROUNDING_ERROR
        threshold = _kth_greatest(cosines - margins, count)
        cosines += margins
        return np.flatnonzero(cosines >= max(threshold, _MIN_FLOAT32))


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
        max_values: float = math.inf,
    ) -> Self | None:
        """List up to `count` items, the nearest to a vector (dimensions,) first; None as in `VectorMatrix.nearest`."""
        vector = vector.astype(np.float16).astype(np.float32)
        nearest = matrix.nearest(vector, kinds, count, max_values=max_values)
        if nearest is None:
            return None
        item_ids, bound = nearest
        return cls(key=key, matrix=matrix, kinds=kinds, vector=vector, item_ids=item_ids, bound=bound)

    @property
    def horizon(self) -> TransactionHorizon:
        """The horizon at which the matrix had every chunk."""
        return self.matrix.horizon

    @property
    def has_every_item(self) -> bool:
        """Whether every item of the matrix is listed."""
        return self.bound == _NO_BOUND

    def similarities(self, item_ids: Sequence[UUID]) -> NDArray[np.float64]:
        """Return the cosines (len(item_ids),) of the vector and each item's best chunk; NaN for unknown items."""
        no_rows: Sequence[int] = ()
        rows_of, count = self.matrix.rows_of, self.matrix.count
        pairs = [(index, row) for index, id_ in enumerate(item_ids) for row in rows_of.get(id_, no_rows) if row < count]
        items, rows = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
        visible = self.matrix.mask(rows, self.kinds)
        similarities = np.full(len(item_ids), np.nan)
        np.fmax.at(similarities, items[visible], self.matrix.cosines(self.vector, rows[visible]))
        return similarities

    def is_complete(self, cosines: Sequence[float], depth: int) -> bool:
        """Return whether items with these cosines, in descending order, contain the `depth` nearest of all."""
        return self.has_every_item or (len(cosines) >= depth and cosines[depth - 1] >= self.bound + _ROUNDING_ERROR)


def byte_size(rows: int, dimensions: int) -> int:
    """Return the memory in bytes of a matrix."""
    return rows * (5 * dimensions + _ROW_BYTES)


def _kth_greatest(numbers: NDArray[np.float32], k: int) -> float:
    """Return the k-th greatest number. A sample estimates it first, so that few numbers are partitioned."""
    sample = numbers[::_SAMPLE_STEP]
    position = len(sample) - min(len(sample), 2 * k // _SAMPLE_STEP + _SAMPLE_STEP)
    great = numbers[numbers >= np.partition(sample, position)[position]]
    if len(great) < k:
        great = numbers
    kth: float = np.partition(great, len(great) - k)[len(great) - k].item()
    return kth
